PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  := $(VENV)/with-torch
GET    := -m pip install --quiet --disable-pip-version-check --constraint
PIP    := $(BIN)/python $(GET) constraints.txt

.PHONY: demo test lint suite suite-torch chaos soak audit clean

demo: $(VENV)/.for-use
	$(BIN)/python -m tuner.cli.demo

lint: $(TORCH)/.for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy --python-executable $(TORCH)/bin/python

# All at once: each leaves a core idle at times, most of all when its last file is running.
test: $(TORCH)/.for-tests
	$(MAKE) --jobs 3 lint suite suite-torch

# A file's tests stay together: they share what is dear to set up. Four files at once on two cores,
# as many wait for processes of their own; in order of their names, so that the longest come first,
# except the farm's, which wait longest and come before all others.
# Those that need PyTorch run one by one, beside the others: each process of theirs imports it.
# Each of some 500 processes would make a thread of linear algebra, which spins, for each core. So do
# threads of PyTorch's OpenMP after their work, while another file's tests wait for that core.
# Each would also compile this project anew, if an environment forbids to keep what was compiled.
suite suite-torch: export OPENBLAS_NUM_THREADS = 1
suite suite-torch: export OMP_WAIT_POLICY = PASSIVE
suite suite-torch: export PYTHONDONTWRITEBYTECODE =
suite: $(VENV)/.for-tests
	$(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

suite-torch: $(TORCH)/.for-tests
	$(TORCH)/bin/python -m pytest -m torch

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

# PyTorch and, by the .pth file, all that the first environment has. With PyTorch in the first, each
# job of the suite would compile and time its convolutions too, for many minutes in all. Its build for
# GPUs asks for CUDA libraries of other versions than those that are pinned: they are left to it.
$(TORCH)/.for-tests: PACKAGES := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(TORCH)/.for-tests: $(VENV)/.for-tests
	$(BIN)/python -m venv $(TORCH)
	echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES))')" \
	    > "$$($(TORCH)/bin/python $(PACKAGES))/first.pth"
	grep --invert-match '^nvidia-cuda-' constraints.txt > $(TORCH)/constraints.txt
	$(TORCH)/bin/python $(GET) $(TORCH)/constraints.txt torch
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
