"""Check WGSL with naga, the compiler of wgpu and Firefox: by its command on the PATH, or by node
with the npm package naga-wasm.

The check needs no device. Without naga, the receiver's compiler finds the errors. The payload is
the same in both cases.
"""

from __future__ import annotations

import os
import re

from devmod.backend import find_program, open_regular, temporary_folder
from devmod.errors import CompileError, DevmodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

#: naga's errors for valid WGSL that it does not implement. Another implementation of WebGPU may
#: accept it.
_UNSUPPORTED = re.compile(
    r"not yet (?:supported|implemented)|unknown enable-extension|can't be passed into functions|Capabilit(?:y|ies)\b"
)
#: Prints naga's report on the text on stdin; nothing if the text is valid.
_PROGRAM = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const folder = process.argv[1] + "/dist/wasm/";
const naga = await import(pathToFileURL(folder + "naga.js").href);
naga.initSync({ module: readFileSync(folder + "naga_bg.wasm") });
const text = readFileSync(0, "utf8");
try {
  naga.validate(naga.parseWgsl(text));
} catch (error) {
  if (error instanceof WebAssembly.RuntimeError || error instanceof RangeError) process.exit(3);
  console.log(error.message);
}
"""
#: With a range, since npm takes the empty version 0.0.0 for a node that is older than the package
#: declares.
_MISSING = "naga is not installed, or it failed. To install it: npm install -g naga-wasm@30, or cargo install naga-cli"
#: The prefix in npm's settings.
_PREFIX = re.compile(r"(?m)^[ \t]*prefix[ \t]*=(.*)$")
_MAX_SETTINGS = 1 << 20
#: Seconds. naga takes milliseconds. After this time the source counts as not checked.
_TIMEOUT = 120


def check(text: str, name: str) -> tuple[str, str]:
    """Check a WGSL source with naga.

    Returns
    -------
    str
        Why naga did not check the source; "" if it did.
    str
        A warning if naga does not support a feature of the source, else "".

    Raises
    ------
    CompileError
        naga reports an error. `log` contains its whole report.
    """
    report = _run_command(text, name)
    if report is None:
        report = _run_package(text)
    if report is None:
        return _MISSING, ""
    if not report:
        return "", ""
    from devmod_wgsl import naga_message

    message = naga_message(report, name, text)
    if _UNSUPPORTED.search(report):
        return (
            "naga does not support a feature of it",
            f"naga cannot check the WGSL source: {message}",
        )
    raise CompileError(f"naga refuses the WGSL source: {message}", kind="webgpu", log=report)


def _run_command(text: str, name: str) -> str | None:
    """Return the report of the program ``naga``, "" for a valid source; None if the program is
    missing.
    """
    program = find_program("naga")
    if not program:
        return None
    with temporary_folder() as folder:
        # naga prints its argument, so the argument contains no path.
        file_name = "source.wgsl"
        if name.endswith(".wgsl") and not name.startswith("-"):
            file_name = os.path.basename(name)
        with open(os.path.join(folder, file_name), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        completed = _run([program, file_name], folder, "")
    if completed is None:
        return None
    if not completed.returncode:
        return ""
    log = (completed.stderr + completed.stdout).strip().replace(file_name, name)
    if "error" not in log:
        return None  # this is another program, or a version with other arguments
    return log


def _run_package(text: str) -> str | None:
    """Return the report of the npm package naga-wasm, "" for a valid source; None if node or the
    package is missing.

    Only globally installed packages (``npm install -g``) are run: the current project's folder may
    be untrusted.
    """
    node = find_program("node")
    if not node:
        return None
    package = find_package()
    if not package:
        return None
    command = [node, "--input-type=module", "-e", _PROGRAM, package]
    completed = _run(command, os.path.dirname(package), text)
    if completed is None or completed.returncode:
        return None
    return completed.stdout.strip()


def find_package() -> str:
    """Return the folder of the package naga-wasm that npm has installed globally, or "".

    npm's settings are read here, since asking npm takes 0.1 s in each build. The settings of a
    project are not read: its folder may be untrusted.
    """
    beside = []
    node = find_program("node")
    if node:
        beside = [os.path.dirname(node), os.path.dirname(os.path.realpath(node))]
    if os.name == "nt":
        beside.append(os.path.join(os.environ.get("APPDATA", ""), "npm"))
    else:
        beside = [*map(os.path.dirname, beside), "/usr/local"]
    user = _npm_variable("userconfig") or os.path.join(os.path.expanduser("~"), ".npmrc")
    settings = [user, _npm_variable("globalconfig")]
    settings += [os.path.join(prefix, "etc", "npmrc") for prefix in beside]
    prefixes = [_npm_variable("prefix"), *map(_prefix_in, settings), *beside]
    return next(filter(None, map(_package_in, prefixes)), "")


def _npm_variable(name: str) -> str:
    return os.environ.get(f"NPM_CONFIG_{name.upper()}") or os.environ.get(f"npm_config_{name}", "")


def _prefix_in(settings: str) -> str:
    """Return the prefix of global packages that a file of npm's settings names, or ""."""
    if not os.path.isabs(settings):
        return ""
    try:
        with open_regular(settings) as file:
            values = _PREFIX.findall(file.read(_MAX_SETTINGS).decode("utf-8", "replace"))
        if not values:
            return ""
        prefix: str = values[-1].strip().strip("\"'")
        return os.path.expanduser(os.path.expandvars(prefix))
    except (DevmodError, OSError, ValueError):  # a home folder of "~\0" is a ValueError
        return ""


def _package_in(prefix: str) -> str:
    """Return the package in a prefix of npm, or ""."""
    if not os.path.isabs(prefix):
        return ""
    modules = os.path.join(prefix, "lib", "node_modules")
    if os.name == "nt":
        modules = os.path.join(prefix, "node_modules")
    folder = os.path.join(modules, "naga-wasm")
    if not os.path.isfile(os.path.join(folder, "dist", "wasm", "naga_bg.wasm")):
        return ""
    return folder


def _run(command: list[str], folder: str, text: str) -> subprocess.CompletedProcess[str] | None:
    """Run a program; return None if it cannot be run or exceeds the time limit."""
    import subprocess

    from devmod.worker import guarded_group

    try:
        with guarded_group() as group:
            return subprocess.run(  # noqa: S603 - a program on the user's PATH
                command,
                cwd=folder,
                input=text,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
                encoding="utf-8",
                errors="replace",
                process_group=group,
            )
    except (OSError, subprocess.TimeoutExpired):
        return None
