# The front door. `make demo` and `make test` do all set-up themselves.
PYTHON ?= python3
EXTRAS ?= dev
VENV   := .venv
BIN    := $(VENV)/bin
ANVIL  := @foundry-rs/anvil@1.7.1
AXE    := axe-core@4.14.0
comma  := ,
READY  := $(VENV)/.ready-$(subst $(comma),-,$(EXTRAS))
# Tests wait for disks and for other processes during half of their time: so there are twice as many
# workers as cores, and files are in memory where it has 8 GB to spare. A worker takes a whole file,
# the longest first (tests/conftest.py).
MEMORY  = $(shell test "$$(df --output=avail /dev/shm 2>&1 | tail -n 1)" -gt 8000000 2>&1 && echo /dev/shm)
PYTEST  = $(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest
WORKERS = $$((2 * $$(getconf _NPROCESSORS_ONLN)))
SHARED  = $(PYTEST) --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder
# Packages that `make` by itself does not install, though some tests use them: the extra crosscheck.
OPTIONAL = $(shell sed -n 's/^crosscheck = //p' pyproject.toml | grep -oE '"[a-z0-9-]+' | tr -d '"')
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes: each would compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help ready demo test test-fast cover test-plain test-long anvil axe screens reference lint format bench package clean

help:
	@echo "make demo    set up, then the whole system live: nodes, a chain, damage, repair; about a minute"
	@echo "make test    set up, then run all tests; names what it skipped"
	@echo "make test-fast  set up, then run the tests that take less than a quarter of a second each; under 90 seconds"
	@echo "make cover   make test, and which lines it reached"
	@echo "make test-plain  uninstall the packages of the extra crosscheck, then run the tests that name one"
	@echo "make test-long  the tests that last: a year of 1,000 holdings, 200 kills on each database, 1,000 seeds with faults, a soak of 30 minutes"
	@echo "make anvil   install a chain for the tests, where npm is present; make test does it too"
	@echo "make axe     install what looks for barriers in the dashboard, where npm is present; make test does it too"
	@echo "make screens draw the pictures of docs/dashboard.md and of the demo anew"
	@echo "make reference  write docs/reference and the modules of docs/architecture.md from the code"
	@echo "make lint    formatting, lint rules, types"
	@echo "make format  rewrite the sources in our format"
	@echo "make bench   measure, as ratios against named references"
	@echo "make package build the wheel, install it alone into a clean environment, and use it there"
	@echo "make clean   remove the virtual environment and everything built"

$(READY): pyproject.toml constraints.txt
	@echo "==> making the virtual environment in $(VENV) and installing holdfast[$(EXTRAS)]"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	@rm -f $(VENV)/.ready-* && touch $@

ready: $(READY)

# It needs little: the rest is installed only by what needs it, and used if it is there.
demo:
	@$(MAKE) --no-print-directory ready EXTRAS=$(if $(wildcard $(READY)),$(EXTRAS),demo)
	@echo "==> holdfast demo: four weeks of audits in less than a minute"
	@$(BIN)/holdfast demo

anvil: $(READY)
	@test -d $(VENV)/anvil/node_modules || if command -v npm >/dev/null; \
	then echo "==> installing anvil" && npm install --silent --prefix $(VENV)/anvil $(ANVIL); \
	else echo "==> no npm: the tests on anvil will be skipped"; fi

axe: $(READY)
	@test -d $(VENV)/axe/node_modules || if command -v npm >/dev/null; \
	then echo "==> installing axe-core" && npm install --silent --prefix $(VENV)/axe $(AXE); \
	else echo "==> no npm: the tests by axe-core will be skipped"; fi

screens: $(READY)
	@echo "==> the dashboard's pictures"
	@$(BIN)/python -m tests.browser.screens
	@echo "==> the demo's picture"
	@$(BIN)/python -m tests.demo.picture

reference: $(READY)
	@echo "==> docs/reference and the modules of docs/architecture.md"
	@$(BIN)/python -m holdfast.cli.reference docs/reference
	@$(BIN)/python -m tests.docs.architecture

test: $(READY) anvil axe
	@echo "==> the tests, on all cores"
	@$(SHARED)

test-fast: $(READY)
	@echo "==> the tests that are not marked slow, on all cores"
	@$(SHARED) -m "not slow"

cover: $(READY) anvil axe
	@echo "==> the tests, with the lines they reach counted"
	@$(SHARED) --cov --cov-report=term

test-plain: $(READY)
	@echo "==> the tests that name one of these, without them: $(OPTIONAL)"
	@$(BIN)/python -m pip uninstall -qq --yes $(OPTIONAL) && rm -f $(VENV)/.ready-*crosscheck*
	@$(SHARED) $$(grep -rlF --include='test_*.py' \
	  $(foreach name,$(OPTIONAL),-e $(subst -,_,$(name))) tests)

test-long: $(READY) anvil
	@echo "==> the tests that have a long form, in it"
	@HOLDFAST_LONG=1 $(BIN)/python -m pytest $$(grep -rl HOLDFAST_LONG --include='test_*.py' tests)

lint: $(READY)
	@echo "==> ruff format, ruff check, mypy"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)
	@echo "==> holdfast bench pdp"
	@$(BIN)/holdfast bench pdp

package: $(READY)
	@echo "==> the wheel, in an environment of its own without extras"
	@rm -rf $(VENV)/wheel $(VENV)/clean
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(VENV)/wheel .
	@$(PYTHON) -m venv $(VENV)/clean
	@$(VENV)/clean/bin/python -m pip install --quiet $(VENV)/wheel/holdfast-*.whl
	@cd $(VENV)/clean && ./bin/python -c 'import importlib.util as u, sys; \
	  sys.exit(", ".join(m for m in ("jax", "torch", "web3") if u.find_spec(m)) or None)'
	@echo "==> holdfast demo --seconds 20"
	@cd $(VENV)/clean && ./bin/holdfast demo --seconds 20
	@echo "==> holdfast evaluate"
	@cd $(VENV)/clean && ./bin/holdfast evaluate --policy drqn-cmdp-plus --policy fixed-high --episodes 100

clean:
	@echo "==> removing what was built"
	@rm -rf $(VENV) build dist htmlcov .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
