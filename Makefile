# The project's commands. Each is a line or two here; the work is in scripts/.

REVIEW ?= sm951-ahci-512
ARGS ?=

.PHONY: help setup review quick test test-long fuzz bench optimised fidelity catalog-results docs format lock man stub wheel release clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

setup: ## everything the program needs: .venv with its packages and the Rust core
	@PYTHON="$(PYTHON)" scripts/setup.sh

review: setup ## the whole review of the virtual Samsung SM951 (REVIEW=... ARGS=... to change it)
	@.venv/bin/drivebay review $(REVIEW) $(ARGS)

quick: ## format, lint and the tests that name what has changed: under a minute of processor time (ARGS=COMMIT to compare with it)
	@scripts/quick.sh $(ARGS)

test: ## what finds a mistake in a change, as CI runs it: about ten minutes
	@PYTHON="$(PYTHON)" scripts/test.sh

test-long: ## that, and fuzzing, guests in QEMU, hundreds of power cuts and kills, all of the validation: hours
	@PYTHON="$(PYTHON)" scripts/test-long.sh $(ARGS)

fuzz: ## feed each parser and protocol with hostile bytes for a minute (ARGS="600 nbd" to change it)
	@scripts/fuzz.sh $(ARGS)

bench: setup ## the core's own speed on this machine
	@.venv/bin/drivebay bench $(ARGS)

optimised: ## the core for speed, by profile-guided optimisation, in place of the usual one: about ten minutes
	@PYTHON="$(PYTHON)" scripts/optimised_core.sh

fidelity: setup ## leverage, leave-one-out errors and intervals of all published rows again: about an hour on two free cores; goes on if killed
	@.venv/bin/python scripts/fidelity.py $(ARGS)

catalog-results: setup ## full reviews of catalog drives, to rank others among: about five minutes each; goes on if killed
	@.venv/bin/python scripts/catalog_results.py $(ARGS)

docs: ## the documentation site into site/; broken links fail (open site/index.html)
	@PYTHON="$(PYTHON)" scripts/setup.sh --dev
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo site/index.html

man: setup ## the man page again, from the command line
	@.venv/bin/python scripts/manpage.py

format: ## format Rust and Python, and mend what the linter can mend
	@PYTHON="$(PYTHON)" scripts/setup.sh --dev
	@cargo fmt --all
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

LOCK = .tools/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command 'make lock' --no-emit-index-url --no-emit-find-links

lock: setup ## newest packages into the lock files (then run `make test`)
	@$(LOCK) pyproject.toml --extra lab --group build -o requirements.lock
	@$(LOCK) pyproject.toml --extra lab --group tests -c requirements.lock -o requirements-dev.lock
	@$(LOCK) --group release -c requirements.lock -o requirements-release.lock
	@echo uv | $(LOCK) - -o requirements-tools.lock

stub: setup ## the types of the Rust core and the fields of loads again, from what it says of itself
	@.venv/bin/python scripts/stub.py
	@.venv/bin/python scripts/load_fields.py

wheel: ## a wheel for this machine and a source distribution, into target/wheels; optimised if that was made
	@PYTHON="$(PYTHON)" scripts/release.sh --wheel

release: ## source distribution, wheels for x86-64 and aarch64, SBOMs, checksums and container image, into dist/
	@PYTHON="$(PYTHON)" scripts/release.sh $(ARGS)

clean: ## remove everything that was built here; results stay
	rm -rf .venv .tools target site dist fuzz/target fuzz/corpus fuzz/artifacts python/drivebay/_core*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find python tests -name __pycache__ -type d -prune -exec rm -rf {} +
