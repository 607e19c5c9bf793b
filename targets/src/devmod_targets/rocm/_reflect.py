"""Read the signatures of the kernels of a HIP source with libclang, and compare them with the code object."""

from __future__ import annotations

from devmod.backend import array_bytes, parse_dtype
from devmod.errors import CompileError
from devmod.targets.rocm.spec import SPEC
from devmod_targets.authoring import ReflectedFunction
from devmod_targets.authoring.c_functions import CFunctions, exported_text, parse_source
from devmod_targets.authoring.clang import load_libclang
from devmod_targets.cuda._open_block import open_kernels
from devmod_targets.rocm import _headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_targets.amdgpu import CodeObjectKernel
    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.clang_options import ClangOptions

_FRONTEND_OPTIONS = ("-std=", "-U", "-f")


def read_kernels(
    request: CompileRequest, options: ClangOptions, kernels: Mapping[str, CodeObjectKernel]
) -> tuple[dict[str, ReflectedFunction], str]:
    """Read the kernels of a source.

    Parameters
    ----------
    request, options
        The source, and the arguments with which clang compiled it.
    kernels
        The kernels of the code object.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name, in the order of the source, then those of name_expressions.
    str
        The reader, such as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        A kernel has a parameter that devmod does not support, or contradicts the code object.
    """
    library = load_libclang(SPEC, "HIP")
    flags = [
        "-x",
        "hip",
        "--cuda-device-only",
        "--offload-arch=gfx1030",
        "-nogpuinc",
        "-nogpulib",
        "-fdeclspec",
        "-include",
        "devmod_hip.h",
    ]
    open_names = open_kernels(request.text)
    request = request.replace(text=exported_text(request.text, kernels, request.name_expressions))
    unit = parse_source(library, request, options, flags, _FRONTEND_OPTIONS, _headers.files())
    source = CFunctions(library, unit, "rocm", "kernel")
    functions = {}
    for name, (symbol, cursor) in source.exported(kernels, request.name_expressions).items():
        types, params = source.parameters(cursor)
        location, block = source.location(cursor), kernels[symbol].block
        _check_places(name, location, types, kernels[symbol])
        is_open = cursor.spelling in open_names and block is None
        functions[name] = ReflectedFunction(symbol, types, params, block, location, open_block=is_open)
    return functions, library.toolchain


def _check_places(name: str, location: str, types: Sequence[str], kernel: CodeObjectKernel) -> None:
    """Raise CompileError if the sizes of the arguments are not those of the code object."""
    sizes = [8 if each == "handle" else array_bytes(parse_dtype(each)) for each in types]
    actual = [each.size for each in kernel.visible_arguments]
    if sizes != actual:
        raise CompileError(
            f"{location}: the arguments of the kernel {name!r} have {sizes} bytes in the source and {actual} in the code object. Declare "
            "the kernel: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})",
            kind="rocm",
            function=name,
        )
