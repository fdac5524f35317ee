# Everything runs in .venv, which the first command makes and later ones bring up to date.
PYTHON ?= python3
BIN := .venv/bin
FAMILY ?= all
JOBS ?= 2

.PHONY: help demo study test test-all test-lowest check format bench simulate faults attack clean

help:  ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "assay needs Python 3.11 or newer; call: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed-%: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

.venv/installed: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

demo: .venv/installed  ## A whole study of real data, from table to report, in out/demo
	ASSAY_HOME=out/demo/home $(BIN)/assay demo --out out/demo

study: .venv/installed  ## A regression study by hand, with its pictures in out/study
	$(BIN)/python examples/regression_study.py --out out/study

check: .venv/installed-test  ## Lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## What CI runs: the quick tests
	$(BIN)/assay warm --n-jobs $(JOBS)
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal
	$(BIN)/python examples/regression_study.py --out out/study --quiet

test-all: check  ## All tests, with more examples of each property
	$(BIN)/assay warm --n-jobs $(JOBS)
	$(BIN)/python -m pytest -m "" --hypothesis-profile long --numprocesses $(JOBS) --dist worksteal
	$(BIN)/python examples/regression_study.py --out out/study --quiet

.venv-lowest/installed: pyproject.toml constraints/lowest.txt
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints/lowest.txt --editable '.[test]'
	@touch $@

# The oldest pyarrow uses what pandas has come to deprecate, which is theirs to settle.
test-lowest: .venv-lowest/installed  ## The quick tests with the lowest supported versions, in .venv-lowest
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-lowest/kernels .venv-lowest/bin/assay warm --n-jobs $(JOBS)
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-lowest/kernels .venv-lowest/bin/python -m pytest \
		-W ignore::pandas.errors.Pandas4Warning --numprocesses $(JOBS) --dist worksteal $(TESTS)

format: .venv/installed-test  ## Let ruff tidy up
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-bench  ## Time assay beside its peers: make bench FAMILY=linear
	$(BIN)/python -m benchmarks $(FAMILY)

simulate: .venv/installed-test  ## Long simulations; their tables go to docs/
	$(BIN)/python -m simulations

faults: .venv/installed-test  ## Kill studies at random moments and see that nothing is lost; the table goes to docs/
	$(BIN)/python -m simulations faults

attack: .venv/installed-test  ## Open 5,000 altered model files and 300 crafted ones; the table goes to docs/
	$(BIN)/python -m simulations attack

clean:  ## Remove the environment and everything made
	rm -rf .venv .venv-lowest out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
