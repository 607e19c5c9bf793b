"""Programs in frameworks. The cases of each framework run in one process, so that it is imported
once.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from backend_checks import first_device, run_python

#: The module of each framework, and what pip installs.
FRAMEWORKS = {"torch": "torch", "jax": "jax", "tvm_ffi": "tvm-ffi"}


@pytest.mark.once
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_programs_are_operations(name: str) -> None:
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: make frameworks installs it")
    first_device("opencl")
    cases = Path(__file__).with_name(f"{name}_cases.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(cases)]
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_without_a_framework_an_error_has_the_command_that_installs_it(name: str) -> None:
    program = (
        "import sys\n"
        f"sys.modules[{name!r}] = None\n"
        "try:\n"
        f"    import devmod_frameworks.{name}\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert run_python(program) == (
        f"devmod_frameworks.{name} cannot import its framework: import of {name} halted; None in sys.modules. "
        f'To add it: pip install "devmod-frameworks[{FRAMEWORKS[name]}]"\n'
    )
