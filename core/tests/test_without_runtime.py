"""A build box: core and the build side are installed, and no runtime is. devmod-runtime cannot be
imported there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Hides devmod-runtime from the imports of a process, and every runtime from the registry.
HIDE = """
import sys
sys.modules["devmod_runtime"] = None
import numpy as np
import devmod
"""
KERNEL = "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }"


def run(script: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDE + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={"DEVMOD_PLUGINS_ALLOW": "devmod-core,devmod-targets", "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.row("R24", "R29")
def test_a_build_box_compiles_saves_loads_and_inspects(tmp_path: Path) -> None:
    file = tmp_path / "twice.devmod"
    found = run(
        f"module = devmod.compile({KERNEL!r}, 'opencl')\n"
        "devmod.save(module, sys.argv[1])\n"
        "again = devmod.load(sys.argv[1])\n"
        "print(again.kind, list(again), again.functions['twice'].arg_types, again.save_to_bytes() == module.save_to_bytes())\n"
        "print(devmod.devices())\n"
        "from devmod.__main__ import main\n"
        "sys.argv = ['devmod', 'inspect', sys.argv[1]]\n"
        "main()\n",
        file,
    )
    first, second, *inspected = found.splitlines()
    assert first == "opencl ['twice'] ('handle',) True"
    assert second == "[]"
    assert any("twice(x: float32* rw)" in line for line in inspected)


@pytest.mark.row("R20")
def test_a_build_box_reads_constants() -> None:
    found = run(
        "module = devmod.bundle(devmod.const_loader({'w': np.arange(4, dtype=np.float32)}, {'init': ['w']}))\n"
        "module = devmod.loads(devmod.dumps(module))\n"
        "(constant,) = module['init']()\n"
        "print(constant.numpy().tolist(), isinstance(constant, devmod.Array), memoryview(constant).tolist(), constant[1:3].numpy().tolist())\n"
        "print(np.from_dlpack(constant).tolist() if np.__version__ >= '2.1' else [0.0, 1.0, 2.0, 3.0])\n"
        "try:\n"
        "    constant.copy_to(np.zeros(4, np.float32))\n"
        "except devmod.RuntimeNotLinkedError as error:\n"
        "    print(error)\n"
    )
    assert found.splitlines() == [
        "[0.0, 1.0, 2.0, 3.0] True [0.0, 1.0, 2.0, 3.0] [1.0, 2.0]",
        "[0.0, 1.0, 2.0, 3.0]",
        "Array.copy_to needs devmod-runtime, which is not installed. The wheel of each backend brings it, as in: pip install devmod-opencl (or "
        "devmod-cuda, devmod-rocm, devmod-metal, devmod-vulkan, devmod-hexagon, devmod-webgpu)",
    ]


@pytest.mark.row("R4")
def test_a_device_of_a_missing_runtime_names_the_wheel() -> None:
    found = run(
        "from devmod._plugins import discovery\ndiscovery._scan_all = lambda: iter(())\n"
        "try:\n    devmod.device('vulkan')\nexcept devmod.NotRegisteredError as error:\n    print(error)\n"
    )
    assert "devmod.device.vulkan" in found
    assert "pip install devmod-vulkan" in found


@pytest.mark.row("R4")
def test_the_error_of_a_class_of_the_runtime_names_the_wheels_that_bring_it() -> None:
    names = (
        "Device",
        "Event",
        "Function",
        "Launch",
        "LaunchConfig",
        "ProgramFunction",
        "Stream",
        "set_compiler",
    )
    found = run(
        "".join(
            f"try:\n    from devmod import {name}\nexcept devmod.RuntimeNotLinkedError as error:\n    print(error)\n"
            for name in names
        )
    )
    assert found.splitlines() == [
        f"devmod.{name} needs devmod-runtime, which is not installed. The wheel of each backend brings it, as in: pip install devmod-opencl "
        "(or devmod-cuda, devmod-rocm, devmod-metal, devmod-vulkan, devmod-hexagon, devmod-webgpu)"
        for name in names
    ]


@pytest.mark.row("R4")
def test_introspection_reads_the_names_that_a_build_box_has() -> None:
    found = run(
        "import inspect, pydoc, sys\n"
        "sys.modules['devmod_targets'] = None\n"
        "names = {name for name, value in inspect.getmembers(devmod)}\n"
        "print(sorted(set(devmod._HOME) - names), sorted(names & set(devmod._IN_RUNTIME)))\n"
        "print('create_with_fallback' in pydoc.plain(pydoc.render_doc(devmod)))\n"
        "from devmod import *\n"
        "print(load is devmod.load, compile is devmod.compile, 'Device' in globals())\n"
        "print([name for name, value in inspect.getmembers(devmod.interop)])\n"
        "from devmod.interop import *\n"
        "print(tvm is devmod.interop.tvm, 'triton' in globals())\n"
    )
    assert found.splitlines() == ["[] []", "True", "True True False", "['tvm']", "True False"]


@pytest.mark.row("R4", "R8")
def test_without_devmod_models_the_others_stay_and_the_error_names_it() -> None:
    found = run(
        "sys.modules['devmod_models'] = None\n"
        "print(dir(devmod.interop))\n"
        "try:\n    devmod.interop.tinygrad\nexcept devmod.ToolchainNotFoundError as error:\n    print(error)\n"
    )
    assert found.splitlines() == [
        "['offload', 'triton', 'tvm']",
        'devmod.interop.tinygrad cannot be used here: devmod-models is not installed. To add it: pip install "devmod-core[tinygrad]"',
    ]


@pytest.mark.row("R4")
def test_introspection_omits_the_names_of_a_module_without_a_spec() -> None:
    """A user's test may put a stand-in into sys.modules."""
    found = run(
        "import inspect, pydoc, sys, types\n"
        "for name in ('devmod_runtime', 'devmod_targets'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "print('Device' in dir(devmod), 'create_with_fallback' in pydoc.plain(pydoc.render_doc(devmod)))\n"
        "print([name for name, value in inspect.getmembers(devmod.interop)])\n"
    )
    assert found.splitlines() == ["False True", "['tvm']"]


