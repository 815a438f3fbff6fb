# Everything a reader or a contributor does, one word each. Every target sets itself up; the second time it skips what is done.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first Python on the path that the lock covers; `make book PYTHON=/path/to/python3` names another.
COVERED := import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do \
    "$$p" -c '$(COVERED)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

.PHONY: help
help:
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z][a-z-]*\):.*## /  \1:/p' Makefile | awk -F: '{ printf "%-14s%s\n", $$1, $$2 }'

.PHONY: setup
setup: $(READY)  ## install everything into .venv, as requirements.lock says

$(READY): pyproject.toml requirements.lock requirements-torch.txt
	@"$(PYTHON)" -c '$(COVERED)' 2>/dev/null || { echo "error: this needs Python 3.10 to 3.14, and $(if $(PYTHON),$(PYTHON) is not,found none)." \
	    "Install one, or name yours: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; a few minutes, mostly download) ..."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-torch.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
