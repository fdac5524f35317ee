# Everything runs in .venv, which the first command makes and later ones bring up to date.
PYTHON ?= python3
BIN := .venv/bin
FAMILY ?= all
JOBS ?= 2

.PHONY: help demo study test test-all check format bench simulate faults clean

help:  ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

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

format: .venv/installed-test  ## Let ruff tidy up
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-bench  ## Time assay beside its peers: make bench FAMILY=linear
	$(BIN)/python -m benchmarks $(FAMILY)

simulate: .venv/installed-test  ## Long simulations; their tables go to docs/
	$(BIN)/python -m simulations

faults: .venv/installed-test  ## Kill studies at random moments and see that nothing is lost; the table goes to docs/
	$(BIN)/python -m simulations faults

clean:  ## Remove the environment and everything made
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
