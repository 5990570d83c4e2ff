PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint chaos clean

demo: $(VENV)/.for-use
	$(BIN)/python -m tuner.demo

lint: $(VENV)/.for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# a file's tests stay together: they share what is dear to set up
test: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

chaos: $(VENV)/.for-tests
	$(BIN)/python -m tests.chaos

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
