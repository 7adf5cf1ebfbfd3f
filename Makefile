# make demo · make test · make learns · make lint · make bench · make docs: each sets up .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# torch's threads fight for few cores: one each, unless the caller says otherwise
export OMP_NUM_THREADS ?= 1

.PHONY: demo test learns lint bench docs clean install

install: $(STAMP)

$(STAMP): pyproject.toml plugins/pyproject.toml plugins/tools/pyproject.toml contrib_envs/pyproject.toml requirements.txt constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dicore into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements.txt
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

# The slow marks run apart, so that both cores are busy with the rest.
test: $(STAMP)
	@$(BIN)/python -m pytest -n 2 --dist worksteal

# Every preset on three seeds, the slow ones too; a quarter of an hour.
learns: $(STAMP)
	@$(BIN)/python -m pytest -n 2 -m "learns or slow" tests/learns

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(STAMP)
	@$(BIN)/python benchmarks/run.py

# Warnings are errors. Whether the snippets run is looked at by `make test` (tests/docs).
docs: $(STAMP)
	@$(BIN)/python -m sphinx -W -n --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