@pytest.mark.row("R4")
def test_a_folder_with_the_name_of_the_runtime_is_not_the_runtime(tmp_path: Path) -> None:
    attempt = "try:\n    from devmod import Device\nexcept devmod.RuntimeNotLinkedError as error:\n    print(error)\n"
    # What Python imports from a folder without __init__.py, as an incomplete uninstall leaves it.
    assert run(
        "import types\nsys.modules['devmod_runtime'] = types.ModuleType('devmod_runtime')\n"
        + attempt
    ).startswith(
        "devmod.Device needs devmod-runtime, which is not installed. The wheel of each backend brings it"
    )
    file = tmp_path / "devmod_runtime.py"
    package = tmp_path / "apart" / "devmod_runtime" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.touch()
    file.touch()
    for hiding, folder in ((file, tmp_path), (package, tmp_path / "apart")):
        assert run(
            f"del sys.modules['devmod_runtime']\nsys.path.insert(0, {str(folder)!r})\n" + attempt
        ) == (
            f"devmod.Device needs devmod-runtime, which cannot be imported: the file {str(hiding)!r} hides the installed package 'devmod_runtime'. "
            "Rename the file\n"
        )
        # It is installed there itself.
        (folder / "another-1.0.dist-info").mkdir()
        assert "hides" not in run(
            f"del sys.modules['devmod_runtime']\nsys.path.insert(0, {str(folder)!r})\n" + attempt
        )


@pytest.mark.row("R4", "R23")
def test_the_build_side_without_the_readers_names_what_to_install(tmp_path: Path) -> None:
    found = run(
        "sys.modules['devmod_readers'] = None\n"
        "for call in (lambda: devmod.compile('', 'webgpu'), lambda: devmod.build(), lambda: devmod.interop.offload):\n"
        "    try:\n        call()\n    except devmod.ToolchainNotFoundError as error:\n        print(error)\n"
    )
    assert found.splitlines() == [
        'webgpu cannot be compiled here: its compiler is not installed. To add it: pip install "devmod-core[build-webgpu]"',
        'nothing can be built here: devmod-targets is not installed. To add it: pip install "devmod-core[build]"',
        "devmod.interop.offload cannot be used here: devmod-readers is not installed. To add it: pip install devmod-readers",
    ]


@pytest.mark.row("R6", "R28", "R39")
def test_compiling_and_saving_a_fallback_imports_nothing_of_an_installed_runtime() -> None:
    script = (
        "import sys, devmod\n"
        f"devmod.dumps(devmod.compile({KERNEL!r}, 'opencl'))\n"
        "print([name for name in sys.modules if name.startswith('devmod_runtime')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"DEVMOD_COMPILE_FORCE_FALLBACK": "1", "PYTHONUTF8": "1"},
    )
    assert done.stdout == "[]\n"


#: The modules of core that a process imports to open a file.
LOADING = {
    "devmod",
    "devmod._files",
    "devmod._formats",
    "devmod._files.bundle_file",
    "devmod._formats.index",
    "devmod._formats.msgpack",
    "devmod._formats.pages",
    "devmod._files.tree",
    "devmod._formats.trust",
    "devmod._modules",
    "devmod._modules.module",
    "devmod._modules.stored",
    "devmod._util",
    "devmod._util.digest",
    "devmod._util.environment",
    "devmod._util.locks",
    "devmod._util.once",
    "devmod._util.pickling",
    "devmod._util.regular_files",
    "devmod._util.text",
    "devmod.errors",
}


@pytest.mark.row("R39")
def test_opening_a_file_imports_a_closed_list_of_modules(tmp_path: Path) -> None:
    file = tmp_path / "twice.devmod"
    run(f"devmod.save(devmod.compile({KERNEL!r}, 'opencl'), sys.argv[1])", file)
    script = "import sys, devmod; devmod.load(sys.argv[1]); print(*sorted(name for name in sys.modules if name.startswith('devmod')))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == LOADING


@pytest.mark.row("R44")
def test_a_runtime_of_another_version_is_refused(tmp_path: Path) -> None:
    script = "devmod.__version__ = '0.0.9'\ndel sys.modules['devmod_runtime']\ntry:\n    import devmod_runtime\nexcept devmod.PluginError as error:\n    print(error)\n"
    import devmod

    version = devmod.__version__
    assert run(script) == (
        f"devmod-runtime {version} needs devmod-core {version}, and devmod-core 0.0.9 is installed. Install both in one version: pip install "
        f"--upgrade devmod-core=={version} devmod-runtime=={version}\n"
    )


def test_devmod_testing_names_the_wheels_that_bring_it() -> None:
    found = run(
        "try:\n    import devmod.testing\nexcept devmod.RuntimeNotLinkedError as error:\n    print(error)\n"
    )
    assert found.startswith("devmod.testing needs devmod-runtime, which ")
