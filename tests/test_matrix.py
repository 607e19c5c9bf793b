"""Every wheel, as users have them: core alone, core and each, all of them, then one after the other
taken out again.

In each of these environments a runtime's being installed is the switch between the real module and
the fallback, and nothing else is: the bytes are the same, the errors name what is missing, `devmod
plugins` lists what is there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import devmod
import pythons  # tools/pythons.py
from devmod import targets
from wheels import is_backend  # tools/wheels.py

Projects = Mapping[str, Mapping[str, Any]]

#: Takes kinds; prints what comes of each in the process's environment.
PROBE = """
import hashlib, json, os, sys
import devmod
from devmod._plugins.specs import find_spec

def digest(data):
    return hashlib.sha256(data).hexdigest()

def payload(kind):
    spec = find_spec(kind)
    code = bytes(4) + b"\\1" + bytes(7) + b"\\3\\2#\\7" if kind == "vulkan" else b"// a payload"
    info = devmod.FunctionInfo("k", ("handle", "int32"), ("blockIdx.x", "threadIdx.x"))
    return {"k": code} if spec and spec.shader_map else code, spec.formats[0] if spec else "x", {"k": info}

def attempt(call):
    try:
        return call()
    except devmod.DevmodError as error:
        return f"{type(error).__name__}: {error}"

def whose(made):
    return made if isinstance(made, str) else type(made).__module__.partition(".")[0]

kinds, packages = json.loads(sys.argv[1])
found = {kind: {} for kind in kinds}
os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = "1"
forced = {kind: attempt(lambda: devmod.create_with_fallback(kind, *payload(kind))) for kind in kinds}
core = [forced[kind] for kind in devmod.targets.KINDS]
file = devmod.dumps(devmod.bundle(*core))
stored = devmod.loads(file)
assert [each.kind for each in stored.imports] == [each.kind for each in core]
assert devmod.dumps(stored) == file
# Building, saving, opening and listing have imported no plugin but for its targets.
entered = [name for name in packages if any(f"{name}{part}" in sys.modules for part in ("._module", "._driver", "._device"))]
for kind in kinds:
    here = found[kind]
    here["forced"] = whose(forced[kind])
    os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = "0"
    here["create"] = whose(attempt(lambda: devmod.create(kind, *payload(kind))))
    made = attempt(lambda: devmod.create_with_fallback(kind, *payload(kind)))
    here["made"] = whose(made)
    if not isinstance(made, str):
        wire = made.save_to_bytes()
        assert wire == forced[kind].save_to_bytes(), kind
        here["bytes"] = digest(wire)
        loaded = attempt(lambda: devmod.load_from_bytes(kind, wire))
        here["loaded"] = whose(loaded)
        if isinstance(loaded, str):
            here["run"] = attempt(lambda: made["k"])
            kept = devmod.loads(devmod.dumps(made))
            assert attempt(lambda: kept["k"]) == loaded, kind
        else:
            assert (loaded.kind, loaded.save_to_bytes()) == (kind, wire)
