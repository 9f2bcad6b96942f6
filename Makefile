# `make demo` and `make test` do everything on a machine with Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format clean
.DEFAULT_GOAL := demo

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

N := 5
OUT := build/soak
.PHONY: soak
# N runs on a quiet machine and N beside busy processes, in random order (see tests/soak.py).
# RESUME=1 continues a soak that was stopped; ARGS are more arguments of pytest.
soak: .venv/installed-dev
	$(BIN)/python tests/soak.py --runs $(N) --out "$(OUT)" $(if $(RESUME),--resume) -- $(ARGS)
