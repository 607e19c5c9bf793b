"""Make virtual environments and install into them: with uv if pip can install it, otherwise with
pip alone.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
#: The versions of the packages that development installs. tools/constraints.py writes it.
CONSTRAINTS = ROOT / "tools" / "constraints.txt"

#: pip's settings, uv's names of them, and uv's separators. So a mirror or a certificate applies to
#: both.
_UV_NAMES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
}


class InstallError(Exception):
    """An environment could not be made; the text has the reason and what to do."""


def python_of(venv: Path) -> Path:
    """Return the interpreter of an environment."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def find_uv(*, fetch: bool = False) -> str | None:
    """Return the uv of `.venv`, or the one on PATH, or None; with `fetch`, pip installs it into
    `.venv` if there is neither.
    """
    own = python_of(VENV).with_name("uv.exe" if os.name == "nt" else "uv")
    if own.exists():
        return str(own)
    result = shutil.which("uv")
    if result is None and fetch:
        _run([str(python_of(VENV)), "-m", "pip", "install", "--quiet", "uv"])
        return str(own) if own.exists() else None
    return result


def make_venv(path: Path, *, python: str = sys.executable, pip: bool = False) -> Path:
    """Make a new environment and return its interpreter. `pip`: install pip into it, even if uv can
    be used.
    """
    shutil.rmtree(path, ignore_errors=True)
    with_pip = pip or find_uv() is None
    if python == sys.executable and not with_pip:  # a process takes ten times as long
        venv.create(path, symlinks=os.name != "nt")
    else:
        bare = () if with_pip else ("--without-pip",)
        _run([python, "-m", "venv", *bare, str(path)], required=True)
    return python_of(path)


def kept(
    venv: Path, key: str, fill: Callable[[Path], None], *, python: str = sys.executable
) -> Path:
    """Return the interpreter of an environment that stays between runs. It is made, and `fill`
    installs into it, if the key has changed.
    """
    stamp = venv / "devmod-setup"
    expected = hashlib.sha256(key.encode()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == expected and python_of(venv).exists()):
        fill(make_venv(venv, python=python))
        stamp.write_text(expected)
    return python_of(venv)


def install(
    python: Path,
    requirements: Sequence[str],
    *,
    cached: bool = False,
    settings: Mapping[str, str] | None = None,
) -> str:
    """Install requirements into the environment of `python`; return the name of the used tool.

    `cached`: any version in uv's cache is enough. The network is used only for requirements that
    are not in the cache. `settings`: the result of `uv_settings`, for a caller that installs many
    times.
    """
    uv = find_uv()
    output = ""
    if uv is not None:
        settings = settings or uv_settings()
        command = [uv, "pip", "install", "--quiet", "--python", str(python), *requirements]
        # The cache need not have the newest versions.
        cached = cached and "--upgrade" not in requirements
        if cached and _run([*command, "--offline"], env=settings) == "":
            return "uv"
        output = _run(command, env=settings)
        if not output:
            return "uv"
    if _run([str(python), "-m", "pip", "--version"]):
        _run([str(python), "-m", "ensurepip", "--upgrade"], required=True)
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *requirements,
    ]
    failed = _run(command)
    if failed:
        raise InstallError(f"{failed}\n{output}".strip())
    return "pip"


def constraints(path: Path = CONSTRAINTS) -> list[str]:
    """Return the options of uv and pip that fix the versions for development. If the environment
    variable NEWEST is set, they ask for the newest ones.
    """
    if os.environ.get("NEWEST"):
        return ["--upgrade"]
    return ["--constraint", str(path)]


def uninstall(python: Path, names: Iterable[str]) -> None:
    """Uninstall distributions from the environment of `python`."""
    uv = find_uv()
    if uv:
        command = [uv, "pip", "uninstall", "--quiet", "--python", str(python)]
    else:
        command = [str(python), "-m", "pip", "uninstall", "--quiet", "--yes"]
    _run([*command, *names], required=True)


def uv_settings() -> Mapping[str, str]:
    """Return the environment variables for uv that follow pip's configuration; variables that are
    set stay.
    """
    base = getattr(
        sys, "_base_executable", sys.executable
    )  # an environment that uv made has no pip
    process = subprocess.run(
        [base, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    # pip takes the best version of all indexes; uv would stop at the first index that has the name.
    results = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for line in process.splitlines():
        key, _, value = line.partition("=")
        name, between = _UV_NAMES.get(key.rpartition(".")[2], ("", ""))
        if name:
            try:
                results[name] = between.join(str(ast.literal_eval(value)).split())
            except (ValueError, SyntaxError):
                continue
    return results | os.environ


def _run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, required: bool = False
) -> str:
    """Run a command; return "" if it succeeds, else its output. With `required`, raise InstallError
    with the output.
    """
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if not process.returncode:
        return ""
    output = f"{' '.join(command)}\nfailed with exit code {process.returncode}:\n{(process.stdout + process.stderr).strip()}"
    if required:
        raise InstallError(output)
    return output
