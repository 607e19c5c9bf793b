"""Build a metallib with Apple's compiler. xcrun exists only on a Mac with Xcode."""

from __future__ import annotations

import os
import re

from devmod import Origin
from devmod.backend import find_program
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_targets.authoring import Payload
from devmod_targets.authoring._process import run_program
from devmod_targets.authoring.clang_build import check_supported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.authoring import CompileRequest, SelfContainedSource

_METAL = ("-sdk", "macosx", "metal")
_ERROR = re.compile(r"error:")


def as_metallib(payload: Payload, request: CompileRequest, source_text: SelfContainedSource) -> Payload:
    """Compile the payload of a source to a library.

    Raises
    ------
    ToolchainNotFoundError
        Apple's compiler is not installed.
    CompileError
        The source has errors; `log` contains the compiler's output. Or an option is not supported.
    """
    import tempfile

    check_supported(source_text.options, "metal")
    program = find_program("xcrun")
    if not program:
        raise ToolchainNotFoundError(
            "cannot build a metallib: xcrun, a part of Xcode with Apple's Metal compiler, is not installed. Compile on a Mac with Xcode, "
            "or for the target 'metal', whose payload is the source that the receiver's Metal compiles",
            kind="metal",
        )
    status, output = run_program([program, *_METAL, "--version"], os.sep, name="xcrun", kind="metal")
    if status:
        raise ToolchainNotFoundError(
            f"cannot build a metallib: xcrun finds no Metal compiler ({output.strip() or f'status {status}'}). Install Xcode with its "
            "Metal toolchain, or compile for the target 'metal'",
            kind="metal",
        )
    version = output.strip().partition("\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "program.metal"), os.path.join(folder, "program.metallib")
        with open(source, "w", encoding="utf-8", newline="") as file:
            file.write(source_text.text)
        command = [program, *_METAL, *source_text.options, "-o", library, source]
        status, output = run_program(command, os.sep, name="xcrun", kind="metal")
        output = output.replace(source, request.name)
        if status:
            lines = [line for line in output.splitlines() if _ERROR.search(line)]
            raise CompileError(
                f"the Metal source does not compile: {lines[0] if lines else output.strip()[:200]}", kind="metal", log=output.strip()
            )
        with open(library, "rb") as file:
            data = file.read()
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
