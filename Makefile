# The commands of the README: `make demo`, `make test` and, with a GPU, `make test-gpu`. Each installs into .venv on its
# first use only.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-gpu lint clean

demo: .venv/.installed
	$(BIN)/unihssl demo

test: .venv/.installed-dev lint
	$(BIN)/python -m pytest

test-gpu: .venv/.installed-dev
	$(BIN)/python -m pytest -m gpu

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
