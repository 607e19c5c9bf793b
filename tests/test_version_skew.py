"""Core and plugins of different releases, as wheels in real environments: what does not fit says
so, and which side to upgrade (R44).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import devmod
from environments import find_uv

NOW = devmod.__version__
LATER = "9.1"
#: Makes and loads a module of the plugin's kind and of another, and says what came of it.
USE = """
import json, sys
import devmod
kind, package = sys.argv[1:]
def attempt(call):
    try:
        return type(call()).__module__.partition(".")[0]
    except devmod.DevmodError as error:
        return f"{type(error).__name__}: {error}"
def made():
    spec = devmod.backend.find_spec(kind)
    return devmod.create_with_fallback(kind, {} if spec.shader_map else b"// code", spec.formats[0], {})
other = ("rocm", b"", "hsaco", {}) if kind == "hexagon" else ("hexagon", b"", "so", {})
print(json.dumps({
    "made": attempt(made),
    "loaded": attempt(lambda: devmod.load_from_bytes(kind, b"")) if sys.argv[2] not in attempt(made) else "",
    "other": attempt(lambda: devmod.loads(devmod.dumps(devmod.create_with_fallback(*other)))),
    "imported": sorted(name for name in sys.modules if name.partition(".")[0] == package),
}))
"""


def altered(
    wheel: Path,
    folder: Path,
    version: str,
    changes: Mapping[str, str] | None = None,
    protocols: tuple[str, ...] = ("1",),
) -> Path:
    """A wheel as a release of another version would be: its metadata, the protocols that it
    declares, and texts in its code.
    """
    folder.mkdir(exist_ok=True)
    stem, now = wheel.name.split("-")[:2]
    left = dict(changes or {})
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            text = archive.read(name)
            if name.endswith("/METADATA"):
                text = text.replace(
                    f"\nVersion: {now}\n".encode(), f"\nVersion: {version}\n".encode()
                )
            elif name.endswith("/entry_points.txt"):
                declared = "".join(f"{each} = devmod\n" for each in protocols)
                text = re.sub(
                    r"\[devmod\.protocol\]\n1 = devmod\n",
                    f"[devmod.protocol]\n{declared}",
                    text.decode(),
                ).encode()
            for old, new in list(left.items()):
                if old.encode() in text and name.endswith((".py", "/METADATA")):
                    text = text.replace(old.encode(), new.encode())
                    del left[old]
            files[name.replace(f"-{now}.dist-info/", f"-{version}.dist-info/")] = text
    assert not left, f"not found in {wheel.name}: {list(left)}"
    result = folder / wheel.name.replace(f"-{now}-", f"-{version}-")
    record = f"{stem}-{version}.dist-info/RECORD"
    files[record] = (
        "".join(
            f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
            for name, data in files.items()
            if name != record
        ).encode()
        + f"{record},,\n".encode()
    )
    with zipfile.ZipFile(result, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return result


def core_speaking(wheels: Any, folder: Path, *protocols: str) -> Path:
    """Core of a later release that speaks these versions of the protocol."""
    changes = {
        'PROTOCOLS = frozenset({"1"})': f"PROTOCOLS = frozenset({{{', '.join(map(repr, protocols))}}})",
        f'__version__ = "{NOW}"': f'__version__ = "{LATER}"',
    }
    return altered(wheels["devmod-core"], folder, LATER, changes, protocols)


def pinned_to(wheels: Any, folder: Path, name: str) -> Path:
    """The runtime, the workbench or the build side of the same later release. They pin core
    exactly.
    """
    changes = {f"devmod-core=={NOW}": f"devmod-core=={LATER}"}
    if name in ("devmod-runtime", "devmod-workbench"):
        changes[f'__version__ = "{NOW}"'] = f'__version__ = "{LATER}"'
    return altered(wheels[name], folder, LATER, changes)


def use(box: Any, kind: str, distribution: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(box.run("-c", USE, kind, distribution.replace("-", "_")))
    assert data["other"] == "devmod"
    return data


def problems(box: Any, distribution: str) -> set[str]:
    """What `devmod plugins` says is wrong with a distribution's entries, by their metadata."""
    rows = json.loads(box.run("-m", "devmod", "plugins", "--json", "--no-import"))
    return {row["problem"] for row in rows if row["distribution"] == distribution}


def refused(box: Any, kind: str, plugin: str, said: str) -> None:
    """Nothing of the plugin is imported, and there is no silent fallback; `devmod plugins` shows
    the same words.
    """
    result = use(box, kind, plugin)
    first = "create" if kind in devmod.targets.KINDS else "targets"
    assert result["made"] == f"PluginError: devmod.{first}.{kind} cannot be used: {said}"
    assert result["loaded"] == f"PluginError: devmod.load_from_bytes.{kind} cannot be used: {said}"
    assert result["imported"] == []
    assert problems(box, plugin) == {said}


@pytest.fixture
def kind(plugin: str, projects: Mapping[str, Any]) -> str:
    """The kind that a plugin creates, where a later or an earlier core knows the kind too."""
    kinds = list(projects[plugin]["entry-points"].get("devmod.create", {}))
    if not kinds:
        pytest.skip(f"{plugin} makes no modules")
    return str(kinds[0])