print(json.dumps({"kinds": found, "file": digest(file), "entered": entered}))
"""


@functools.cache
def expected() -> tuple[dict[str, str], str]:
    """The digests of the bytes of core's kinds, and of the file with all of them, as this process
    makes them.
    """
    made = {}
    with mock.patch.dict(os.environ, {"DEVMOD_COMPILE_FORCE_FALLBACK": "1"}):
        for kind in targets.KINDS:
            spec = devmod.backend.find_spec(kind)
            assert spec is not None
            code = bytes(4) + b"\1" + bytes(7) + b"\3\2#\7" if kind == "vulkan" else b"// a payload"
            info = devmod.FunctionInfo("k", ("handle", "int32"), ("blockIdx.x", "threadIdx.x"))
            made[kind] = devmod.create_with_fallback(
                kind, {"k": code} if spec.shader_map else code, spec.formats[0], {"k": info}
            )
    digests = {
        kind: hashlib.sha256(module.save_to_bytes()).hexdigest() for kind, module in made.items()
    }
    return digests, hashlib.sha256(devmod.dumps(devmod.bundle(*made.values()))).hexdigest()


def declared(projects: Projects, names: Iterable[str]) -> set[tuple[str, str, str]]:
    """What these distributions declare: group, name, distribution."""
    return {
        (group, name, distribution)
        for distribution in names
        for group, entries in projects[distribution].get("entry-points", {}).items()
        if group.startswith("devmod.")
        for name in entries
    }


def check(box: Any, projects: Projects, installed: Iterable[str]) -> list[dict[str, str]]:
    """All of it, in an environment that has core, these plugins, and the wheels that they need.
    Returns the rows of `devmod plugins`.
    """
    find = "from importlib.util import find_spec; print(*(each for each in ('readers', 'runtime', 'targets', 'workbench') if find_spec(f'devmod_{each}')))"
    installed = [*installed, *(f"devmod-{each}" for each in box.run("-c", find).split())]
    plugins = [name for name in projects if is_backend(projects[name])]
    kinds = sorted(
        {
            *targets.KINDS,
            *(name for group, name, _ in declared(projects, plugins) if group == "devmod.create"),
        }
    )
    packages = [name.replace("-", "_") for name in plugins]
    told = json.loads(box.run("-c", PROBE, json.dumps([kinds, packages])))
    offered = declared(projects, installed)
    here = {
        (group, name): distribution
        for group, name, distribution in offered
        if group != "devmod.protocol"
    }
    digests, file = expected()
    assert told["file"] == file
    assert told["entered"] == []
    for kind in kinds:
        found = told["kinds"][kind]
        known = kind in targets.KINDS or ("devmod.targets", kind) in here
        package = here.get(("devmod.create", kind), "").replace("-", "_")
        if kind in digests:
            assert found["bytes"] == digests[kind]
        if package:
            assert (found["create"], found["made"], found["loaded"]) == (package, package, package)
            assert found["forced"] == ("devmod" if known else package)
        elif known:
            title, install = title_and_install(kind)
            missing = (
                f"is not registered: the {title} runtime is not installed. To add it: {install}"
            )
            assert found["create"] == f"NotRegisteredError: devmod.create.{kind} {missing}"
            assert found["loaded"] == f"NotRegisteredError: devmod.load_from_bytes.{kind} {missing}"
            assert (found["made"], found["forced"]) == ("devmod", "devmod")
            assert found["run"] == (
                f"RuntimeNotLinkedError: the {kind} function 'k' cannot be used here: this module is a fallback, made while the {title} runtime "
                f"was not installed. It can be inspected and saved. To run it: {install}"
            )
        else:
            text = (
                f"NotRegisteredError: devmod.create.{kind} is not registered, and no known distribution provides it; by convention it would be "
                f"devmod-{kind}; install that only if you trust its publisher"
            )
            assert (found["create"], found["made"], found["forced"]) == (text, text, text)
    if "devmod-workbench" not in installed:
        missing = "devmod-workbench is not installed. To add it: pip install devmod-workbench\n"
        assert box.run("-m", "devmod", "plugins", code=1) == (
            f"devmod: error: the program devmod: {missing}"
        )
        return []
    listed, _ = json.JSONDecoder().raw_decode(box.run("-m", "devmod", "plugins", "--json"))
    rows = [row for row in listed if row["distribution"] in projects]
    assert {(row["group"], row["name"], row["distribution"]) for row in rows} == offered
    without_kit = "ok" if "devmod-conformance" in installed else "needs devmod-conformance"
    assert {(row["group"], row["distribution"], row["state"], row["problem"]) for row in rows} == {
        (group, name, without_kit if group == "devmod.conformance" else "ok", "")
        for group, _, name in offered
    }
    assert {(row["distribution"], row["version"]) for row in rows} == {
        (name, projects[name]["version"]) for name in installed if name != "devmod-workbench"
    }
    if installed == ["devmod-workbench"]:
        none = 'No plugin is installed. A runtime is added with pip, for example: pip install "devmod-opencl[pocl]"\n'
        assert box.run("-m", "devmod", "plugins") == none
    return list(listed)


#: Wheels of strangers, each with something wrong; what is wrong is in the text of the module or in
#: the entries.
NEIGHBOURS = {
    "import": (
        "raise OSError('no libimport.so')",
        {"devmod.create": "create", "devmod.load_from_bytes": "load", "devmod.device": "devices"},
    ),
    "call": (
        "def create(*all): 1 // 0\nload = create\ndef devices(): 1 // 0",
        {"devmod.create": "create", "devmod.device": "devices"},
    ),
    "result": (
        "def create(*all): return 1\ndef devices(): return 1",
        {"devmod.create": "create", "devmod.device": "devices"},
    ),
    "leave": (
        "import atexit\natexit.register(lambda: 1 // 0)\ndef create(*all): ...",
        {"devmod.create": "create"},
    ),
    "later": ("def create(*all): ...", {"devmod.create": "create", "devmod.protocol": ""}),
    "half": ("def create(*all): ...", {"devmod.create": "create"}),
    "devmod": ("def file(*all): ...", {"devmod.load_from_file": "file"}),
    "const_loader": ("def load(data): ...", {"devmod.load_from_bytes": "load"}),
}


def neighbour(folder: Path, kind: str) -> str:
    """The wheel of one of them, acme-<kind> 0.7."""
    text, named = NEIGHBOURS[kind]
    stem, info = f"acme_{kind}", f"acme_{kind}-0.7.dist-info"
    entries = "".join(
        f"[{group}]\n" + (f"{kind} = {stem}:{name}\n" if name else "2 = devmod\n")
        for group, name in named.items()
    )
    made = folder / f"{stem}-0.7-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{stem}.py", text + "\n")
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: acme-{kind.replace('_', '-')}\nVersion: 0.7\n",
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/entry_points.txt", entries)
        archive.writestr(
            f"{info}/RECORD",
            f"{stem}.py,,\n"
            + "".join(
                f"{info}/{name},,\n" for name in ("METADATA", "WHEEL", "entry_points.txt", "RECORD")
            ),
        )
    return str(made)


@pytest.mark.row("R8", "R9", "R18", "R28", "R44")
def test_all_plugins_beside_broken_plugins_of_every_sort(
    environment: Callable[..., Any], wheels: Any, projects: Projects, tmp_path: Path
) -> None:
    plugins = [name for name in projects if is_backend(projects[name])]
    box = environment(
        *(wheels.direct(name) for name in ["devmod-core", "devmod-workbench", *plugins]),
        *(neighbour(tmp_path, kind) for kind in NEIGHBOURS),
    )
    (package,) = box.folder.rglob("acme_half.py")
    package.unlink()
    rows = check(box, projects, plugins)
    problems = {
        row["distribution"]: row["problem"]
        for row in rows
        if row["distribution"].startswith("acme") and row["problem"]
    }
    for name, part in {
        "acme-import": "acme-import 0.7: importing acme_import failed (OSError: no libimport.so)",
        "acme-later": f"acme-later 0.7 supports version 2 of devmod's plugin protocol, and devmod-core {devmod.__version__} supports version 1",
        "acme-half": "acme-half 0.7: importing acme_half failed (ModuleNotFoundError: No module named 'acme_half')",
        "acme-devmod": f"devmod.load_from_file.devmod is claimed by devmod-core {devmod.__version__} and acme-devmod 0.7",
        "acme-const-loader": f"devmod.load_from_bytes.const_loader is claimed by devmod-core {devmod.__version__} and acme-const-loader 0.7",
    }.items():
        assert part in problems.pop(name)
    assert problems == {}  # the others' faults show when they are called
    found, _ = json.JSONDecoder().raw_decode(box.run("-m", "devmod", "devices", "--json"))
    for text in (
        "import: devmod.device.import is broken: acme-import 0.7: importing acme_import failed",
        "call: devmod.device.call of acme-call 0.7 failed: ZeroDivisionError",
        "result: devmod.device.result is broken: acme-result 0.7 returned int, not a sequence of devmod.Device",
    ):
        assert [problem for problem in found["problems"] if problem.startswith(text)], found[
            "problems"
        ]


def title_and_install(kind: str) -> tuple[str, str]:
    spec = devmod.backend.find_spec(kind)
    assert spec is not None
    return spec.title, spec.install


@pytest.mark.volume  # test_clean_install.py has core alone
@pytest.mark.row("R4", "R6", "R18", "R24", "R25", "R28", "R38")
@pytest.mark.parametrize("version", pythons.TESTED, ids=lambda version: "{}.{}".format(*version))
def test_core_alone_on_each_python(
    environment: Callable[..., Any], wheels: Any, projects: Projects, version: tuple[int, int]
) -> None:
    interpreter = pythons.find().get(version)
    if interpreter is None:
        pytest.skip("Python {}.{} is not on this machine".format(*version))
    box = environment(wheels.direct("devmod-core"), interpreter=interpreter)
    check(box, projects, [])
    box.install(wheels.direct("devmod-workbench"))
    check(box, projects, [])


@pytest.mark.volume_but("devmod-opencl")  # test_devmod_host.py has a kind that core does not know
@pytest.mark.row("R4", "R6", "R7", "R18", "R19", "R24", "R28")
def test_core_and_one(
    environment: Callable[..., Any], wheels: Any, projects: Projects, plugin: str
) -> None:
    names = ["devmod-core", "devmod-workbench", plugin]
    check(environment(*map(wheels.direct, names)), projects, [plugin])


@pytest.mark.volume  # test_devmod_host.py has one
def test_a_plugin_with_conformance_cases_passes_them_without_other_plugins(
    environment: Callable[..., Any], wheels: Any, projects: Projects, plugin: str
) -> None:
    """No extra of the plugin's, so perhaps no driver: what needs one is skipped, and says so."""
    kinds = projects[plugin]["entry-points"].get("devmod.conformance", {})
    if not kinds:
        pytest.skip(f"{plugin} brings no conformance cases")
    box = environment(wheels.direct("devmod-core", "conformance"), wheels.direct(plugin))
    for kind in kinds:
        rows = json.loads(box.run("-m", "devmod", "conformance", kind, "--json"))
        assert not [
            row
            for row in rows
            if row["outcome"] not in ("passed", "skipped")
            or (row["outcome"] == "skipped") != bool(row["reason"])
        ]
        assert sum(row["outcome"] == "passed" for row in rows) >= 15


@pytest.mark.volume
@pytest.mark.row("R4", "R6", "R18", "R19", "R24", "R28")
def test_all_then_one_less_each_time(
    environment: Callable[..., Any], wheels: Any, projects: Projects
) -> None:
    left = [name for name in projects if is_backend(projects[name])]
    box = environment(*(wheels.direct(name) for name in ["devmod-core", "devmod-workbench", *left]))
    check(box, projects, left)
    while left:
        box.uninstall(left.pop(0))
        check(box, projects, left)


def test_there_is_something_to_install(projects: Projects) -> None:
    assert {"devmod", "devmod-core", "devmod-opencl"} <= set(projects)
