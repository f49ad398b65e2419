# Commands of the project. Each sets up what it needs in .venv (from the Python package registry only).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help site lock demo test test-full test-long test-torch test-gpu sanitize-gpu check replay bench bench-gpu bench-matmul docs format clean

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[report]"
	touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e . --group test
	touch $@

$(VENV)/.gpu: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e . --group test --group gpu
	touch $@

# GPU_PYTHON=python3 uses a Python that has everything already, such as one on a machine without network
ifndef GPU_PYTHON
GPU_PYTHON := $(BIN)/python
GPU_READY := $(VENV)/.gpu
endif

$(VENV)/.check: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e . --group dev
	touch $@

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## *(.*)/\1\t\2/' | awk -F '\t' '{printf "  make %-16s%s\n", $$1, $$2}'

demo: $(VENV)/.demo  ## compile and run the kernels of the documents, print a table, write report/index.html
	$(BIN)/python examples/demo.py --report report

test: $(VENV)/.test  ## the core: every feature, a sample of the larger families of cases (those that use torch run where torch is installed)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not long"

test-full: $(VENV)/.test  ## core and slow tests, all cases; kernels of a twelfth of the conformance tests compile for a GPU, too
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not long" --also-compile sm_90a --also-compile-in cpu,seeds --also-compile-every 12

test-long: $(VENV)/.test  ## the long run: 20,000 random programs; kernels compile for all GPUs too
	TILEWRIGHT_RANDOM_PROGRAMS=5000 TILEWRIGHT_MEMORY_PROGRAMS=15000 $(BIN)/python -m pytest -n 2 --also-compile sm_80,sm_86,sm_89,sm_90a \
		--hypothesis-profile=explore

TORCH ?= 2.11.0
test-torch:  ## torch.compile's tests with another torch: make test-torch TORCH=2.12.0 (some 5 GB, into .venv-torch)
	$(PYTHON) -m venv --clear .venv-torch
	.venv-torch/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-torch/bin/python -m pip install --quiet -e . --group test torch==$(TORCH)
	.venv-torch/bin/python -m pip uninstall --quiet --yes triton
	.venv-torch/bin/python -m pytest -n 2 -m "not long" tests/integrations

test-gpu: $(GPU_READY)  ## the GPU suite on a GPU machine, its log into benchmarks/results/
	$(GPU_PYTHON) benchmarks/run_logged.py gpu-tests -- $(GPU_PYTHON) -m pytest tests/gpu -q -n 8 \
		-- env TILEWRIGHT_TEST_DEVICE=cuda $(GPU_PYTHON) -m pytest tests/cpu -q -n 8

sanitize-gpu: $(GPU_READY)  ## kernels of every form under compute-sanitizer, the log into benchmarks/results/
	$(GPU_PYTHON) benchmarks/run_logged.py gpu-sanitize -- $(GPU_PYTHON) tests/gpu/sanitize.py

check: $(VENV)/.check  ## format, lint, types, import contracts
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/lint-imports
	$(BIN)/basedpyright --level error

replay: $(VENV)/.demo  ## which kernels of a fixed corpus get other code than from BASE=commit (ONLY=pattern, FULL=1)
	$(BIN)/python scripts/replay.py $(or $(BASE),main) $(if $(ONLY),--only '$(ONLY)') $(if $(FULL),--full)

bench: $(VENV)/.demo  ## the tables of speed and costs, into benchmarks/results/ (ratios where torch is in .venv)
	$(BIN)/python benchmarks/cpu_kernels.py
	$(BIN)/python benchmarks/costs.py

bench-gpu: $(GPU_READY)  ## the speed tables of a GPU machine, into benchmarks/results/
	$(GPU_PYTHON) benchmarks/run_logged.py gpu-bench -- $(GPU_PYTHON) benchmarks/gpu_launch.py \
		-- $(GPU_PYTHON) benchmarks/gpu_kernels.py

bench-matmul: $(GPU_READY)  ## described matmuls beside cuBLAS, tiles tuned first, into benchmarks/results/ (15 minutes)
	$(GPU_PYTHON) benchmarks/tune_matmul.py --uncertain --write
	$(GPU_PYTHON) benchmarks/tune_matmul.py --range 1024 16384 256 --dtypes float16 --write
	$(GPU_PYTHON) benchmarks/tune_matmul.py --range 1024 16384 256 --dtypes float16 --accumulator float16 --write
	$(GPU_PYTHON) benchmarks/generated_matmul.py
	$(GPU_PYTHON) benchmarks/generated_matmul.py --sustained --only squares half large
	$(GPU_PYTHON) -m benchmarks.ablation --target cuda

docs: $(VENV)/.demo  ## the pages that are made from the source
	$(BIN)/python scripts/generate_docs.py

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e . --group docs
	touch $@

site: $(VENV)/.docs  ## the documentation as a site, into site/ (no network but for the tools)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/.check  ## format the source, apply the linter's safe fixes
	$(BIN)/ruff format src tests benchmarks examples
	$(BIN)/ruff check --fix src tests benchmarks examples

lock: $(VENV)/.made  ## resolve the development environment into requirements-dev.lock (needs the package registry)
	$(BIN)/python scripts/lock.py

clean:  ## remove .venv and what make demo wrote
	rm -rf $(VENV) report