@pytest.mark.volume_but("devmod-opencl")
@pytest.mark.row("R8", "R28", "R44")
def test_a_later_plugin_on_this_core(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path, plugin: str, kind: str
) -> None:
    later = altered(wheels[plugin], tmp_path / "later", LATER, protocols=("2", "3"))
    names = ["devmod-core", "devmod-workbench", plugin]
    box = environment(*map(wheels.direct, names))
    assert use(box, kind, plugin)["made"] == plugin.replace("-", "_")
    box.install("--no-deps", str(later))
    message = (
        f"{plugin} {LATER} supports version 2 and 3 of devmod's plugin protocol, and devmod-core {NOW} supports version 1. Upgrade devmod-core: "
        "pip install --upgrade devmod-core"
    )
    refused(box, kind, plugin, message)


def test_an_installer_does_not_put_them_together(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    uv = find_uv()
    if uv is None:
        pytest.skip("uv is not installed")
    bound = f"Requires-Dist: devmod-core>={NOW}"
    later = altered(
        wheels["devmod-opencl"],
        tmp_path / "later",
        LATER,
        {bound: f"Requires-Dist: devmod-core>={LATER}"},
    )
    box = environment(wheels.direct("devmod-core"), wheels.direct("devmod-opencl"))
    command = [
        uv,
        "pip",
        "install",
        "--offline",
        "--python",
        str(box.python),
        str(later),
        str(wheels["devmod-core"]),
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode
    message = " ".join(process.stderr.split())
    assert f"devmod-opencl=={LATER} depends on devmod-core>={LATER}" in message


@pytest.mark.volume_but("devmod-opencl")
@pytest.mark.row("R8", "R28", "R44")
def test_this_plugin_on_a_later_core(
    environment: Callable[..., Any],
    wheels: Any,
    projects: Mapping[str, Any],
    tmp_path: Path,
    plugin: str,
    kind: str,
) -> None:
    version = projects[plugin]["version"]
    needed = ["devmod-workbench"]
    for name in ("devmod-runtime", "devmod-targets"):
        if any(name in each for each in projects[plugin]["dependencies"]):
            needed.append(name)
    later = [str(pinned_to(wheels, tmp_path / "later", name)) for name in needed]
    box = environment(
        str(core_speaking(wheels, tmp_path / "later", "2", "3")), *later, wheels.direct(plugin)
    )
    message = (
        f"{plugin} {version} supports version 1 of devmod's plugin protocol, and devmod-core {LATER} supports version 2 and 3. Upgrade {plugin}: pip "
        f"install --upgrade {plugin}"
    )
    refused(box, kind, plugin, message)


@pytest.mark.volume_but("devmod-opencl")
@pytest.mark.row("R44")
def test_sides_that_share_a_version_work_together(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path, plugin: str, kind: str
) -> None:
    package = plugin.replace("-", "_")
    both = altered(wheels[plugin], tmp_path / "plugin", LATER, protocols=("1", "2"))
    own = map(wheels.direct, ["devmod-core", "devmod-workbench"])
    box = environment(*own, str(both))
    assert use(box, kind, plugin)["made"] == package
    assert problems(box, plugin) == {""}
    later = [
        str(core_speaking(wheels, tmp_path / "core", "1", "2")),
        str(pinned_to(wheels, tmp_path / "core", "devmod-runtime")),
        str(pinned_to(wheels, tmp_path / "core", "devmod-workbench")),
    ]
    box.install("--no-deps", wheels.direct(plugin), *later)
    assert use(box, kind, plugin)["made"] == package
    assert problems(box, plugin) == {""}


@pytest.mark.row("R8", "R44")
def test_a_later_runtime_on_this_core_says_what_to_upgrade(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """An installer upgrades both. --no-deps passes by the pin."""
    box = environment(wheels.direct("devmod-core"), wheels.direct("devmod-opencl"))
    box.install("--no-deps", str(pinned_to(wheels, tmp_path / "later", "devmod-runtime")))
    message = (
        f"devmod-runtime {LATER} needs devmod-core {LATER}, and devmod-core {NOW} is installed. Install both in one version: pip install "
        f"--upgrade devmod-core=={LATER} devmod-runtime=={LATER}"
    )
    assert message in use(box, "opencl", "devmod-opencl")["loaded"]


@pytest.mark.row("R8", "R44")
def test_a_later_plugin_of_the_same_protocol_that_needs_a_name_of_a_later_core(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """A minor release of core adds names; a plugin that uses one says so by its lower bound, which
    --no-deps passes by.
    """
    docstring = zipfile.ZipFile(wheels["devmod-opencl"]).read("devmod_opencl/__init__.py").decode()
    first = "from __future__ import annotations\n"
    assert first in docstring
    later = altered(wheels["devmod-opencl"], tmp_path / "later", LATER)
    with zipfile.ZipFile(later) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["devmod_opencl/__init__.py"] = docstring.replace(
        first, f"{first}\nfrom devmod.backend import Tomorrow\n"
    ).encode()
    with zipfile.ZipFile(later, "w") as archive:
        for name, data in files.items():
            archive.writestr(
                name,
                data if not name.endswith("/RECORD") else "".join(f"{each},,\n" for each in files),
            )
    box = environment(wheels.direct("devmod-core"), wheels.direct("devmod-opencl"))
    box.install("--no-deps", str(later))
    result = use(box, "opencl", "devmod-opencl")
    message = re.sub(r"\(/\S+backend\.py\)", "(…)", result["made"])
    assert message == (
        f"PluginError: devmod.create.opencl cannot be used: devmod-opencl {LATER}: importing devmod_opencl._module failed (ImportError: cannot "
        f"import name 'Tomorrow' from 'devmod.backend' (…)), so it was written for another version of devmod-core than the {NOW} installed here. "
        "Upgrade both: pip install --upgrade devmod-core devmod-opencl"
    )
