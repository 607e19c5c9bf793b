"""Read the signatures of the kernels of a CUDA C++ program.

libclang reads the types in the source. The image (PTX) has the symbols, the sizes of the parameters, and the limits of the block and the
cluster. All types are compared with it. If libclang lacks a header, NVRTC returns the types: it compiles the text a second time with the
name expression ``&devmod_signature<decltype(k)>``. The mangled name of that variable contains the types of the parameters.
"""

from __future__ import annotations

import re

from devmod.errors import CompileError
from devmod_readers.nvidia import read_ptx
from devmod_targets.authoring._mangled import parse_signature
from devmod_targets.authoring._open_block_cuda import open_kernels
from devmod_targets.authoring.instances import source_instances
from devmod_targets.cuda._kernels import match_kernels
from devmod_targets.cuda._reflect_clang import read_source
from devmod_targets.cuda.nvrtc import compile_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets.authoring import CompileRequest, SelfContainedSource
    from devmod_targets.authoring._mangled import TypeNode

#: The variable of the probe.
_PROBE = "devmod_signature"
_STANDARD = re.compile(r"--?std=(c\+\+\d\d)")
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
_DEFAULT_STANDARD, _DEFAULT_ARCH = "c++17", "90"
#: The standards before the one that the prelude needs. They have the same types.
_OLD_STANDARDS, _OLDEST_STANDARD = ("c++98", "c++03"), "c++11"


def read_kernels(
    request: CompileRequest,
    source: SelfContainedSource,
    options: Iterable[str],
    images: Sequence[tuple[str, Mapping[str, str]]],
    version: tuple[int, int],
) -> tuple[list[dict[str, ReflectedFunction]], str]:
    """Read the kernels of a program for each of its images.

    Parameters
    ----------
    request, source
        The request, and its self-contained source.
    options
        NVRTC's options, without the architecture.
    images
        For each architecture the PTX and the mangled name of each name expression, as `compile_program` returns them.
    version
        The version of NVRTC.

    Returns
    -------
    list of dict of str to ReflectedFunction
        For each image its kernels: by name expression, or by qualified name; overloads with the types of their parameters.
    str
        The toolchain, such as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The signature of a kernel contradicts its image.
    """
    options = list(options)
    expressions = list(images[0][1]) if images else []
    standard = next((match[1] for option in reversed(options) if (match := _STANDARD.fullmatch(option))), _DEFAULT_STANDARD)
    if standard in _OLD_STANDARDS:
        standard = _OLDEST_STANDARD
    target = next((match[1] for ptx, _ in images if (match := _TARGET.search(ptx))), _DEFAULT_ARCH)
    entries = [read_ptx(ptx) for ptx, _ in images]
    named = {symbol for _, lowered in images for symbol in lowered.values()}
    expressions += source_instances(sorted({symbol for kernels in entries for symbol in kernels} - named))
    source_kernels = read_source(request, source, standard=standard, macros=_macros(target, version), expressions=expressions)
    matched = [match_kernels(kernels, lowered, source_kernels) for kernels, (_, lowered) in zip(entries, images, strict=True)]
    doubtful = {kernel.expression: None for kernels in matched for kernel in kernels.values() if kernel.needs_probe}
    types = _probe(request, source, [*options, f"-arch=sm_{target}"], doubtful) if doubtful else {}
    open_names = open_kernels(source.text) if source_kernels.is_complete else set()
    declared = {info.name for info in (request.fmap or {}).values() if info.arg_types}
    functions = [
        {name: kernel.function(types.get(kernel.expression), open_names, declared) for name, kernel in kernels.items()}
        for kernels in matched
    ]
    return functions, source_kernels.toolchain


def _macros(target: str, version: tuple[int, int]) -> list[tuple[str, str]]:
    """Return the macros that NVRTC predefines for an architecture."""
    major, minor = version
    return [
        ("__CUDA_ARCH__", f"{target}0"),
        ("__CUDA_ARCH_LIST__", f"{target}0"),
        ("__CUDACC_VER_MAJOR__", str(major)),
        ("__CUDACC_VER_MINOR__", str(minor)),
        ("CUDART_VERSION", str(major * 1000 + minor * 10)),
    ]


def _probe(
    request: CompileRequest, source: SelfContainedSource, options: Sequence[str], expressions: Iterable[str]
) -> dict[str, tuple[TypeNode, ...]]:
    """Return the types of the parameters of kernels as NVRTC spells them, by the expressions that name the kernels.

    The front end of NVRTC alone runs, once. Expressions that it rejects have no types.
    """
    names = {f"&{_PROBE}<decltype({each})>": each for each in expressions}
    text = f"{source.text}\ntemplate <class> __device__ int {_PROBE};\n"
    try:
        program = compile_program(text, request.name, [*options, "-fdevice-syntax-only"], name_expressions=names)
    except CompileError:
        return {}  # the program itself compiles, so an expression is at fault
    types = {names[name]: parse_signature(symbol) for name, symbol in program.lowered.items()}
    return {name: each for name, each in types.items() if each is not None}
