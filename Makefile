# `make demo` and `make test` do all their own set-up: Python 3.11 or newer is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
AXE := tests/browser/driver/node_modules/axe-core
# Where it is set, each of hundreds of processes would compile anew what it imports.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help install demo demo-shop demo-assistant demo-travel test properties java-servers collect mutants lint measure-code sbom audit pin-images format lock docs schema site synth cdk-app bench bench-quick measure-reload quickstart django6 simulate simulate-faults trials browser pictures verify-local clean

help: ## What there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## The virtual environment, with everything pinned

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Headgate needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (a minute or two, once)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements.lock >&2
	@# As pip does, but on every core: 330 MB of sources, some of which no Python of ours can compile.
	@$(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || true
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . >&2
	@touch $@

demo: $(INSTALLED) ## The whole system on this machine, bounded and self-checking
	@$(BIN)/headgate demo

demo-shop: $(INSTALLED) ## The example shop on a local AWS, checked
	@$(BIN)/python -m examples.shop.demo

demo-assistant: $(INSTALLED) ## The example assistant likewise
	@$(BIN)/python -m examples.assistant.demo

demo-travel: $(INSTALLED) ## The example travel platform likewise
	@$(BIN)/python -m examples.travel.demo

verify-local: $(INSTALLED) ## All of headgate verify that a local AWS can show (a quarter of an hour)
	@$(BIN)/headgate verify --local --minutes 14

test: $(INSTALLED) ## All tests
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

properties: $(INSTALLED) ## The property tests with random examples: make properties EXAMPLES=1000
	EXAMPLES=$(or $(EXAMPLES),1000) HOSTILE_EXAMPLES=$(or $(EXAMPLES),1000) \
		$(BIN)/python -m pytest -n auto --dist loadfile -m hypothesis --hypothesis-profile=random

java-servers: $(INSTALLED) ## ElasticMQ and DynamoDB Local, fetched by Maven, for tests and benchmarks
	$(BIN)/python -m tests.support.java_servers

collect: $(INSTALLED) ## Import all tests and run none; `make test` then compiles nothing in each process
	@found=$$($(BIN)/python -m pytest --collect-only --quiet) || { echo "$$found"; exit 1; }

mutants: $(INSTALLED) ## Break the code in chosen places: tests have to notice each (a quarter of an hour)
	$(BIN)/python -m tests.mutants

lint: $(INSTALLED) ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

measure-code: $(INSTALLED) ## The sizes of the code's pieces, and the circles among its imports
	@$(BIN)/python -m tests.architecture.measure

sbom: $(INSTALLED) ## Bills of materials and licences of what runs in AWS, into build/sbom
	@$(BIN)/python -m tests.supply_chain sbom

audit: $(INSTALLED) ## Known vulnerabilities of all that is locked, if an index answers
	@$(BIN)/python -m tests.supply_chain audit

pin-images: $(INSTALLED) ## The present digests of the base images, into all files that name them (docker)
	@$(BIN)/python -m tests.supply_chain pin

format: $(INSTALLED) ## Put the code into its one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(INSTALLED) ## Choose the pinned versions anew
	$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet uv
	.cache/lock/bin/uv pip compile --universal --python-version 3.11 --all-extras --upgrade \
		--generate-hashes --no-emit-index-url --no-header --quiet pyproject.toml -o requirements.lock
	for functions in requirements requirements-consumer; do \
		.cache/lock/bin/uv pip compile lambdas/$$functions.in -o lambdas/$$functions.txt --constraint requirements.lock \
			--python-version 3.13 --python-platform aarch64-manylinux_2_34 --upgrade \
			--generate-hashes --no-emit-index-url --no-header --no-annotate --quiet || exit 1; \
	done
	.cache/lock/bin/uv pip compile --universal --python-version 3.11 --extra emf --extra ops \
		--constraints requirements.lock --generate-hashes --no-emit-index-url --no-header \
		--no-annotate --quiet pyproject.toml workers/requirements.in -o workers/requirements.txt
	echo hatchling | .cache/lock/bin/uv pip compile --universal --python-version 3.11 \
		--constraints requirements.lock --generate-hashes --no-emit-index-url --no-header \
		--no-annotate --quiet - -o workers/build-requirements.txt
	.cache/lock/bin/uv pip compile --universal --python-version 3.11 --upgrade --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --quiet \
		tests/docs/website/requirements.in -o tests/docs/website/requirements.txt

docs: $(INSTALLED) ## Write the pages' figures and tables anew from the code
	$(BIN)/python -m tests.docs.generate

node_modules/@mermaid-js:
	npm ci --no-audit --no-fund

site: $(INSTALLED) node_modules/@mermaid-js ## The pages as a site, into build/docs/site (Node)
	$(BIN)/python -m tests.docs.website

schema: $(INSTALLED) ## Write the JSON Schemas of the message formats
	$(BIN)/python -c 'import json; from headgate.jobs.messages.envelope import json_schema; print(json.dumps(json_schema(), indent=2))' > docs/envelope.v1.schema.json
	$(BIN)/python -c 'import json; from headgate.jobs.messages.bundles import json_schema; print(json.dumps(json_schema(), indent=2))' > docs/bundle.v2.schema.json

synth: $(INSTALLED) ## The CloudFormation template, into cdk.out
	@node infra/cdk.js synth --quiet

cdk-app: $(INSTALLED)
	@JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20 $(BIN)/python -m headgate.infra.app

bench: $(INSTALLED) ## Headgate beside its peers (Linux, Java and Maven; three quarters of an hour)
	$(BIN)/python -m benchmarks

bench-quick: $(INSTALLED) ## One small round of the same: does it all work?
	$(BIN)/python -m benchmarks --quick

measure-reload: $(INSTALLED) ## headgate dev: from an edit to the first run of its code, and from Ctrl-C to the end
	@$(BIN)/python -m benchmarks.reload

quickstart: $(INSTALLED) ## Type docs/quickstart.md as it stands, in an empty folder, and time it
	@$(BIN)/python -m tests.docs.quickstart

django6: ## The integration of Django with Django 6, which needs PYTHON=python3.12 or newer
	$(PYTHON) -m venv .cache/django6
	.cache/django6/bin/pip install --quiet -e '.[worker]' 'django>=6' hypothesis pytest pytest-asyncio pytest-timeout pytest-xdist
	.cache/django6/bin/python -m pytest tests/unit/contrib/test_django.py tests/unit/contrib/test_django_tasks.py

simulate: $(INSTALLED) ## An hour of load, an outage and an overload, in virtual time (a few minutes)
	$(BIN)/python -m benchmarks.simulation

SEEDS ?= 3000
simulate-faults: $(INSTALLED) ## SEEDS lives with random features and faults: nothing promised may break
	nice $(BIN)/python -m tests.simulation --seeds $(SEEDS)  # behind all else: it takes every core

MINUTES ?= 3
SEED ?= 1
trials: $(INSTALLED) ## Real processes under odd answers, kills and random messages; MINUTES of all of it mixed
	$(BIN)/python -m tests.crash.trials answers submissions cuts letters messages mixed --minutes $(MINUTES) --seed $(SEED)

browser: $(INSTALLED) $(AXE) ## The console's journeys in headless Chromium, and axe on each page (a few minutes)
	$(BIN)/python -m tests.browser journeys

pictures: $(INSTALLED) ## The console's pages as pictures, into docs/images (Chromium; a few minutes)
	$(BIN)/python -m tests.browser pictures

$(AXE): tests/browser/driver/package-lock.json
	npm ci --prefix tests/browser/driver --no-audit --no-fund
	@touch $@

clean: ## Remove what was built
	rm -rf $(VENV) node_modules $(dir $(AXE)) cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache build dist
