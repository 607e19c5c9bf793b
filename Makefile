# Every task a person runs. Each works from a fresh clone; the first one makes .venv (tools/setup.py).
# PYTHON names the interpreter that .venv is made with: make test PYTHON=python3.12
PYTHON ?= python3
# One more than the cores of a small CI machine: a quarter of the time, tests wait for the processes that they start.
JOBS ?= 3
# Which tests `make test` runs, by their markers (pyproject.toml): MARKER="not simulators".
MARKER ?=
SECONDS ?= 600
ROOM ?= core
N ?= 200
SEED ?= 0
BIN := .venv/bin
CODE := core/src conformance/src workbench/src $(wildcard compilers/*/src extras/*/src plugins/*/src) $(wildcard examples/*/src) $(dir $(wildcard examples/applications/*/*/__init__.py))
# What mypy checks for each system. On macOS and Windows those are the distributions that their pyproject.toml calls independent of the system, and the demo.
PORTABLE = $(addsuffix src,$(dir $(shell grep -l "OS Independent" */pyproject.toml compilers/*/pyproject.toml extras/*/pyproject.toml plugins/*/pyproject.toml)))
TYPED_linux = $(CODE) extras/simulators/standins plugins/devmod-metal/tests/metal_standin tools
TYPED_darwin = $(PORTABLE) tools/demo.py
TYPED_win32 = $(PORTABLE) tools/demo.py
TYPES := types-linux types-darwin types-win32
# .clang-format-ignore names the files of C that are not formatted.
C_FILES := git ls-files -z '*.c' '*.h' '*.cpp'
# The parts of `make test` that failed.
FAILED := build/failed
# `make test-setup` installs both. Node.js is there alone if the system's is missing or too old.
export PATH := $(CURDIR)/.venv/node:$(PATH)
BIOME := extras/browser/js/node_modules/.bin/biome

# What `make gpu` runs for each KIND and DO. Those of a machine with an NVIDIA GPU need no .venv: they use the wheels that DO=wheels has fetched
# into build/cuda-machine, in folders of 45 MiB (FOR=3.12 INSTALLED=list), where there is a network.
KIND ?= cuda
DO ?= test
SUITE ?= bookworm trixie
GPU_cuda_test = $(PYTHON) tools/cuda_machine.py test
GPU_cuda_questions = $(PYTHON) tools/cuda_machine.py questions
GPU_cuda_bench = $(PYTHON) tools/cuda_machine.py bench
GPU_cuda_sanitize = $(PYTHON) tools/cuda_machine.py sanitize
GPU_cuda_others = $(PYTHON) tools/cuda_machine.py others
GPU_cuda_wheels = $(BIN)/python tools/cuda_machine.py wheels $(if $(FOR),--python $(FOR)) $(if $(INSTALLED),--installed $(INSTALLED))
GPU_rocm_test = DEVMOD_TEST_ROCM=hardware $(BIN)/python -m pytest -q plugins/devmod-rocm/tests plugins/driver-api/tests
GPU_metal_test = $(BIN)/python -m pytest -q plugins/devmod-metal/tests compilers/targets/tests/test_compile_metal.py plugins/runtime/tests/toy/test_shared_memory.py

# What makes the parts of test-setup, tools/*.py. pycuda is built with g++ and the headers of the system.
NEEDED := fetch-system fetch-build_pycuda fetch-vendor_runtimes

.DEFAULT_GOAL := help
.PHONY: help setup test-setup demo test test-all covering breakages mutations fuzz interrupts peers-simulated ports gpu lint types format strangers pythons lowest frameworks bench golden hexagon-runner digits pictures performance installable constraints docs wheels release clean

# Where to change: a task of make
#   here: its line of help behind ##, and its name in .PHONY
#   tests: `tests/test_repository.py`

##@ Start

help:  ## list the tasks
	@awk -F ':.*##  *' '/^##@ / {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-16s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv and install everything from source (starts at once when nothing changed)
	@$(PYTHON) tools/setup.py

demo: setup  ## build wheels, compile on a box without a runtime, run the one file in another environment, draw
	@$(BIN)/python tools/demo.py

##@ Check

test: setup  ## lint, types and the tests, at most 10 minutes; ends with a list of what could not run here, and of what failed (MARKER="not simulators" leaves out those of the simulated GPU; NAMES="inspect readers": in a minute, the tests alone that cover a command or a room)
	$(if $(NAMES),$(chosen),$(call checks,-m "not volume$(if $(MARKER), and ($(MARKER)))"))

test-all: setup  ## the same and the volume: more fuzzing, every pair of versions, every wrong backend, the simulators
	@$(BIN)/python tools/vendor_runtimes.py --volume
	$(call checks,$(if $(MARKER),-m "$(MARKER)"))

# The test files that tools/covering.toml has for NAMES.
define chosen
	@files=$$($(BIN)/python tools/covering.py $(NAMES)) && $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not volume" $$files
endef

# Each part runs, whatever the others give. What the tests need is fetched while lint and types run. $(1): the options of pytest
define checks
	@mkdir -p build && rm -f $(FAILED)
	@$(MAKE) --no-print-directory -j 4 part-test-setup part-lint part-types
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(1) || echo tests >> $(FAILED)
	@if [ -e $(FAILED) ]; then echo "make $@: failed:" $$(cat $(FAILED)) >&2; exit 1; fi
endef

part-%:
	@$(MAKE) --no-print-directory -k $* || echo $* >> $(FAILED)

lint: setup  ## ruff: rules and format; clang-format and biome: the format of C and JavaScript
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(C_FILES) | xargs -0r $(BIN)/clang-format --dry-run --Werror
	@if [ -x $(BIOME) ]; then $(BIOME) format --reporter=summary extras/browser > /dev/null; fi

types: $(TYPES)  ## mypy --strict over the distributions, the tests' stand-ins and tools/, for Linux, macOS and Windows

# One folder of mypy's cache has one system.
$(TYPES): types-%: setup
	@$(BIN)/mypy --no-error-summary --platform $* --cache-dir .mypy_cache/$* $(TYPED_$*)

format: setup  ## let ruff mend what it can, and format Python, C and JavaScript
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
	@$(C_FILES) | xargs -0r $(BIN)/clang-format -i
	@if [ -x $(BIOME) ]; then $(BIOME) format --write extras/browser; fi

##@ Check more

test-setup: $(NEEDED)  ## fetch what only the tests need: a browser, Vulkan's validation layers, npm packages, HIP's runtime and NVIDIA's driver library, pycuda (built)

$(NEEDED): fetch-%: setup
	@$(BIN)/python tools/$*.py
fetch-build_pycuda: fetch-system

strangers:  ## run make demo and make test on bare Debian systems in folders of build/strangers, and delete these (SUITE=trixie; COMMAND="make lint" for another command); needs root
	@$(PYTHON) tools/strangers.py $(SUITE) $(if $(COMMAND),--do "$(COMMAND)")

pythons: $(if $(ALL),test-setup,setup)  ## tests of the wheels and plugins with each Python of 3.11 to 3.14 here; ALL=1: those of every folder
	@$(BIN)/python tools/pythons.py -n $(JOBS)$(if $(ALL), --all)

frameworks: setup  ## the tests of devmod-frameworks and devmod-tvm with PyTorch, JAX, tvm-ffi and TVM, and numba-cuda and Triton on the simulated GPU; ALL=1: all architectures of models, in hours
	@$(BIN)/python tools/frameworks.py -n $(JOBS)$(if $(ALL), --all)

lowest: setup  ## a part of the tests, and the kit of three kinds, with the lowest versions that the wheels' dependencies allow
	@$(BIN)/python tools/lowest.py -n $(JOBS)

covering: setup  ## run the tests, record what each file of them calls, and write tools/covering.toml for make test NAMES=…
	@$(BIN)/python tools/covering.py --write -n $(JOBS) --dist loadfile

breakages: setup  ## plant each fault of tools/breakages.toml in a copy of the tree, and report whether tests notice it (NAMES="a b")
	@$(BIN)/python tools/breakages.py $(NAMES)

mutations: setup  ## change the sources of a ROOM by rule at N places that SEED chooses, and report whether its tests notice (ROOM=readers-c, N=40, WITHIN="_values _util")
	@$(BIN)/python tools/mutations.py $(ROOM) -n $(N) --seed $(SEED) $(if $(WITHIN),--within $(WITHIN))

fuzz: setup  ## fuzz every reader of files for SECONDS, guided by coverage where atheris installs; READERS="bundle wgsl" chooses
	@$(BIN)/python tools/fuzz.py --seconds $(SECONDS) --jobs $(JOBS) $(if $(READERS),--readers $(READERS))

interrupts: setup  ## raise KeyboardInterrupt 20,000 times in each of 10 processes a kind, while arrays come and go, and at each place of a use
	@DEVMOD_TEST_INTERRUPTS=20000 DEVMOD_TEST_INTERRUPTS_SEEDS=10 DEVMOD_TEST_INTERRUPT_PLACES=0 $(BIN)/python -m pytest -q -n $(JOBS) tests/test_interrupts.py tests/test_interrupt_places.py

peers-simulated: setup  ## run other projects' tests and programs on the simulated GPU and print a table; NAMES="pycuda hecbench" chooses, PYCUDA=folder names sources
	@$(BIN)/python tools/peers_simulated.py $(NAMES)

ports: setup  ## run projects' own OpenCL tests with pyopencl, with devmod and with devmod on Vulkan, and write the table of docs/porting.md; NAMES="pyfai" chooses, PYCLESPERANTO=folder names sources
	@$(BIN)/python tools/ports.py $(NAMES)

bench: setup  ## run every benchmark (NAMES="opencl save"), print one table of all ratios with their bounds, and write build/figures.json
	@$(BIN)/python tools/benchmarks/all.py $(NAMES)

gpu: $(if $(filter cuda,$(KIND)),$(if $(filter wheels,$(DO)),setup),setup)  ## on a machine with a GPU, KIND=cuda, rocm or metal: DO=test; for cuda DO=questions, bench, sanitize, others, wheels too
	@$(or $(GPU_$(KIND)_$(DO)),$(error KIND=$(KIND) has no DO=$(DO)))

##@ Write generated files

golden: setup  ## write the golden files anew (after a wanted change of a format; look at the difference)
	@$(BIN)/python tools/golden.py

digits: setup  ## train the digit classifier of examples/applications/digits again, and write its file
	@$(BIN)/python -m pip install --quiet scikit-learn
	@$(BIN)/python examples/applications/digits/train.py

pictures: setup test-setup docs  ## draw the pictures of docs/ anew: terminals, a plot, the page of devmod view, a trace
	@$(BIN)/python tools/pictures.py

performance: setup  ## write the tables and pictures of docs/performance.md from the figures of make bench
	@$(BIN)/python tools/performance.py

installable: setup  ## write the table of docs/support.md: for which Pythons and systems the index has wheels of everything
	@$(BIN)/python tools/installable.py

constraints: setup  ## write tools/constraints.txt with the newest versions for development (NEWEST=1 in other tasks ignores it)
	@$(BIN)/python tools/constraints.py

hexagon-runner: setup  ## build the program that runs Hexagon kernels on the device anew, from its C sources
	@$(BIN)/python tools/hexagon_runner.py

##@ Build

docs: setup  ## build the pages of docs/ into build/docs; any warning fails
	@$(BIN)/python tools/build_pages.py

wheels: setup  ## build all wheels into build/wheels, and print the command that installs them
	@$(BIN)/python tools/wheels.py

release: setup  ## build every sdist, wheel and the npm package into build/release, check them, install them in empty environments, tag the commit (REPOSITORY=https://… for the addresses)
	@$(BIN)/python tools/release.py

clean:  ## remove .venv, build/ and the caches of the tools
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
