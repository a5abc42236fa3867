# Every target makes what it needs: on a fresh machine `make run` and `make test` are all the set-up there is.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
COMPILED := build/compiled/lib
ARGS   ?= start
NETS   := tests/simulation/test_explorer.py tests/simulation/test_mutants.py
CAN_COMPILE = command -v cc >/dev/null && $(BIN)/python -c \
	'import os, sysconfig; raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'

.PHONY: help run test test-pure test-cluster test-compiled run-compiled sim explore chaos check format docs compat compiled bench clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: $(VENV)/.core  ## Start a broker with the core install; ARGS="log dump --help" runs another command
	@$(BIN)/ottla $(ARGS)

test: check test-pure test-cluster sim test-compiled  ## Everything that must hold before a change lands

test-pure: $(VENV)/.test
	$(BIN)/pytest -q -n 2 --dist loadfile --ignore=tests/cluster $(NETS:%=--ignore=%)

# The same tests on the compiled modules. PYTHONSAFEPATH keeps the sources in this directory from standing in for them.
test-compiled: $(VENV)/.test
	@if $(CAN_COMPILE); then $(MAKE) --no-print-directory run-compiled; \
	else echo "the compiled modules are not tested: there is no C compiler, or no Python.h (Debian: gcc, python3-dev)"; fi

run-compiled: compiled
	PYTHONSAFEPATH=1 PYTHONPATH=$(COMPILED) OTTLA_EXPECT_COMPILED=1 $(BIN)/pytest -q -n 2 --dist loadfile \
		tests/unit/records tests/unit/storage tests/unit/cli/dump tests/unit/cli/inspection \
		tests/unit/protocol/test_exchange.py tests/unit/replication \
		tests/unit/broker/test_shortcut.py tests/unit/broker/test_intake.py tests/unit/client/producer \
		tests/property/test_records_*.py \
		tests/property/test_log_machine.py tests/property/test_storage_fuzz.py

SEEDS ?= 0-1049
BROKER_SEEDS ?= 0-104

sim: $(VENV)/.test  ## Simulate clusters: SEEDS on objects, BROKER_SEEDS whole brokers, then the explorer and the mutants
	$(BIN)/ottla sim --seeds $(SEEDS) --jobs 2
	$(BIN)/ottla sim --level brokers --seeds $(BROKER_SEEDS) --jobs 2
	$(BIN)/pytest -q -n 2 --dist load $(NETS)

explore: $(VENV)/.test  ## Draw new examples for the property tests, EXAMPLES=5000 of them for the log
	OTTLA_EXPLORE=$(or $(EXAMPLES),2000) $(BIN)/pytest -q -n 2 --dist loadfile --timeout 3600 tests/property

test-cluster: $(VENV)/.test  ## Break a cluster of processes and a real ZooKeeper in every way, a few times each
	$(BIN)/pytest -q tests/cluster

chaos: $(VENV)/.test  ## Kill brokers and workers under load, ROUNDS=20 times, break clusters; write tests/chaos/*.md
	rm -rf build/cluster
	OTTLA_CHAOS_ROUNDS=$(or $(ROUNDS),20) $(BIN)/pytest -q --timeout 3600 tests/chaos tests/cluster

check: $(VENV)/.test  ## Lint, format, types, layers, house rules, generated documentation
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_architecture.py tests/test_style.py tests/test_docs.py

format: $(VENV)/.test  ## Let ruff lay out the code
	$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format -q .

docs: $(VENV)/.test  ## Write docs/reference anew from the tables in the code
	$(BIN)/python -m tests.docs

compat: $(VENV)/.test  ## Run the real clients, and write COMPATIBILITY.md from what came out
	rm -rf build/compat
	-OTTLA_COMPATIBILITY=build/compat $(BIN)/pytest -q -n 2 --dist loadfile tests/interop
	$(BIN)/python -m tests.interop.compatibility build/compat

compiled: $(COMPILED)/.built  ## Build the optional mypyc tree under build/compiled

bench: $(VENV)/.test  ## Measure; ratios within one run (ONLY="log records" picks some)
	@if $(CAN_COMPILE); then $(MAKE) --no-print-directory compiled; fi
	$(BIN)/python -m bench $(ONLY)

clean:  ## Remove what was built, and the virtual environment
	rm -rf build dist *.egg-info $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/pip pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/bin/pip pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.core

$(COMPILED)/.built: $(VENV)/.test setup.py $(shell find ottla -name '*.py' 2>/dev/null)
	rm -rf $(COMPILED)
	OTTLA_COMPILE=1 $(BIN)/python -W ignore setup.py -q build --build-base build/compiled --build-lib $(COMPILED)
	@touch $@
