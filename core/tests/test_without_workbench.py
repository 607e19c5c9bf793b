"""devmod-workbench is not installed: files load and run, and what needs it names it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import devmod

MISSING = "devmod-workbench is not installed. To add it: pip install devmod-workbench"
WITHOUT = "import sys\nsys.modules['devmod_workbench'] = None\nimport devmod\n"


def completed(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program where the workbench is not installed."""
    command = [sys.executable, "-c", WITHOUT + program]
    env = os.environ | environment
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def run(program: str, **environment: str) -> str:
    """Return what such a program prints."""
    done = completed(program, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def message_of(statement: str, **environment: str) -> str:
    """Return the error of a statement."""
    attempt = "try:\n    {}\nexcept devmod.ToolchainNotFoundError as error:\n    print(error)\n"
    return run(attempt.format(statement), **environment).rstrip("\n")


@pytest.mark.row("R4")
@pytest.mark.parametrize(
    "name",
    [
        *("Benchmark", "Explanation", "Profile", "Report", "TuningResult", "Verification"),
        *("bench", "doctor", "explain", "guard", "profile", "tune", "verify"),
    ],
)
def test_a_name_of_the_workbench_says_what_to_install(name: str) -> None:
    assert message_of(f"devmod.{name}") == f"devmod.{name}: {MISSING}"


@pytest.mark.row("R4")
@pytest.mark.parametrize("module", ["devmod.commands", "devmod.testing"])
def test_a_module_of_the_workbench_says_what_to_install(module: str) -> None:
    assert message_of(f"import {module}") == f"{module}: {MISSING}"


def test_introspection_has_the_names_that_are_there() -> None:
    program = "print('load' in dir(devmod), sorted({'bench', 'doctor'} & {*dir(devmod)}))\n"
    assert run(program) == "True []\n"


@pytest.mark.row("R51")
def test_constants_are_replaced_without_it() -> None:
    program = (
        "import numpy as np\n"
        "module = devmod.const_loader({'w': np.zeros(2, 'float32')}, {'init': ['w']})\n"
        "module = devmod.replace_constants(module, {'w': np.array([3, -4], 'float32')})\n"
        "print(module['init']()[0].numpy().tolist())\n"
    )
    assert run(program) == "[3.0, -4.0]\n"


def test_nothing_runs_unguarded_where_a_guard_was_asked_for() -> None:
    assert message_of("devmod.Device", DEVMOD_GUARD="1") == (
        f"the environment variable DEVMOD_GUARD: {MISSING}"
    )


def test_the_program_says_which_versions_do_not_fit() -> None:
    program = (
        "import sys, devmod\ndevmod.__version__ = '0.9.0'\n"
        "import devmod.__main__\nsys.exit(devmod.__main__.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    now = devmod.__version__
    assert done.stderr == (
        f"devmod: error: devmod-workbench {now} needs devmod-core {now}, and devmod-core 0.9.0 is installed. Install both in one version: "
        f"pip install --upgrade devmod-core=={now} devmod-workbench=={now}\n"
    )


def test_the_program_says_what_to_install() -> None:
    program = "import devmod.__main__\nsys.argv = ['devmod', 'inspect', 'k.devmod']\n"
    done = completed(f"{program}sys.exit(devmod.__main__.main())")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"devmod: error: the program devmod: {MISSING}\n"
