# Two commands for newcomers: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export OMP_NUM_THREADS ?= 1

.PHONY: demo test check setup setup-dev clean

demo: setup            ## the Williams-Otto reactor, from nothing to a recommended operating point
	$(BIN)/pied demo

test: setup-dev        ## linter, types, shapes and every test; what CI runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

check: setup-dev       ## the quick part of `make test`
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -m "not slow"

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plots]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
