"""The npm package of a release: prepare, pack and check it, and use it in an empty folder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from environments import ROOT, InstallError
from system import node_packages

#: Where the repository has it.
PLACE = Path("extras", "browser", "js")
# Where to change: the npm package: its files, types or version
#   here: `extras/browser/js/package.json`; `extras/browser/js/types.js` for the texts of types
#   also: `tools/npm_package.py`
#   tests: `tests/test_browser_package.py`, `tests/test_release.py`
#: What it has beside its types.
_FILES = {"package.json", "README.md", "LICENSE", "dist/index.js", "types/index.d.ts"}
_TYPES = re.compile(r"types/\w+\.d\.ts")
_VERSION = re.compile(r"(\d+\.\d+\.\d+)(?:(a|b|rc|\.dev)(\d+))?")
_STAGES = {"a": "alpha", "b": "beta", "rc": "rc", ".dev": "dev"}
#: Keys of package.json by which the installation of a package installs or runs something else.
_FOREIGN = ("dependencies", "peerDependencies", "optionalDependencies", "bundledDependencies")
_HOOKS = ("preinstall", "install", "postinstall")

#: Programs of a user. The first is compiled in strict mode, with the declarations that it imports.
TYPED = """\
import { type Bundle, open } from "devmod-webgpu";
export async function scale(x: Float32Array, device: GPUDevice): Promise<void> {
  const bundle: Bundle = await open("k.devmod");
  const f = await bundle.getFunction("scale", { device });
  await f.run({ x, factor: 2 }, { threads: x.length });
}
"""
PROGRAM = """\
import { readFileSync } from "node:fs";
import { open } from "devmod-webgpu";
const bundle = await open(readFileSync(process.argv[2]));
console.log(bundle.modules.map((each) => each.kind).join(" "));
"""


def npm_version(version: str) -> str:
    """Return a version of Python as npm writes it: "0.2.0rc1" is "0.2.0-rc.1".

    Raises
    ------
    InstallError
        npm has no such version: it has no post-releases.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        raise InstallError(
            f"npm has no version {version}; expected one such as 0.2.0, 0.2.0rc1 or 0.2.0.dev1"
        )
    number, stage, count = found.groups()
    if stage is None:
        return number
    return f"{number}-{_STAGES[stage]}.{count}"


def prepare(folder: Path, repository: str) -> None:
    """Write into package.json how it is published, and the repository if it is named: npm compares
    its address with that of the workflow that publishes.
    """
    path = folder / "package.json"
    package = json.loads(path.read_text(encoding="utf-8"))
    tag = "next" if "-" in package["version"] else "latest"
    package["publishConfig"] = {"access": "public", "provenance": True, "tag": tag}
    if repository:
        package["homepage"] = repository
        package["repository"] = {
            "type": "git",
            "url": f"git+{repository}.git",
            "directory": PLACE.as_posix(),
        }
    path.write_text(f"{json.dumps(package, indent=2)}\n", encoding="utf-8")


def pack(folder: Path, out: Path) -> Path | None:
    """Pack the package of a copy of the repository into an empty folder, and return its file; None
    without npm.
    """
    node_packages()
    packages = ROOT / PLACE / "node_modules"
    npm = shutil.which("npm")
    if npm is None or not packages.is_dir():
        return None
    out.mkdir()
    (folder / "node_modules").symlink_to(packages)
    _run([npm, "pack", "--pack-destination", str(out)], folder)
    (path,) = out.iterdir()
    return path


def problems_of(path: Path, version: str) -> list[str]:
    """Return what is wrong with the contents of the package: files, version, dependencies."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        file = archive.extractfile("package/package.json")
        package = json.loads(file.read()) if file is not None else {}
    result = [f"lacks {name}" for name in sorted(_FILES - names)]
    others = sorted(name for name in names - _FILES if not _TYPES.fullmatch(name))
    result += [f"has {name}" for name in others]
    if package.get("version") != version:
        result.append(f"package.json has the version {package.get('version')}, not {version}")
    result += [f"package.json has {key}" for key in _FOREIGN if key in package]
    scripts = package.get("scripts", {})
    result += [f"package.json has the script {key}" for key in _HOOKS if key in scripts]
    return result


def use(path: Path, box: Path) -> None:
    """Install the package into an empty folder, compile a program with its types, and run one.

    Raises
    ------
    InstallError
        A step fails; the text has its output.
    """
    box.mkdir()
    (box / "package.json").write_text('{ "private": true, "type": "module" }\n', encoding="utf-8")
    (box / "typed.ts").write_text(TYPED, encoding="utf-8")
    (box / "program.js").write_text(PROGRAM, encoding="utf-8")
    _run(["npm", "install", "--offline", "--no-audit", "--no-fund", str(path)], box)
    compiler = ROOT / PLACE / "node_modules" / "typescript" / "bin" / "tsc"
    options = ["--noEmit", "--skipDefaultLibCheck", "--strict"]
    options += ["--module", "nodenext", "--target", "es2022"]
    _run(["node", str(compiler), *options, "typed.ts"], box)
    golden = ROOT / "tests" / "golden" / "v1" / "tree.devmod"
    kinds = _run(["node", "program.js", str(golden)], box).split()
    if "webgpu" not in kinds:
        raise InstallError(f"the npm package reads the kinds {kinds} of {golden}, without webgpu")


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(
            f"{' '.join(command)}\nended with exit code {done.returncode}:\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout
