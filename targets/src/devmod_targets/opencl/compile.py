"""The compiler of OpenCL C. The payload is the self-contained source; libclang reads its kernels."""

from __future__ import annotations

from devmod.errors import CompileError
from devmod.targets.opencl import SPEC
from devmod_readers.options.opencl import is_supported
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring import CompileRequest, Payload, check_target_options, complete_source, source_payload, warn_caller
from devmod_targets.opencl._reflect import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile an OpenCL C source.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the kernels that libclang reads, and replaces them if libclang is missing.

    Returns
    -------
    Payload
        The source as a payload of kind "opencl".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and no fmap is declared.
    CompileError
        The source has errors, no kernel, or a kernel that devmod cannot call. `log` contains all diagnostics.
    """
    check_target_options(request.target)
    if request.name_expressions:
        raise CompileError("name_expressions= is not supported for OpenCL C, which has no templates", kind="opencl")
    source = complete_source(request)
    for option in source.options:
        if not is_supported(option):
            raise CompileError(
                f"the opencl option {option!r} is not supported: a receiver does not pass it to its driver. Expected an option of OpenCL "
                "such as -cl-std=CL2.0, -cl-mad-enable or -w",
                kind="opencl",
            )
    warnings: list[str] = []

    def read_kernels() -> tuple[Mapping[str, ReflectedFunction], str]:
        kernels, texts, toolchain = read(request, source)
        warnings.extend(texts)
        return kernels, toolchain

    empty_error = f"the OpenCL C source {request.name} has no kernel: mark a function with __kernel"
    payload = source_payload(SPEC, "cl", request, source, read_kernels, empty_error=empty_error)
    warn_caller(request, [], doubts=warnings)  # no error, because the device's compiler decides
    return payload
