"""Installs a toy backend, or one with a single fault, into a folder, and runs the kit on it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from distributions import install

HERE = Path(__file__).parent
WRONG = sorted(path.stem for path in (HERE / "wrong").glob("*.py"))
ENTRIES = {
    ("devmod.create", "toy"): "create",
    ("devmod.load_from_bytes", "toy"): "load_from_bytes",
    ("devmod.load_from_bytes", "toyish"): "load_from_bytes",
    ("devmod.load_from_file", "toy"): "load_from_file",
    ("devmod.load_from_file", "toybin"): "load_from_file",
    ("devmod.targets", "toy"): "TARGET",
    ("devmod.device", "toy"): "devices",
}


class WrongBackend:
    """The file of a wrong backend: the names that it defines, and its constants."""

    def __init__(self, name: str) -> None:
        tree = ast.parse((HERE / "wrong" / f"{name}.py").read_text())
        self.names: set[str] = set()
        self.cases = ""
        self.constants: dict[str, Any] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.names.add(node.name)
            elif isinstance(node, ast.ImportFrom):
                self.names.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) and base.id == "ToyConformance" for base in node.bases):
                self.cases = node.name
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                self.names.update(each.id for each in node.targets[0].elts if isinstance(each, ast.Name))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
                try:
                    self.constants[node.targets[0].id] = ast.literal_eval(node.value)
                except ValueError:  # an object that an entry point names, such as TARGET
                    self.names.add(node.targets[0].id)

    @property
    def rows(self) -> tuple[str, ...]:
        rows: tuple[str, ...] = self.constants["ROWS"]
        return rows

    @property
    def reason(self) -> str:
        """The reason of the first of its rows; … matches any text."""
        reason: str = self.constants["REASON"]
        return reason


def put(folder: Path, wrong: str = "") -> Path:
    """Install the toy into a folder."""
    backend = WrongBackend(wrong) if wrong else None
    groups: dict[str, dict[str, str]] = {}
    for (group, name), attribute in ENTRIES.items():
        if backend is None or (group, name) not in backend.constants.get("WITHOUT", ()):
            module = wrong if backend and attribute in backend.names else "devmod_toy"
            groups.setdefault(group, {})[name] = f"{module}:{attribute}"
    cases = f"{wrong}:{backend.cases}" if backend and backend.cases else "devmod_toy._conformance:ToyConformance"
    groups["devmod.conformance"] = {"toy": cases}
    groups |= {group: {"toy": "devmod_toy:devices"} for group in (backend.constants.get("GROUPS", ()) if backend else ())}
    groups["devmod.protocol"] = dict.fromkeys(backend.constants.get("PROTOCOLS", ("1",)) if backend else ("1",), "devmod")
    install(folder, "devmod-toy", groups=groups)
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
    made = {name: value for name, value in os.environ.items() if not name.startswith(("DEVMOD_", "PYTHON", "CUDA_"))}
    path = [folder, HERE, HERE / "wrong", HERE.parents[1] / "src"]
    return made | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DEVMOD_CACHE_DIR": str(cache),
        "DEVMOD_PLUGINS_ALLOW": "devmod-conformance,devmod-toy,devmod-toymap,devmod-least",
    }


def conformance(folder: Path, cache: Path, *arguments: str, kind: str = "toy") -> subprocess.CompletedProcess[str]:
    """Run ``devmod conformance``."""
    command = [sys.executable, "-m", "devmod", "conformance", kind, *arguments]
    return subprocess.run(command, env=environment(folder, cache), capture_output=True, text=True, timeout=1200, check=False)


def results(folder: Path, cache: Path, *arguments: str, kind: str = "toy") -> dict[str, dict[str, str]]:
    """Run ``devmod conformance --json`` and return its rows by id."""
    done = conformance(folder, cache, "--json", *arguments, kind=kind)
    assert done.stdout.startswith("["), done.stderr
    found = {each["row"]: each for each in json.loads(done.stdout)}
    assert done.returncode == any(each["outcome"] == "failed" for each in found.values())
    return found
