# Each target sets up .venv first; CONTRIBUTING.md says what they do.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   := $(VENV)/.installed-demo
# One torch thread per process by default: more threads compete for few cores.
export OMP_NUM_THREADS ?= 1
# Bytecode is kept: each process of the tests would compile all of them again, a minute of one core.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test learns soak lint platforms bench results gate docs site notebooks dist matrix compatibility release clean install

install: $(STAMP)

PROJECTS := pyproject.toml plugins/pyproject.toml plugins/dist/pyproject.toml plugins/tools/pyproject.toml plugins/compat/pyproject.toml plugins/agents/pyproject.toml plugins/worlds/pyproject.toml plugins/contrib/pyproject.toml contrib_envs/pyproject.toml

$(STAMP): $(PROJECTS) requirements.txt constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dicore into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements.txt
	@$(BIN)/python -m compileall -q dicore registry plugins contrib_envs  # as pip does elsewhere
	@touch $@ $(DEMO)

# Only what the demo needs; nothing is compiled in advance or built in isolation, which takes as long.
$(DEMO): $(PROJECTS) constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dicore into $(VENV) (a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt hatchling editables
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-build-isolation -c constraints.txt \
		-e . -e plugins -e plugins/tools -e contrib_envs
	@touch $@

demo: $(DEMO)
	@$(BIN)/python examples/demo.py

# Slow tests are excluded; `make learns` runs them. Four tenths of the time of a worker is waiting
# (for processes, limits, signals), so four of them keep two cores busy.
test: $(STAMP)
	@$(BIN)/python -m pytest -n 4 --dist worksteal

# Trains every preset on three seeds, including slow ones; takes 15 minutes.
learns: $(STAMP)
	@$(BIN)/python -m pytest -n 2 -m "learns or slow" tests/learns

# Tests in full what `make test` samples (half an hour), then compares the buffers with their list
# models for a million operations; takes an hour more.
soak: $(STAMP)
	@DICORE_SOAK=1 $(BIN)/python -m pytest -n 4 --dist worksteal -m "not slow"
	@$(BIN)/python -m tests.plugins.buffers.soak --operations 1000000

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# The types as Windows and macOS have them.
platforms: $(STAMP)
	@$(BIN)/mypy --platform win32
	@$(BIN)/mypy --platform darwin

bench: $(STAMP)
	@$(BIN)/python benchmarks/run.py

# Trains what docs/results.md has no record of, and writes the page; takes hours from nothing.
results: $(STAMP)
	@$(BIN)/dicore benchmark benchmarks/results.toml -o docs/results.md

# The gate of a release: twelve short trainings beside recorded intervals; some ten minutes.
gate: $(STAMP)
	@$(BIN)/dicore benchmark benchmarks/check.toml --check --jobs 2

# Warnings are errors. `make test` runs the snippets (tests/docs).
docs: $(STAMP)
	@$(BIN)/python -m sphinx -W -n --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The pages as one version beside others: docs/_build/site/index.html.
site: $(STAMP)
	@$(BIN)/python -m docs.generate.site

# The notebooks with their outputs: docs/_build/notebooks; trains for some minutes.
notebooks: $(STAMP)
	@$(BIN)/python -m docs.generate.notebooks --run

# Wheels and source archives in dist/, checked, installed into a new environment and run.
dist: $(STAMP)
	@$(BIN)/python release/dist.py

# The same wheels under Python 3.11 to 3.14 and NumPy 1.26 and 2, where these are installed.
matrix: $(STAMP)
	@$(BIN)/python release/matrix.py

# The plugins of examples/ with each version of dicore, Python and NumPy; for every night.
compatibility: $(STAMP)
	@$(BIN)/python release/compatibility.py examples/plugins/*

# What a release needs, on this machine: versions, changelog, API record, dist/, site, commit and tag.
release: $(STAMP)
	@$(BIN)/python -m release.prepare $(VERSION) $(if $(ADVISORIES),--advisories $(ADVISORIES))

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
