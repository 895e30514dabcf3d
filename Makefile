# Every target prepares what it needs, on a machine that has Python 3.11+, make and git.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
PY := .venv/bin/python
# A KUBECONFIG that merely stands in the environment must not turn `make run` loose on a real cluster:
# only one given on make's own command line counts.

.PHONY: help run test prove test-live check format bench chaos lock manifests build-installer docs wheelhouse image release cluster clean ready ready-to-run

help: ## what can be done here
	@printf 'tgp: rents GPU machines for a Talos cluster when pods need them, and terminates them when they are idle.\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\n  FOR=30s        with run: end by itself after that much wall time; with chaos: how long\n'
	@printf '  KUBECONFIG=…   with run: observe a real cluster; nothing is bought, nothing is written\n'
	@printf '  NAME=cache     with bench: one of access, accounting, admission, budget, burst, cache, churn, disruption, install, karpenter, market, mesh, planner, safety, simulation, startup (all when absent)\n'
	@printf '  T=tests/core   with test: only these tests, by one pytest\n'
	@printf '  NAME=faults,plans   with prove: only these steps\n'
	@printf '  TGP_LANES=1    with test, prove and check: how many at a time (as many as there are cores when absent)\n'
	@printf '  PROVIDER=vultr MAX_USD=1   with test-live: where, and what an hour must stay below; YES=1 does it\n'

ready:
	@$(PYTHON) tools/prepare.py

ready-to-run:
	@$(PYTHON) tools/prepare.py runtime

run: ready-to-run ## the whole operator on an embedded world, live in this terminal
ifeq ($(origin KUBECONFIG),command line)
	@$(PY) -m tgp observe --kubeconfig "$(KUBECONFIG)" $(if $(FOR),--for $(FOR))
else
	@$(PY) -m tgp demo $(if $(FOR),--for $(FOR))
endif

test: ready ## prove it: every test, real control plane included (builds its tools once)
	@$(PY) -m tools.suite $(T)

prove: ready ## before a release, hours: every mutant, 5000 hours of random faults, larger counts; NAME=faults,talos for some
	@$(PY) -m tools.prove "$(NAME)"

test-live: ready ## rent one real machine and terminate it (costs money: PROVIDER, MAX_USD, a key)
	@PROVIDER="$(PROVIDER)" MAX_USD="$(MAX_USD)" YES="$(if $(filter command,$(origin YES)),$(YES))" $(PY) -m tools.live

check: ready ## before each commit, under a minute: format, lint, types, imports, collection, quick tests
	@$(PY) -m tools.check

format: ready ## rewrite the code in the project's format
	@.venv/bin/ruff format --quiet .
	@.venv/bin/ruff check --fix --quiet .

bench: ready ## measure speed and memory beside peers
	@$(PY) -m bench $(NAME)

chaos: ready ## budgets under kills, hand-overs and outages of a real API server, for FOR (10m)
	@$(PY) -m bench budget --chaos $(or $(FOR),10m)

lock: ## write requirements/*.txt from requirements/*.in
	@$(PYTHON) tools/lock.py

manifests: ready ## write the chart's generated files, deploy/install.yaml and docs/values.md from their sources
	@$(PY) -m tools.manifests

build-installer: ready ## one file that installs everything, dist/install.yaml (IMG=registry.example/tgp-operator:0.1.0)
	@$(PY) -m tools.manifests installer $(IMG)

docs: ready ## build the documentation site into build/site
	@$(PY) -m tools.docs_site

wheelhouse: ready ## the packages of the image, by their hashes, into build/wheelhouse
	@$(PY) -m tools.wheelhouse

image: ready ## build the image from the Dockerfile without a Docker engine, and print its size (needs root)
	@$(PY) -m tools.image

release: ready ## everything of a release into dist/, with checksums; pushes nothing (VERSION=0.1.0 IMG=registry.example/tgp-operator:0.1.0)
	@$(PY) -m tools.release "$(VERSION)" "$(IMG)"

cluster: ready ## start a real control plane for yourself and print its KUBECONFIG
	@$(PY) -m tools.controlplane

clean: ## remove what was made here (not the tools cached in your home)
	@rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache .tgp build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
