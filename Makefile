PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint suite chaos soak audit clean

demo: $(VENV)/.for-use
	$(BIN)/python -m tuner.cli.demo

lint: $(VENV)/.for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

test: $(VENV)/.for-tests
	$(MAKE) --jobs 2 lint suite

# A file's tests stay together: they share what is dear to set up. Three files at once on two cores,
# as many wait for processes of their own; in order of their names, so that the longest come first.
# Each of some 500 processes would make a thread of linear algebra, which spins, for each core.
# Each would also compile this project anew, if an environment forbids to keep what was compiled.
suite: export OPENBLAS_NUM_THREADS = 1
suite: export PYTHONDONTWRITEBYTECODE =
suite: $(VENV)/.for-tests
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

chaos: $(VENV)/.for-tests
	$(BIN)/python -m tests.chaos --write docs/benchmarks/chaos

soak: $(VENV)/.for-tests
	$(BIN)/python -m tests.soak --write docs/benchmarks/soak

# asks a public database, which a machine without a network can't reach; a package that is not
# found there is an error, or an audit of nothing would look green
audit: $(VENV)/.for-tests
	$(PIP) pip-audit
	$(BIN)/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip --progress-spinner off

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.for-use: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[cuda]'
	touch $@

$(VENV)/.for-tests: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
