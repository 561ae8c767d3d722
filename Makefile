# One command for everyone and for CI. Set-up happens by itself, once, in .venv.
PYTHON ?= python3
RUN := .venv/bin/
WORKERS ?= auto
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TESTS ?= not slow

.PHONY: train test check faults fuzz format lint types parity clean help

help:            ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## */\t/' | expand -t 12

train: .venv/test ## the default job: a small vision transformer on the bundled digits
	$(RUN)glassformer train

test: .venv/test ## the suite, but for what takes long
	$(RUN)python -m pytest -q -n $(WORKERS) -m "$(TESTS)"

check: TESTS = slow or not slow
check: lint types test ## format, lint, types, then every test

lint: .venv/test ## ruff: format and lint, changing nothing
	$(RUN)ruff format --check .
	$(RUN)ruff check .

types: .venv/test ## basedpyright
	$(RUN)basedpyright

faults: .venv/test ## commands killed, out of space, read-only, slow, two at once: COUNT of each (100)
	$(RUN)python -m tests.faults.kills --faults all --count $(or $(COUNT),100) --jobs $(JOBS)

fuzz: .venv/test ## damaged files for every reader: COUNT of them (1,000,000); goes on where it was stopped
	$(RUN)python -m pytest -q -p no:cacheprovider tests/fuzz
	$(RUN)python -m tests.fuzz.fuzz --count $(or $(COUNT),1000000) --jobs $(JOBS) --state fuzz.json

format: .venv/test ## rewrite files in the project's format
	$(RUN)ruff format .
	$(RUN)ruff check --fix .

parity: .venv/test ## add what the parity tests compare with (PyTorch, transformers, onnxruntime, a second C compiler)
	$(RUN)python -m pip install --quiet -e '.[test,parity,compiler]'

.venv/test: pyproject.toml
	test -x $(RUN)python || $(PYTHON) -m venv .venv
	$(RUN)python -m pip install --quiet -e '.[test]'
	touch $@

clean:           ## remove what was made here
	rm -rf .venv dist build .pytest_cache .ruff_cache
