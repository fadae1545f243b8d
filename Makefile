# Each target makes the virtual environment first, when it is missing or a list of requirements has changed.
PYTHON ?= python3
# the virtual environment that every target uses
VENV ?= .venv
BIN := $(VENV)/bin
# processes that share the tests, a file each: one a core; 0 runs all of them in this one
JOBS ?= auto
# where JupyterLab opens
TOUR := notebooks/00_tour.ipynb
# one thread adds in one order, one hash seed orders a set one way
CALM := OMP_NUM_THREADS=1 PYTHONHASHSEED=0

.PHONY: train style test test-notebooks test-slow test-all test-extras lab lab-zh extras site notebooks checkpoints mutation oldest bench readme homework slides print processors
.DEFAULT_GOAL := test

$(VENV)/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/extras: requirements-extras.txt $(VENV)/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-extras.txt
	touch $@

$(VENV)/site: requirements-site.txt $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-site.txt
	touch $@

train: $(VENV)/installed  ## train the bundled German-English corpus and translate its test set (about two minutes)
	$(BIN)/nmtlib train toy-de-en --evaluate

style: $(VENV)/installed  ## format, lint and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

test: style  ## style, types, and the tests of a commit, each within about a second
	$(CALM) $(BIN)/python -m pytest -q -n $(JOBS) -m "not slow and not nightly" tests

test-notebooks: $(VENV)/installed  ## the sixteen notebooks of the course, against their stored outputs
	NMTLIB_RECORDED_SEEDS=1 $(CALM) $(BIN)/python -m pytest --nbval -q -n $(JOBS) notebooks

test-slow: $(VENV)/installed  ## the tests that take longer, each another promise than those of a commit
	$(CALM) $(BIN)/python -m pytest -q -n $(JOBS) -m "slow and not nightly" tests

test-all: style  ## all tests, also those that wait for the night
	$(CALM) $(BIN)/python -m pytest --nbval -q -n $(JOBS) -m ""

test-extras: $(VENV)/extras  ## only the tests that need the extras
	$(CALM) $(BIN)/python -m pytest -q -n $(JOBS) -m "extras and not nightly" tests

lab: $(VENV)/installed  ## open JupyterLab at the tour, where widgets and colours show
	$(BIN)/jupyter trust $(dir $(TOUR))*.ipynb
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/$(TOUR)

lab-zh: TOUR := notebooks/zh/00_tour.ipynb
lab-zh: lab  ## open JupyterLab at the Chinese tour

extras: $(VENV)/extras  ## install what benchmarks compare with, exports write for and the website needs

site: $(VENV)/site  ## build the website from the stored outputs into build/site/html
	$(BIN)/python docs/site/build.py

notebooks: $(VENV)/installed  ## run all notebooks and store their outputs (a second run changes nothing)
	$(BIN)/python tools/execute.py

processors: $(VENV)/installed  ## all notebooks as on four processors, on this one
	$(CALM) $(BIN)/python tools/processors.py --jobs $(JOBS)

slides: $(VENV)/site  ## a deck of slides of each notebook, into build/slides (arrow keys; no network)
	$(BIN)/python tools/pages.py slides

print: $(VENV)/site  ## a PDF of each notebook, into build/print (needs Chromium)
	$(BIN)/python tools/pages.py print

homework: $(VENV)/installed  ## make all files of the homework from its masters, and grade the graders
	$(BIN)/python -m nmtcourse.homework.pages notebooks/homework
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/homework.py

checkpoints: $(VENV)/installed  ## train the two toy models that ship with the course again (about three minutes)
	$(BIN)/python benchmarks/checkpoints.py

mutation: $(VENV)/installed  ## plant every silent bug of the catalogue and see that the checks find it
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutation.py

oldest:  ## the tests with the oldest versions that pyproject.toml promises, in .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) .github/oldest.py > .venv-oldest/oldest.txt
	.venv-oldest/bin/python -m pip install --quiet -e ".[notebooks,dev]" -c .venv-oldest/oldest.txt
	$(CALM) .venv-oldest/bin/python -m pytest -q -m "not slow and not nightly"

bench: $(VENV)/installed  ## speed against torch.nn.Transformer, in one run
	$(BIN)/python benchmarks/train.py

readme: $(VENV)/installed  ## write the results of benchmarks/results into README.md and docs
	$(BIN)/python benchmarks/readme.py
