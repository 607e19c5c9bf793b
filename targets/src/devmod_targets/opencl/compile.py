"""OpenCL C on the build side: the payload is the source itself, complete; its functions are read from it with libclang."""

from __future__ import annotations

from devmod._payload import CompileRequest, Payload
from devmod.errors import CompileError
from devmod.targets._declared import Found, source_payload, tell
from devmod.targets._source import complete
from devmod.targets.opencl.spec import SPEC
from devmod_targets.opencl._reflect import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """The payload of an OpenCL C source.

    Parameters
    ----------
    request
        The source and what belongs to it. Its fmap is merged over what libclang reads, and is enough where libclang is missing.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and no fmap is declared.
    CompileError
        The source has errors, no kernel, or a kernel that cannot be called; `log` has every diagnostic.
    """
    target = request.target
    if target.archs:
        raise CompileError(
            f"the target {str(target)!r} names an architecture; OpenCL C source has none: it is built on the device", kind="opencl"
        )
    if request.name_expressions:
        raise CompileError("name_expressions= instantiates templates, and OpenCL C has none", kind="opencl")
    done = complete(request)
    warnings: list[str] = []

    def found() -> tuple[Mapping[str, Found], str]:
        kernels, texts, toolchain = read(request, done)
        warnings.extend(texts)
        return kernels, toolchain

    nothing = f"the OpenCL C source {request.name} has no kernel: no function in it is marked __kernel"
    payload = source_payload(SPEC, "cl", request, done, found, nothing=nothing)
    tell(warnings)  # the device's compiler has the last word
    return payload
