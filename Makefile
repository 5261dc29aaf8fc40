# The commands of the README: `make demo`, `make test` and, with a GPU, `make test-gpu`; `make docs` builds the site and
# `make dist` the archives of a release; `make fuzz` reads bad input, 20,000 cases or 25 minutes, `make faults` kills
# commands, fills their disk and denies them access wherever they write, `make soak` uses one process for long, `make
# mutation` changes the equations and sees whether a test fails, `make coverage` says what no test runs. Each installs
# into .venv on its first use only, from archives whose hashes are checked (scripts/lock.sh writes them). `make
# test-lowest` and `make test-newest` run the core tests with the oldest and the newest packages that pyproject.toml
# allows.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check
CORE := $(addprefix tests/,data evaluation methods models training test_config.py test_estimator.py test_losses.py)
CORE += --ignore tests/methods/test_baseline_losses.py # compares with packages that pin others
CORE_PACKAGES := -e '.[plots]' pytest pytest-xdist hypothesis

.PHONY: demo test test-gpu test-lowest test-newest fuzz faults soak mutation coverage lint docs dist clean

demo: .venv/.installed
	$(BIN)/unihssl demo
	@echo "The command unihssl is there after: source $(BIN)/activate"

test: .venv/.installed-dev lint
	$(BIN)/python -m pytest

test-gpu: .venv/.installed-dev
	$(BIN)/python -m pytest -m gpu

test-lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python $(PIP) -c constraints-lowest.txt $(CORE_PACKAGES)
	.venv-lowest/bin/python -m pytest $(CORE)

test-newest:
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python $(PIP) $(CORE_PACKAGES)
	.venv-newest/bin/python -m pytest $(CORE)

fuzz: .venv/.installed-dev
	CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/fuzz.py --seconds 1500 --seed 0

soak: .venv/.installed-dev
	CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1 $(BIN)/python tests/soak/soak.py

mutation: .venv/.installed-dev
	CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1 $(BIN)/python tests/mutation/mutate.py

coverage: .venv/.installed-dev
	$(BIN)/python $(PIP) --upgrade --target .coverage-packages --no-deps coverage pytest-cov
	PYTHONPATH=.coverage-packages $(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered

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

.venv/.installed: pyproject.toml requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv: PyTorch and its CUDA packages, 6 GB; this takes minutes"
	$(BIN)/python $(PIP) --require-hashes -r requirements.txt
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.txt
	$(BIN)/python $(PIP) --require-hashes -r requirements-dev.txt
	touch $@

clean:
	rm -rf .venv .venv-lowest .venv-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage-packages .import_linter_cache docs/_build dist build
