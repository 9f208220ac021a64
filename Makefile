# Two commands for newcomers: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LIGHT  := .venv-light
DOCS   := .venv-docs
RELEASE := .venv-release
WITHOUT_TORCH := $(addprefix tests/test_,light.py rng.py trace.py called.py quantile.py)
export OMP_NUM_THREADS ?= 1
# Tests start hundreds of processes; with compiled files each of them loads pied in a fraction of the time.
unexport PYTHONDONTWRITEBYTECODE

# pip names every folder of an index that it does not use: those lines are left out, all others, errors among them, are
# shown, and pip's own exit status counts (a pipe would give that of the filter).
PIP = sh -c 'status=0; said=$$(mktemp) || exit 1; trap "rm -f $$said" EXIT; \
	"$$@" 2>"$$said" || status=$$?; \
	grep -v "^WARNING: Location .* is ignored" "$$said" >&2; exit $$status' pip
# Modules are compiled when they are first imported: most never are.
INSTALL = pip install --quiet --no-compile --disable-pip-version-check

LOWEST := .venv-lowest
.PHONY: test-lowest demo test light types tests check docs release-check setup setup-dev clean

demo: setup            ## the Williams-Otto reactor, from nothing to a recommended operating point
	@began=$$(date +%s); $(BIN)/pied demo && echo "The study and its picture took $$(($$(date +%s) - began)) s."

test:                  ## linter, types, shapes and every test; what CI runs
	@$(MAKE) --no-print-directory -j 2 setup-dev light
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory -j 2 types tests

light: $(LIGHT)/.installed
	$(LIGHT)/bin/pytest $(WITHOUT_TORCH)

types: setup-dev
	$(BIN)/mypy

tests: setup-dev      # three workers, because many tests wait; `light` runs the file that is left out, where torch really is not installed
	$(BIN)/pytest -n 3 --dist loadfile --ignore tests/test_light.py

check: setup-dev       ## the quick part of `make test`
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -m "not slow and not long"

test-lowest:           ## the package with the lowest versions of what it needs
	$(PYTHON) -m venv $(LOWEST)
	@$(PIP) $(LOWEST)/bin/$(INSTALL) --editable . $$($(PYTHON) .ci/lowest.py) pytest pytest-timeout hypothesis jaxtyping beartype
	$(LOWEST)/bin/pytest $(WITHOUT_TORCH)

docs: $(DOCS)/.installed    ## the documentation site, in site/; open site/index.html
	$(DOCS)/bin/python benchmarks/evidence.py --check
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build
	@echo "Open site/index.html"

release-check: $(RELEASE)/.installed    ## build sdist and wheel, look into them, install them on every supported Python found
	$(RELEASE)/bin/python .ci/release.py

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.created:
	@echo "Making a Python environment in $(VENV), some seconds ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	@echo "Installing pied with NumPy, SciPy and matplotlib into $(VENV), once:"
	@$(PYTHON) .ci/install.py $(BIN)/python '.[plots]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml
	@echo "Installing pied with everything it can use, pytest, ruff and mypy into $(VENV); once, takes some minutes ..."
	@$(PIP) $(BIN)/$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(LIGHT)/.installed: pyproject.toml
	@echo "Installing pied without torch into $(LIGHT), to test that it needs none; once, takes half a minute ..."
	@$(PYTHON) -m venv $(LIGHT)
	@$(PIP) $(LIGHT)/bin/$(INSTALL) --editable . pytest pytest-timeout hypothesis jaxtyping beartype
	@touch $@

$(DOCS)/.installed: pyproject.toml
	@echo "Installing MkDocs into $(DOCS); once, takes a minute ..."
	@$(PYTHON) -m venv $(DOCS)
	@$(PIP) $(DOCS)/bin/$(INSTALL) --editable '.[docs]'
	@touch $@

$(RELEASE)/.installed: pyproject.toml
	@echo "Installing build and twine into $(RELEASE); once, takes half a minute ..."
	@$(PYTHON) -m venv $(RELEASE)
	@$(PIP) $(RELEASE)/bin/$(INSTALL) --editable '.[release]'
	@touch $@

clean:
	rm -rf $(VENV) $(LIGHT) $(DOCS) $(RELEASE) $(LOWEST) site dist .pytest_cache .mypy_cache .ruff_cache
