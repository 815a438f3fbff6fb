# A target for each thing that a reader or a contributor does. Every target sets itself up; the second time it skips what is done.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Where this is set, as in many containers, Python compiles every module anew at each start: with PyTorch, seconds.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
HTML := _build/html
BUILT := $(HTML)/.built

# The first Python on the path that the lock covers; `make book PYTHON=/path/to/python3` names another.
COVERED := import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do \
    "$$p" -c '$(COVERED)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
# One process more than cores, because some tests wait, and at most five: each needs one to two gigabytes of memory.
WORKERS := $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); echo $$((n < 2 ? 3 : n > 4 ? 5 : n + 1)))
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile

# What a built page shows of the course's own code: when this changes, no cached output is trusted.
KEY = { find transformer book/_ext -type f -not -name '*.pyc' | LC_ALL=C sort | xargs cat; cat requirements*; } | cksum

.PHONY: help setup book serve pdf test quick soak gpu first-gpu-run lint grade notebooks models lock clean

help:
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile

book: $(READY)  ## run the chapters, build the book from them, and say where it is
	@mkdir -p _build; key=$$($(KEY)); \
	[ "$$key" = "$$(cat _build/.key 2>/dev/null)" ] || { rm -rf _build/.jupyter_cache _build/.doctrees; echo "$$key" >_build/.key; }
	@rm -f $(BUILT); PYTHONPATH=. $(VENV)/bin/jupyter-book build . --toc book/_toc.yml -W --keep-going \
	|| { rm -rf _build/.doctrees; echo "error: the book has errors or warnings: see above" >&2; exit 1; }
	@touch $(BUILT); echo; echo "The book: $(CURDIR)/$(HTML)/index.html (or: make serve)"

$(BUILT):
	@$(MAKE) book

serve: $(READY) $(BUILT)  ## show the built book at http://localhost:8000 (or make serve PORT=...)
	@$(PY) -m book.serve $(PORT)

pdf: $(READY) $(BUILT)  ## print the built book as one PDF, with Chromium or Chrome
	@$(PY) -m book.pdf

# The book goes first (nice), so that it's done when the tests of the package are.
test: $(READY)  ## run every check: lint, types, drift, tests, and the book built strictly
	@mkdir -p _build; echo "Building the book meanwhile; its output goes to _build/book.log"
	@OMP_NUM_THREADS=1 $(MAKE) book >_build/book.log 2>&1 & book=$$!; \
	nice $(MAKE) lint || { kill $$book; exit 1; }; \
	OMP_NUM_THREADS=1 nice $(PYTEST) -m "not soak" --ignore tests/book; tests=$$?; \
	wait $$book || { cat _build/book.log; exit 1; }; exit $$tests
	OMP_NUM_THREADS=1 $(PYTEST) --dist worksteal -m "not soak" tests/book

quick: $(READY)  ## the quick checks while you work, in less than two minutes: ruff, mypy, and the fast tests of the package
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy
	OMP_NUM_THREADS=1 $(PYTEST) -m "not slow and not soak" tests/transformer

soak: $(READY) $(BUILT)  ## the tests that take long and are run weekly
	OMP_NUM_THREADS=1 $(PYTEST) -m soak

gpu: $(READY)  ## on a GPU: the tests that need one (first-gpu-run runs them, too)
	$(PY) -m pytest -m gpu tests/gpu

first-gpu-run: $(READY)  ## on a GPU: measure and check everything, in steps of minutes; what is done is skipped (MIRROR=...)
	$(PY) -m book.gpu_run run $(if $(MIRROR),--mirror $(MIRROR))

lint: $(READY)  ## the quick checks: ruff, mypy, and whether a generated file is out of date
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(PY) -m book.sync --check
	$(PY) -m exercises make --check

grade: $(READY)  ## grade your exercises: make grade, or for one of them: make grade N=attention
	@$(PY) -m exercises grade $(or $(N),all)

notebooks: $(READY)  ## make again what is generated: notebooks, exercises, widgets
	@$(PY) -m book.sync
	@$(PY) -m exercises make

models: $(READY)  ## train the models that come with the course again, from scratch: hours on a CPU (MIRROR=...)
	@for name in everyday everyday-de-en multi30k multi30k-de-en pocket-small pocket-large; do \
	    $(VENV)/bin/transformer train $$name --run runs/models/$$name $(if $(MIRROR),--mirror $(MIRROR)) && \
	    $(VENV)/bin/transformer export runs/models/$$name transformer/models/$$name $(if $(MIRROR),--mirror $(MIRROR)) \
	    || exit; done

lock: $(READY)  ## resolve pyproject.toml's dependencies into requirements.lock
	@$(PIP) uv
	$(VENV)/bin/uv pip compile --quiet --universal --upgrade --python-version 3.10 --extra dev --generate-hashes \
	    --no-emit-index-url --no-emit-package torch --constraint requirements-torch.txt \
	    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean:  ## remove what was built (.venv stays: remove it yourself)
	rm -rf _build .mypy_cache .pytest_cache .ruff_cache

setup: $(READY)  ## only install, into .venv
	@echo "Everything is installed in .venv. In each new terminal: source .venv/bin/activate"

$(READY): pyproject.toml requirements.lock requirements-torch.txt
	@"$(PYTHON)" -c '$(COVERED)' 2>/dev/null || { echo "error: this needs Python 3.10 to 3.14, and $(if $(PYTHON),$(PYTHON) is not,none was found)." \
	    "Install one, or name yours: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; a few minutes, mostly download) ..."
	@$(PY) -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)
	@$(PIP) pip==26.3
	@$(PIP) --require-hashes --no-deps -r requirements.lock
	@$(PIP) -r requirements-torch.txt
	@$(PIP) --quiet --no-deps --no-build-isolation --editable .
	@touch $@
