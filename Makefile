# A machine with Python 3.11 to 3.13, pip and make is enough: `make demo`, `make test`.
# Another interpreter: make test PYTHON=python3.13

VENV ?= .venv
JOBS ?= 2

# the first interpreter on PATH that is new enough
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1 \
	&& { echo "$$p"; break; }; done)
endif
VERSION := $(shell "$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)

PY := $(VENV)/bin/python
READY := $(VENV)/ready-$(VERSION)
DEV := $(READY)-dev
CLI := $(READY)-cli

# compiled kernels: the package keeps each state of its sources, and checked code, apart
CACHE := $(CURDIR)/$(VENV)/numba

BENCH = NUMBA_CACHE_DIR=$(CACHE) BENCH_FOLDER=$(CURDIR)/$(VENV)/bench $(PY) -m bench
# what a run of a peer may take; with the papers' 30 it is some hours
SECONDS ?= 2

.PHONY: help demo test lint types tests warm checked nojit bench bench-full bench-docs bench-check bench-keep bench-spark soak kill faults fuzz clean python

help:  ## what there is
	@grep -E '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(CLI)  ## recognise frauds in 20,000 sample payments, then the same on Spark, in files and as a stream
	@NUMBA_CACHE_DIR=$(CACHE) $(VENV)/bin/ceql demo
	@echo
	@NUMBA_CACHE_DIR=$(CACHE) $(VENV)/bin/ceql demo --spark

test: lint types tests checked nojit  ## everything that must hold: lint, types, the suite in three ways

lint: $(DEV)  ## ruff
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(DEV)  ## mypy --strict
	$(PY) -m mypy

warm: $(DEV)
	@echo "compiling the kernels ..."
	@NUMBA_CACHE_DIR=$(CACHE) $(VENV)/bin/ceql demo >/dev/null

tests: warm  ## the suite, documentation included
	NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n $(JOBS) --dist worksteal

checked: $(DEV)  ## the engine in tiny buffers, every index checked
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n $(JOBS) tests/engine/test_engine.py -k tiny

nojit: $(DEV)  ## the corpus on the kernels as plain Python
	NUMBA_DISABLE_JIT=1 $(PY) -m pytest -n $(JOBS) tests/engine/test_engine.py -k "corpus and not tiny"

bench: $(DEV)  ## our engine against what runs beside it: naive evaluation, polars, DuckDB; five minutes
	$(BENCH) quick

bench-full: $(DEV)  ## all experiments against all peers (CORE, Flink CEP, ...), about an hour; goes on where it was
	$(BENCH) full --seconds $(SECONDS)

bench-docs: $(DEV)  ## docs/benchmarks.md from the newest full run
	$(BENCH) docs

bench-check: $(DEV)  ## fail if a ratio is a fifth worse than in bench/baseline.json; three minutes
	$(BENCH) check

bench-keep: $(DEV)  ## make the ratios of the newest full run the baseline
	$(BENCH) keep

bench-spark: $(DEV)  ## the experiment on Spark alone, ten million rows
	$(BENCH) full --only spark --events 5000000

soak: $(DEV)  ## memory over a hundred million events
	NUMBA_CACHE_DIR=$(CACHE) $(PY) -m bench.soak

kill: $(DEV)  ## kill a streaming query on Spark twenty times, and its workers: each match comes out once
	CEQL_KILLS=20 NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest tests/spark/test_kill.py

faults: $(DEV)  ## exceptions at every line of a feed, and signals: nothing is lost and nothing found twice
	CEQL_FAULTS=0 NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n $(JOBS) tests/faults

fuzz: SECONDS = 600
fuzz: $(DEV)  ## search for SECONDS=600 for random cases that differ from the oracle, with a new seed each time
	NUMBA_CACHE_DIR=$(CACHE) PYTHONPATH=tests/helpers:tests/spark $(PY) tests/fuzz.py --seconds $(SECONDS) --processes $(JOBS) $(FUZZ)

clean:  ## remove all that was made here
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@case "$(VERSION)" in \
	3.11|3.12|3.13) ;; \
	"") echo "No Python 3.11 to 3.13 found. Install one, or name it: make ... PYTHON=/path/to/python3.12" >&2; exit 1 ;; \
	*) echo "$(PYTHON) is Python $(VERSION); ceql needs 3.11, 3.12 or 3.13: make ... PYTHON=python3.12" >&2; exit 1 ;; \
	esac

# `--clear`: an environment of another version must not be reused
$(READY): | python
	"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

$(CLI): $(READY) pyproject.toml
	$(PY) -m pip install --quiet -e '.[cli,spark]'
	@touch $@

$(DEV): $(READY) pyproject.toml
	$(PY) -m pip install --quiet -e '.[dev]'
	@touch $@ $(CLI)
