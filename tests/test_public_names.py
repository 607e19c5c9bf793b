"""Each public name, touched in several orders in new processes."""

from __future__ import annotations

import ast
import importlib
import random
import subprocess
import sys
from pathlib import Path

import pytest

#: The names that the design promises. A name that is added to devmod is added here.
PROMISED = [
    "create",
    "create_with_fallback",
    "load_from_bytes",
    "load_from_file",
    "load_metadata_from_json",
    "const_loader",
    "bundle",
    "save",
    "load",
    "dumps",
    "loads",
    "compile",
    "Target",
    "register",
    "registered",
    "set_compiler",
    "device",
    "devices",
    "FunctionInfo",
    "Module",
    "TargetSpec",
    "Interface",
    "Param",
    "Origin",
    "Function",
    "Launch",
    "Device",
    "Array",
    "Stream",
    "Event",
    "Local",
    "Benchmark",
    "Verification",
    "bench",
    "verify",
    "interop",
    "errors",
    "DevmodError",
    "NotRegisteredError",
    "PluginError",
    "ConflictError",
    "RuntimeNotLinkedError",
    "DeviceNotFoundError",
    "CompileError",
    "ToolchainNotFoundError",
    "FunctionNotFoundError",
    "FormatError",
    "LaunchError",
    "ArgumentError",
    "Block",
    "DeviceMemoryError",
    "Explanation",
    "FetchError",
    "GuardError",
    "Image",
    "LaunchConfig",
    "Member",
    "Profile",
    "ProgramFunction",
    "Report",
    "Sampler",
    "TrustError",
    "TunedFunction",
    "TuningRecord",
    "TuningResult",
    "__version__",
    "backend",
    "build",
    "doctor",
    "empty",
    "explain",
    "guard",
    "installed",
    "profile",
    "program",
    "repeat",
    "replace_constants",
    "step",
    "targets",
    "trust",
    "tune",
]


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_promised_names_are_those_that_are_public() -> None:
    import devmod

    assert sorted(PROMISED) == sorted(devmod.__all__)
    assert set(dir(devmod)) == set(devmod.__all__)


@pytest.mark.volume_but("sorted", "shuffled 1")
@pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled 1", "shuffled 2", "shuffled 3"])
def test_names_in_any_order(order: str) -> None:
    import devmod

    names = sorted(devmod.__all__)
    if order == "reversed":
        names.reverse()
    elif order.startswith("shuffled"):
        random.Random(order).shuffle(names)
    found = run(
        "import sys, types, devmod\n"
        "for name in sys.argv[1:]:\n"
        "    value = getattr(devmod, name)\n"
        "    again = getattr(devmod, name)\n"
        "    assert value is again, name\n"
        # A module where a function or a class is meant: a submodule of that name has shadowed it.
        "    assert isinstance(value, types.ModuleType) == (name in ('errors', 'targets', 'backend', 'interop')), (name, value)\n"
        "print('good')\n",
        *names,
    )
    assert found == "good\n"


#: Touches each name first, in a fork: a process that imports NumPy takes longer than most names.
FIRST = """
import os, sys, numpy
assert not any(name.startswith("devmod") for name in sys.modules)
for name in sys.argv[1:]:
    if not os.fork():
        exec(f"import devmod; value = devmod.{name}; from devmod import {name} as again")
        assert value is again
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


def test_each_name_comes_first() -> None:
    run(FIRST, *PROMISED)


def test_a_submodule_imported_by_its_name_does_not_hide_a_public_name() -> None:
    script = (
        "import importlib, pkgutil, types, devmod\n"
        "for found in pkgutil.iter_modules(devmod.__path__, 'devmod.'):\n"
        "    if found.name not in ('devmod.__main__',):\n"
        "        importlib.import_module(found.name)\n"
        "hidden = [name for name in devmod.__all__ if name not in ('errors', 'targets', 'backend', 'interop')\n"
        "          and isinstance(getattr(devmod, name), types.ModuleType)]\n"
        "print(hidden)\n"
    )
    assert run(script) == "[]\n"


@pytest.mark.row("R6", "R39")
@pytest.mark.parametrize("module", ["devmod", "devmod.backend"])
def test_importing_the_public_names_imports_nothing_else(module: str) -> None:
    script = f"import sys; before = set(sys.modules); import {module}; print(sorted(set(sys.modules) - before))"
    assert run(script) == f"{sorted({'__future__', 'devmod', module})}\n"


@pytest.mark.parametrize("module", ["devmod", "devmod.backend", "devmod_runtime"])
def test_type_checkers_see_the_names_where_python_finds_them(module: str) -> None:
    found = importlib.import_module(module)
    tree = ast.parse(Path(str(found.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [
        node
        for node in block.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("devmod")
    ]
    typed = {alias.name: str(node.module) for node in imports for alias in node.names}
    for name in found.__all__:
        home = found._HOME.get(name)
        if home is not None:
            assert typed[name] == (f"{module.partition('.')[0]}.{home}" if home else "devmod"), name
            value = getattr(found, name)
            assert getattr(found, name) is value, name


@pytest.mark.parametrize("module", ["devmod", "devmod.backend", "devmod_runtime"])
def test_an_unknown_name_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute 'compyle'$"):
        importlib.import_module(module).compyle  # noqa: B018


def test_star_import_gives_every_public_name() -> None:
    assert (
        run("from devmod import *; import devmod; print(set(devmod.__all__) <= set(globals()))")
        == "True\n"
    )
