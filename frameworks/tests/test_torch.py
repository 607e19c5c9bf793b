"""Programs as operations of PyTorch. One process runs `torch_cases.py`, so that PyTorch is imported once."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from backend_checks import first_device, run_python

CASES = Path(__file__).with_name("torch_cases.py")


@pytest.mark.once
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed: make frameworks installs it")
def test_programs_are_operations_of_pytorch() -> None:
    first_device("opencl")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(CASES)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=Path(__file__).resolve().parents[2])
    assert process.returncode == 0, process.stdout + process.stderr


def test_without_pytorch_an_error_has_the_command_that_installs_it() -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "try:\n"
        "    import devmod_frameworks.torch\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert run_python(program) == (
        "devmod_frameworks.torch cannot import its framework: import of torch halted; None in sys.modules. "
        'To add it: pip install "devmod-frameworks[torch]"\n'
    )
