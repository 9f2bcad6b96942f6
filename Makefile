# Every command works in an environment of its own, .venv, which it makes first where it is missing.
#   PYTHON=python3.13  another interpreter, 3.11 or newer; its environment is .venv-3.13
#   TORCH=cpu|default  the build of torch to install; scripts/torch_build.py chooses if it is not given
#   TESTS='tests/cli'  what `make test` runs; everything if it is not given
PYTHON ?= python3
TESTS ?=
VENV := .venv
ifneq ($(PYTHON),python3)
  RELEASE := $(shell '$(PYTHON)' -c 'import sys; print("%d.%d%s" % (*sys.version_info[:2], sys.abiflags))')
  ifeq ($(RELEASE),)
    $(error PYTHON=$(PYTHON) is not a Python interpreter that runs)
  endif
  ifeq ($(wildcard .venv/lib/python$(RELEASE)),)
    VENV := .venv-$(RELEASE)
  endif
endif
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
TORCH_CHOSEN := $(VENV)/torch-$(or $(TORCH),auto)

.PHONY: demo test test-pythons lint format docs paper clean help
.DEFAULT_GOAL := demo

demo: $(VENV)/installed  ## train on generated data with known probabilities (the default)
	$(BIN)/python examples/demo.py

test: $(VENV)/installed-dev  ## run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(TESTS)

test-pythons:  ## run the tests on every CPython from 3.11 on that is found, a line each
	'$(PYTHON)' scripts/pythons.py --test

lint: $(VENV)/installed-dev  ## check style, format, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir build/import-linter

format: $(VENV)/installed-dev  ## mend style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed-docs  ## build the documentation site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html is the first page; '$(BIN)/python -m http.server -d build/site' also serves its search"

paper: $(VENV)/installed-paper  ## make the tables of docs/results.md and their figures from the records
	$(BIN)/python -m paper all --datasets gowalla,yelp2018,amazon-book-24k --out build/paper --document docs/results.md

clean:  ## remove the environments
	rm -rf .venv .venv-3.*

help:  ## list these commands
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# pip comes last when an environment is made. Without it, the environment is unfinished or another tool's.
$(BIN)/pip:
	@'$(PYTHON)' -c 'import sys; sys.version_info >= (3, 11) or sys.exit("densirank needs Python 3.11 or newer (make PYTHON=python3.13)")'
	{ $(BIN)/python -m ensurepip --default-pip && test -e $@; } >/dev/null 2>&1 || '$(PYTHON)' -m venv --clear $(VENV)

$(TORCH_CHOSEN): constraints.txt scripts/torch_build.py | $(BIN)/pip
	@TORCH='$(TORCH)' $(BIN)/python scripts/torch_build.py
	@touch $@

$(VENV)/installed: pyproject.toml constraints.txt | $(TORCH_CHOSEN)
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/installed-dev $(VENV)/installed-docs $(VENV)/installed-paper: $(VENV)/installed
	$(PIP_INSTALL) --editable '.[$(patsubst installed-%,%,$(notdir $@))]'
	@touch $@

N := 5
OUT := build/soak
.PHONY: soak
# N runs on a quiet machine and N beside busy processes, in random order (see tests/tools/soak.py).
# RESUME=1 continues a soak that was stopped; ARGS are more arguments of pytest.
soak: $(VENV)/installed-dev  ## run the tests again and again to find those that fail sometimes
	$(BIN)/python tests/tools/soak.py --runs $(N) --out "$(OUT)" $(if $(RESUME),--resume) -- $(ARGS)
