# The commands of the README: `make demo`, `make test` and, with a GPU, `make test-gpu`; `make docs` builds the site and
# `make dist` the archives of a release; `make fuzz` reads bad input for ten minutes, `make faults` kills commands,
# fills their disk and denies them access wherever they write. Each installs into .venv on its first use only.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-gpu fuzz faults lint docs dist clean

demo: .venv/.installed
	$(BIN)/unihssl demo

test: .venv/.installed-dev lint
	$(BIN)/python -m pytest

test-gpu: .venv/.installed-dev
	$(BIN)/python -m pytest -m gpu

fuzz: .venv/.installed-dev
	CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/fuzz.py --seconds 600 --seed 0

faults: .venv/.installed-dev
	CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1 $(BIN)/python tests/faults/faults.py --seconds 840 --seed 0

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.installed-dev
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo docs/_build/html/index.html

dist: .venv/.installed-dev
	rm -rf dist build
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache docs/_build dist build
