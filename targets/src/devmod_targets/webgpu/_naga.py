"""Checking WGSL with naga, the compiler of wgpu and Firefox, where its command is on the PATH (``cargo install naga-cli``).

It asks no device. Where it is missing, the source is checked where it is received; the payload is the same either way.
"""

from __future__ import annotations

import os

from devmod.errors import CompileError

#: Seconds. naga takes milliseconds; a source that takes it this long is checked by whoever receives it.
_PATIENCE = 20


def check(text: str, name: str) -> bool:
    """Have naga look at a WGSL source; whether it did.

    Raises
    ------
    CompileError
        naga refuses it; `log` has all its words.
    """
    import shutil

    program = shutil.which("naga")
    if program is None:
        return False
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="devmod-") as folder:
        # naga prints the name that it is given, so it is given no path.
        called = os.path.basename(name) if name.endswith(".wgsl") and not name.startswith("-") else "source.wgsl"
        with open(os.path.join(folder, called), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        try:
            done = subprocess.run(  # noqa: S603 - the program that the user has on the PATH
                [program, called], cwd=folder, capture_output=True, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    if not done.returncode:
        return True
    log = (done.stderr + done.stdout).decode("utf-8", "replace").strip().replace(called, name)
    if "error" not in log:
        return False  # another program of that name, or one that does not know these arguments
    lines = [line.strip() for line in log.splitlines() if line.strip()][:4]
    raise CompileError(f"naga refuses the WGSL source {name}:\n  " + "\n  ".join(lines), kind="webgpu", log=log)
