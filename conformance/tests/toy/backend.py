"""Installs the toy backend, or one with a single fault, into a folder, and runs the kit on it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from distributions import install
from forked import python
from toy_faults import FAULTS
from toy_faults._fault import Fault

HERE = Path(__file__).parent
#: The distributions that the processes of the tests see.
ALLOWED = "devmod-conformance,devmod-toy,devmod-toymap,devmod-least"
ENTRIES = {
    ("devmod.create", "toy"): "._entries:create",
    ("devmod.load_from_bytes", "toy"): "._entries:load_from_bytes",
    ("devmod.load_from_bytes", "toyish"): "._entries:load_from_bytes",
    ("devmod.load_from_file", "toy"): "._entries:load_from_file",
    ("devmod.load_from_file", "toybin"): "._entries:load_from_file",
    ("devmod.targets", "toy"): ":TARGET",
    ("devmod.device", "toy"): "._entries:devices",
    ("devmod.adopt", "toy"): "._entries:adopt",
    ("devmod.conformance", "toy"): "._conformance:ToyConformance",
}


def put(folder: Path, wrong: str = "") -> Path:
    """Install the toy, or the one with this fault, into a folder."""
    fault = FAULTS[wrong] if wrong else Fault((), "")
    groups: dict[str, dict[str, str]] = {
        group: {"toy": "devmod_toy._entries:devices"} for group in fault.groups
    }
    for (group, name), value in ENTRIES.items():
        if (group, name) not in fault.without:
            groups.setdefault(group, {})[name] = f"devmod_toy{value}"
    install(folder, "devmod-toy", groups=groups | {"devmod.protocol": {"1": "devmod"}})
    if wrong:
        (folder / "toy_fault.py").write_text(f"NAME = {wrong!r}\n")
    return folder


def put_map(folder: Path) -> Path:
    """Install the backend with a map of shaders into a folder."""
    groups = {
        "devmod.create": {"toymap": "devmod_toymap:create"},
        "devmod.load_from_bytes": {"toymap": "devmod_toymap:load_from_bytes"},
        "devmod.load_from_file": {"toyshader": "devmod_toymap:load_from_file"},
        "devmod.targets": {"toymap": "devmod_toymap:TARGET"},
        "devmod.conformance": {"toymap": "devmod_toymap:MapConformance"},
        "devmod.protocol": {"1": "devmod"},
    }
    install(folder, "devmod-toymap", groups=groups)
    return folder


def put_least(folder: Path) -> Path:
    """Install the minimal backend into a folder."""
    groups = {
        "devmod.create": {"least": "devmod_least:create"},
        "devmod.load_from_bytes": {"least": "devmod_least:load"},
        "devmod.conformance": {"least": "devmod_least:LeastConformance"},
    }
    install(folder, "devmod-least", groups=groups)
    return folder


def environment(folder: Path, cache: Path) -> dict[str, str]:
    """Return the environment of a process with this toy and no other backend."""
    made = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DEVMOD_", "PYTHON", "CUDA_"))
    }
    path = [folder, HERE, HERE.parents[1] / "src"]
    return made | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DEVMOD_CACHE_DIR": str(cache),
        "DEVMOD_PLUGINS_ALLOW": ALLOWED,
    }


def conformance(
    folder: Path, cache: Path, *arguments: str, kind: str = "toy"
) -> subprocess.CompletedProcess[str]:
    """Run ``devmod conformance``."""
    words = ("-m", "devmod", "conformance", kind, *arguments)
    return python(*words, env=environment(folder, cache), timeout=1200)


def results(
    folder: Path, cache: Path, *arguments: str, kind: str = "toy"
) -> dict[str, dict[str, str]]:
    """Run ``devmod conformance --json`` and return its rows by id."""
    done = conformance(folder, cache, "--json", *arguments, kind=kind)
    assert done.stdout.startswith("["), done.stderr
    found = {each["row"]: each for each in json.loads(done.stdout)}
    assert done.returncode == any(each["outcome"] == "failed" for each in found.values())
    return found
