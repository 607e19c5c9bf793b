# Every task a person runs. Each works from a fresh clone; the first one makes .venv (tools/setup.py).
# PYTHON names the interpreter that .venv is made with: make test PYTHON=python3.12
PYTHON ?= python3
JOBS ?= 2
SECONDS ?= 600
BIN := .venv/bin
CODE := core/src targets/src conformance/src driver-api/src remote/src $(wildcard plugins/*/src) $(wildcard examples/*/src)

.DEFAULT_GOAL := help
.PHONY: help setup test-setup demo test test-all breakages fuzz interrupts test-metal test-cuda bench-cuda sanitize-cuda test-others cuda-wheels test-rocm lint types format pre-commit pythons lowest bench golden hexagon-runner rows commands docs wheels clean

help:  ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

setup:  ## make .venv and install everything from source (starts at once when nothing changed)
	@$(PYTHON) tools/setup.py

test-setup: setup  ## fetch what only the tests need: a browser, Vulkan's validation layers, npm packages, HIP's runtime and NVIDIA's driver library, pycuda (built)
	@$(BIN)/python tools/system.py
	@$(BIN)/python tools/build_pycuda.py
	@$(BIN)/python tools/vendor_runtimes.py

demo: setup  ## build wheels, compile on a box without a runtime, run the one file in another environment, draw
	@$(BIN)/python tools/demo.py

test: setup test-setup lint types  ## lint, types and the tests, at most 10 minutes; ends with a list of what could not run here
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not volume"

test-all: setup test-setup lint types  ## the same and the volume: more fuzzing, every pair of versions, every wrong backend, the simulators
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

breakages: setup  ## plant each fault of tools/breakages.toml in a copy of the tree, and report whether tests notice it (NAMES="a b")
	@$(BIN)/python tools/breakages.py $(NAMES)

interrupts: setup  ## raise KeyboardInterrupt 20,000 times in each of 10 processes a kind, while arrays come and go
	@DEVMOD_TEST_INTERRUPTS=20000 DEVMOD_TEST_INTERRUPTS_SEEDS=10 $(BIN)/python -m pytest -q -n $(JOBS) tests/test_interrupts.py

fuzz: setup  ## fuzz every reader of files for SECONDS, guided by coverage where atheris installs; READERS="bundle wgsl" chooses
	@$(BIN)/python tools/fuzz.py --seconds $(SECONDS) --jobs $(JOBS) $(if $(READERS),--readers $(READERS))

lint: setup  ## ruff: rules and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: setup  ## mypy --strict over core, the plugins and tools/
	@$(BIN)/mypy --no-error-summary $(CODE) tools

format: setup  ## let ruff mend what it can and format the rest
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

pre-commit: lint types  ## what the pre-commit hook runs

test-metal: setup  ## on a Mac: Metal's tests, with the real framework and its GPU
	@$(BIN)/python -m pytest -q plugins/devmod-metal/tests targets/tests/test_compile_metal.py core/tests/test_shared_memory.py

test-cuda:  ## on a machine with an NVIDIA GPU: tests, kit and examples with both drivers; .venv, or wheels of cuda-wheels
	@$(PYTHON) tools/cuda_machine.py test

bench-cuda:  ## on such a machine: the figures of CUDA, beside cuda.core and CuPy
	@$(PYTHON) tools/cuda_machine.py bench

sanitize-cuda:  ## on such a machine: the examples with compute-sanitizer, memcheck and racecheck
	@$(PYTHON) tools/cuda_machine.py sanitize

test-others:  ## on such a machine: the suites of OpenCL, Vulkan and WebGPU
	@$(PYTHON) tools/cuda_machine.py others

cuda-wheels: setup  ## fetch what such a machine needs without a network: build/cuda-machine, in folders of 60 MiB (FOR=3.12 INSTALLED=list)
	@$(BIN)/python tools/cuda_machine.py wheels $(if $(FOR),--python $(FOR)) $(if $(INSTALLED),--installed $(INSTALLED))

test-rocm: setup  ## on a machine with an AMD GPU and ROCm: ROCm's tests and the kit, with both drivers
	@DEVMOD_TEST_ROCM=hardware $(BIN)/python -m pytest -q plugins/devmod-rocm/tests driver-api/tests

pythons: setup  ## tests of core, the build side and the kit with each Python of 3.11 to 3.13 here
	@$(BIN)/python tools/pythons.py

lowest: setup  ## a part of the tests, and the kit of three kinds, with the lowest versions that the wheels' dependencies allow
	@$(BIN)/python tools/lowest.py

bench: setup  ## run every benchmark and print its table
	@failed=0; for file in benchmarks/bench_*.py; do echo; echo "== $$file"; $(BIN)/python $$file || failed=1; done; exit $$failed

golden: setup  ## write the golden files anew (after a wanted change of a format; look at the difference)
	@$(BIN)/python tools/golden.py

hexagon-runner: setup  ## build the program that runs Hexagon kernels on the device anew, from its C sources
	@$(BIN)/python tools/hexagon_runner.py

rows: setup  ## write docs/rows.md anew: which test shows each row of the contract
	@$(BIN)/python tools/rows.py

commands: setup  ## write docs/commands.md anew: every command with its options
	@$(BIN)/python tools/commands.py

docs: setup  ## build the pages of docs/ into build/docs; any warning fails
	@rm -rf build/docs
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -j auto -d build/doctrees docs build/docs
	@echo build/docs/index.html

wheels: setup  ## build all wheels into build/wheels, and print the command that installs them
	@$(BIN)/python tools/wheels.py

clean:  ## remove .venv, build/ and the caches of the tools
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
