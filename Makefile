# Everything a contributor does starts here; `make` lists it.

PYTHON ?= python3
# Where it is set, each of the many processes that tests start would compile all of Horae anew: seconds each.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
PY := $(VENV)/bin/python
EXTRAS := client,server,postgres,mysql,redis,nats,mcp,a2a,langgraph,pydantic-ai,openai-agents,otel,ray,dask,kubernetes,dev
RUN_EXTRAS := client,server
ARGS ?=
# Four processes at a time, each with servers of its own: tests often wait, so that two cores are busy with four.
# `make test PARALLEL=` runs one test after the other.
PARALLEL ?= --numprocesses 4 --dist loadfile --no-loadscope-reorder

# A stamp says "installed with these two files as they are now", so that a second run starts at once. `make run` needs
# the first alone: what runs the service on SQLite, without the drivers of other databases and the tools.
RUN_STAMP := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
SITE_STAMP := $(VENV)/.installed-site

CHECKED := src tests $(wildcard benchmarks scripts docs)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv run quick test coverage lint format bench bench-size soak screenshots pictures docs site lock clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## make .venv with a working .venv/bin/horae (PYTHON=python3.12 picks another interpreter)
	@:

run: $(RUN_STAMP) ## start Horae on SQLite: the service, a worker and example jobs
	@$(VENV)/bin/horae up $(ARGS)

quick: $(STAMP) ## run the tests of most changes: no server, no process (aim: a minute on two cores)
	@$(PY) -m pytest --quick --numprocesses 2 --dist loadfile --quiet $(ARGS)

test: $(STAMP) ## run all tests, with private database servers (ARGS="-k lease" picks some)
	@$(PY) -m tests.support.servers --install
	@$(PY) -m pytest $(PARALLEL) $(ARGS)

coverage: $(STAMP) ## run the quick tests and name the lines of core, actions and service that none of them runs
	@$(PY) -m pytest --quick --numprocesses 2 --dist loadfile --quiet --cov --cov-report=term-missing $(ARGS)

lint: $(STAMP) ## check style, formatting and types
	@$(PY) -m ruff check $(CHECKED)
	@$(PY) -m ruff format --check $(CHECKED)
	@$(PY) -m mypy
	@$(PY) -m scripts.javascript_types

format: $(STAMP) ## format the code and sort imports
	@$(PY) -m ruff check --select I --fix $(CHECKED)
	@$(PY) -m ruff format $(CHECKED)

bench: $(BENCH_STAMP) ## measure Horae beside its peers and the bare database (ARGS=--all: everything; ARGS=--guard: two commits)
	@$(PY) -m tests.support.servers --install
	@$(PY) -m benchmarks $(ARGS)

bench-size: $(STAMP) ## measure counts and lists beside a million live and ten million finished jobs
	@$(PY) -m tests.support.servers --install
	@$(PY) -m benchmarks.size --full $(ARGS)

soak: $(STAMP) ## run for hours under faults and count what was lost
	@$(PY) -m tests.support.servers --install
	@$(PY) -m benchmarks.soak $(ARGS)

screenshots: $(STAMP) ## take pictures of every page of the console, in both themes and languages, into build/screenshots
	@$(PY) -m tests.support.servers --install
	@$(PY) -m scripts.screenshots $(ARGS)

pictures: $(STAMP) ## take the pictures of README and the documentation again, into docs/img
	@$(PY) -m tests.support.servers --install
	@$(PY) -m scripts.pictures $(ARGS)

docs: $(STAMP) ## write the generated reference pages again
	@$(PY) -m scripts.docs $(ARGS)

site: $(SITE_STAMP) ## build the documentation site into build/site, and check it in Chromium
	@$(PY) -m tests.support.servers --install
	@$(PY) -m scripts.site build/site-pages
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@$(PY) -m scripts.site_check build/site
	@echo "look at it: $(PY) -m http.server --bind 127.0.0.1 --directory build/site"

lock: ## choose the newest allowed versions of everything and pin them in constraints.txt
	@rm -rf build/lock
	@$(call make_venv,build/lock)
	@echo "resolving ..."
	@$(call pip,build/lock) --quiet install pip '.[$(EXTRAS),bench,site]'
	@{ echo '# Exact versions of everything that `make venv`, `make bench` and `make site` install. Written by `make lock`; do not edit.'; \
	   build/lock/bin/python -m pip freeze --exclude horae --exclude pip; } > build/constraints.txt
	@mv build/constraints.txt constraints.txt
	@rm -rf build/lock
	@git --no-pager diff --stat -- constraints.txt || true

clean: ## remove what these targets made
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	@find src tests $(wildcard benchmarks scripts) -name __pycache__ -type d -prune -exec rm -rf {} +

# Without --quiet, so that a newcomer sees it go on; without compiling, as Python compiles what is imported by itself; and
# without building us, which would first install a builder: a path and a command do until the tools are installed.
$(RUN_STAMP): pyproject.toml constraints.txt
	@test -x $(PY) || { echo "making $(VENV) ..."; $(call make_venv,$(VENV)); }
	@echo "installing what Horae needs to run into $(VENV) ..."
	@$(PY) scripts/dependencies.py $(RUN_EXTRAS) > $(VENV)/requirements.txt
	@$(call pip,$(VENV)) install --no-compile -c constraints.txt -r $(VENV)/requirements.txt
	@$(PY) scripts/link.py
	@touch $@

$(STAMP): pyproject.toml constraints.txt $(RUN_STAMP)
	@echo "installing Horae's tools into $(VENV) ..."
	@$(call pip,$(VENV)) --quiet install pip
	@$(call pip,$(VENV)) --quiet install -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@echo "installing the peers we compare with ..."
	@$(call pip,$(VENV)) --quiet install -c constraints.txt -e '.[bench]'
	@touch $@

$(SITE_STAMP): $(STAMP)
	@echo "installing what builds the documentation site ..."
	@$(call pip,$(VENV)) --quiet install -c constraints.txt -e '.[site]'
	@touch $@

# The pip of an environment, or that of $(PYTHON): filling an environment with a pip of its own takes a newcomer seconds.
define pip
"$$($(1)/bin/python -c 'import pip' 2>/dev/null && echo $(1)/bin/python || echo $(PYTHON))" -m pip \
  --python $(1)/bin/python --disable-pip-version-check
endef

# Where $(PYTHON) has a pip that can fill another environment, none is put into it. Debian ships Python without ensurepip
# unless python3-venv is installed.
define make_venv
{ $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || { echo "Horae needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make venv PYTHON=python3.12" >&2; exit 1; }; } \
&& if $(PYTHON) -m pip --python "$$(command -v $(PYTHON))" --version >/dev/null 2>&1; then $(PYTHON) -m venv --without-pip $(1); \
   elif $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(1); \
   else echo "'$(PYTHON)' has neither ensurepip nor pip. On Debian: apt-get install python3-venv" >&2; exit 1; fi
endef
