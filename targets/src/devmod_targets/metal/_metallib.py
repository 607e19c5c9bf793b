"""A library of Apple's compiler, where it is asked for: xcrun is on a Mac with Xcode, and nowhere else."""

from __future__ import annotations

import re

from devmod._payload import Origin, Payload
from devmod.errors import CompileError, ToolchainNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import CompileRequest
    from devmod.targets._source import Complete

_METAL = ("-sdk", "macosx", "metal")
_ERROR = re.compile(r"error:")


def as_metallib(payload: Payload, request: CompileRequest, done: Complete) -> Payload:
    """The payload of a source as a library.

    Raises
    ------
    ToolchainNotFoundError
        Apple's compiler is not there.
    CompileError
        It refuses the source; `log` is all that it said.
    """
    import os
    import shutil
    import tempfile

    program = shutil.which("xcrun")
    if program is None:
        raise ToolchainNotFoundError(
            "cannot make a metallib: Apple's Metal compiler is part of Xcode, and there is no xcrun here. Compile on a Mac with Xcode, or "
            "for the target 'metal': the source is carried then, and the receiver's Metal compiles it",
            kind="metal",
        )
    status, said = _run(program, *_METAL, "--version")
    if status:
        raise ToolchainNotFoundError(
            f"cannot make a metallib: xcrun finds no Metal compiler ({said.strip() or f'status {status}'}). Install Xcode with its Metal "
            "toolchain, or compile for the target 'metal'",
            kind="metal",
        )
    version = said.strip().partition("\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "program.metal"), os.path.join(folder, "program.metallib")
        with open(source, "w", encoding="utf-8", newline="") as file:
            file.write(done.text)
        status, said = _run(program, *_METAL, *done.options, "-o", library, source)
        said = said.replace(source, request.name)
        if status:
            lines = [line for line in said.splitlines() if _ERROR.search(line)]
            raise CompileError(
                f"the Metal source does not compile: {lines[0] if lines else said.strip()[:200]}", kind="metal", log=said.strip()
            )
        with open(library, "rb") as made:
            data = made.read()
    origin = payload.origin
    assert origin is not None
    toolchain = "; ".join(filter(None, (version, origin.toolchain)))
    return Payload(
        "metal",
        dict.fromkeys(payload.fmap, data),
        "metallib",
        payload.fmap,
        payload.source,
        Origin(origin.target, toolchain, origin.options, origin.sources),
    )


def _run(*command: str) -> tuple[int, str]:
    """A command's status, and what it wrote."""
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 - the user's own compiler
    except OSError as error:
        return -1, str(error)
    return done.returncode, done.stdout + done.stderr
