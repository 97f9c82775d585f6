# The two to know: `make demo` and `make test`.  Each installs what it needs.

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# Integration tests wait most of the time: several files at once, each on
# services of its own.
INTEGRATION := $(PYTEST) -n 3 --dist loadfile tests/integration

.DEFAULT_GOAL := help
.PHONY: help venv venv-machine venv-test demo demo-baremetal test lint unit \
	functional integration bench samples constraints clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s%s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

venv: ## Install system packages (root) and the virtual environment
	@tools/setup.sh base

venv-machine: ## The same, and what a bare-metal machine is built with
	@tools/setup.sh machine

venv-test: ## All that, and what the integration tests need
	@tools/setup.sh test

demo: venv ## Freeze three real servers, copy them, thaw, prove it
	@$(PYTHON) -m tools.demo

demo-baremetal: venv-machine ## Make an image of a running bare-metal machine
	@$(PYTHON) -m tools.demo_baremetal

test: venv-test lint ## Everything: lint, types, and all tests
	$(PYTEST) tests/unit
	$(PYTEST) tests/functional
	$(INTEGRATION)

lint: venv ## Style and types
	.venv/bin/ruff check .
	.venv/bin/flake8 stillframe tests tools
	.venv/bin/mypy

unit: venv ## Tests of pure logic
	$(PYTEST) tests/unit

functional: venv ## Tests of the API by scripts; no network
	$(PYTEST) tests/functional

integration: venv-test ## Tests on real guests and services
	$(INTEGRATION)

bench: venv-test ## Measure; prints a table, writes bench.json
	$(PYTHON) -m tools.bench

samples: venv ## Write etc/stillframe/*.sample anew from the code
	$(PYTHON) -m tools.samples

constraints: ## Pin anew what setup.cfg resolves to
	@tools/constraints.sh

clean: ## Remove the environments and caches
	rm -rf .venv .venv-ipa .venv-openstack .lab .mypy_cache .ruff_cache .pytest_cache
