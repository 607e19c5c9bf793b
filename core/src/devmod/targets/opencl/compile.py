"""OpenCL C on the build side: the payload is the source itself, complete; its functions are read from it with libclang."""

from __future__ import annotations

from devmod._payload import CompileRequest, Origin, Payload
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod.targets._declared import merge
from devmod.targets._source import complete
from devmod.targets.opencl._reflect import read
from devmod.targets.opencl.spec import SPEC


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
    try:
        kernels, warnings, toolchain = read(request, done)
    except ToolchainNotFoundError:
        # Without reflection nothing can fill in what a declared function leaves empty.
        if not request.fmap or not all(info.arg_types for info in request.fmap.values()):
            raise
        kernels, warnings, toolchain = None, [], ""
    if kernels is not None and not kernels:
        raise CompileError(f"the OpenCL C source {request.name} has no kernel: no function in it is marked __kernel", kind="opencl")
    fmap = merge(SPEC, kernels, request.fmap)
    options = (*done.options, *(f"-D{name}={value}" for name, value in done.defines.items()))
    origin = Origin(str(target), toolchain, options, done.sources)
    payload = Payload("opencl", done.text.encode(), "cl", fmap, {"cl": done.text}, origin)
    for text in warnings:
        _warn(text)
    return payload


def _warn(text: str) -> None:
    """Tell of what libclang does not know, or a device may not. The device's compiler has the last word."""
    import warnings

    # The caller of devmod.compile: above it stand this function, the compiler, and two of devmod.compile's own.
    warnings.warn(text, UserWarning, stacklevel=5)
