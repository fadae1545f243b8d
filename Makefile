# Each target makes the virtual environment first, when it is missing or requirements.txt has changed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: train test lab notebooks checkpoints figures mutation bench readme
.DEFAULT_GOAL := test

.venv/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

train: .venv/installed  ## train the bundled German-English corpus and translate its test set (about two minutes)
	$(BIN)/nmtlib train toy-de-en --evaluate

test: .venv/installed  ## style and all tests
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 PYTHONHASHSEED=0 $(BIN)/python -m pytest --nbval -q

lab: .venv/installed  ## open JupyterLab
	$(BIN)/jupyter lab

notebooks: .venv/installed  ## run all notebooks and store their outputs (a second run changes nothing)
	$(BIN)/python notebooks/execute.py

checkpoints: .venv/installed  ## train the two toy models that ship with the course again (about three minutes)
	$(BIN)/python benchmarks/checkpoints.py

figures: .venv/installed  ## draw the diagrams in figures/ again
	$(BIN)/python -m nmtlib.teaching.gallery

mutation: .venv/installed  ## plant every silent bug of the catalogue and see that the checks find it
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutation.py

bench: .venv/installed  ## speed against torch.nn.Transformer, in one run
	$(BIN)/python benchmarks/train.py

readme: .venv/installed  ## write the results of benchmarks/results into README.md
	$(BIN)/python benchmarks/readme.py
