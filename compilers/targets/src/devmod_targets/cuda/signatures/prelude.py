"""The predeclared names of CUDA C++ and stubs of CUDA's headers for libclang, which contains
neither.

libclang skips the bodies of functions, so only names that declarations use matter: the types of
parameters and of members, the attributes, and the macros of conditions. No program runs with these
values. The headers of C and C++ are those that NVRTC receives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from devmod_targets._text import header_files, header_text
from devmod_targets.cuda._headers import host_headers, include_names, math_functions

#: The name of the header that precedes the program.
NAME = "cuda-prelude"

#: Functions that `using` declarations and constant expressions name, besides those of math.h.
_FUNCTIONS = ("printf", "malloc", "free", "memcpy", "memset", "min", "max", "__ldg")

#: Headers whose names appear in the bodies of kernels alone, or whose names are predeclared.
_EMPTY = """
cuda_awbarrier_primitives.h cuda_pipeline.h cuda_pipeline_primitives.h cuda_device_runtime_api.h cuda_runtime.h cuda_runtime_api.h
device_functions.h device_launch_parameters.h device_types.h driver_types.h host_defines.h math_constants.h math_functions.h
sm_20_intrinsics.h sm_30_intrinsics.h sm_32_intrinsics.h sm_35_intrinsics.h sm_60_atomic_functions.h surface_functions.h
surface_types.h texture_fetch_functions.h texture_indirect_functions.h texture_types.h vector_functions.h vector_types.h
device_atomic_functions.h nv/target builtin_types.h common_functions.h
iostream vector string array memory
"""

_ANY_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)$", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*")
#: The macros that have one value in NVRTC and here, or none in both.
_AGREED_TEXT = """
defined __CUDACC__ __CUDACC_RTC__ __CUDA_ARCH__ __CUDA_ARCH_LIST__ __cplusplus __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__ CUDART_VERSION
__EDG__ __LP64__ __STDC__ NULL __global__ __device__ __host__ __shared__ __constant__ __launch_bounds__ __grid_constant__ __cluster_dims__
__block_size__ __forceinline__ __clang__ __GNUC__ _MSC_VER _WIN32 __linux__ __unix__ __APPLE__ __x86_64__ __aarch64__ __NVCC__ __HIPCC__
__HIP__ __HIP_PLATFORM_AMD__ __HIP_DEVICE_COMPILE__ __OPENCL_VERSION__ __METAL_VERSION__ __CUDA__ __CUDACC_RDC__ __CUDACC_DEBUG__ NDEBUG
__SYCL_DEVICE_ONLY__ __INTELLISENSE__ true false
"""
_AGREED = frozenset(_AGREED_TEXT.split())
#: The macros that the compiler may define, the compiler and NVIDIA's headers, and any header.
_OF_COMPILER = re.compile("_")
_OF_HEADERS = re.compile(
    r"_|CU|cu|NV|nv|CCCL|LIBCUDACXX|THRUST|RESOURCE_|FP_|TIME_|SIZE_|INTMAX|UINTMAX|PTRDIFF|U?INT\d|va_|offsetof|warpSize"
)
_ANY = re.compile("")


def text(program: str) -> str:
    """Return the prelude of a program, without the macros that depend on the compiler and the
    architecture.

    It declares the vectors and functions whose names the program and its headers contain: clang
    takes 4 ms for all of them.
    """
    declarations = _declarations()
    names: Iterable[str] = declarations
    texts = [program, *program_headers(program).values()]
    if not any("##" in each for each in texts):  # a macro may form each name
        words = set[str]().union(*map(_WORD.findall, texts))
        names = filter(words.__contains__, declarations)
    lines = [header_text(__package__, "predeclared/macros.h")]
    lines += [declarations[name] for name in names]
    return "\n".join(lines) + "\n"


@cache
def _declarations() -> Mapping[str, str]:
    """Return the declarations of the vectors and functions by name."""
    declarations = {}
    for line in header_text(__package__, "predeclared/vectors.h").splitlines():
        declarations[line.split()[2]] = line
    for name in (*math_functions(), *_FUNCTIONS):
        declarations[name] = (
            f"template <class... T> __host__ __device__ constexpr double {name}(T...) {{ return 0; }}"
        )
    return declarations


def program_headers(program: str) -> Mapping[str, str]:
    """Return the known headers that a program may include: include name to text."""
    known = headers()
    if "__has_include" in program or not names_all_includes(program):
        return known
    result = {}
    pending = include_names(program)
    while pending:
        name = pending.pop()
        if name in known and name not in result:
            result[name] = known[name]
            pending += include_names(known[name])
    return result


@cache
def headers() -> Mapping[str, str]:
    """Return the known headers: include name to text."""
    result = dict.fromkeys(_EMPTY.split(), "#pragma once\n")
    # The names of cuda/std are those of the standard library, for declarations without class types.
    for name in host_headers():
        result[f"cuda/std/{name}"] = (
            f"#pragma once\n#include <{name}>\nnamespace std {{}}\nnamespace cuda {{ namespace std {{ using namespace ::std; }} }}\n"
        )
    return result | header_files(__package__, "stubs") | host_headers()


# -- Check that the preprocessor's conditions in a program have the same values for libclang as for
# NVRTC.


def names_all_includes(text: str) -> bool:
    """Return whether each include has the name of its header, and no macro has one."""
    return len(include_names(text)) == len(_ANY_INCLUDE.findall(text))


def conditions_agree(text: str, options: Iterable[str], known_headers: Collection[str]) -> bool:
    """Return whether the conditions use only macros whose values are the same for libclang and
    NVRTC.

    Parameters
    ----------
    text
        The program.
    options
        NVRTC's options.
    known_headers
        The names of NVIDIA's and the host's headers whose types the prelude declares.
    """
    if any(option.startswith("-U") for option in options):
        return False
    text = text.replace("\\\n", " ")
    includes = include_names(text)
    if not names_all_includes(text):
        return False
    foreign = _ANY
    if all(name in host_headers() for name in includes):
        foreign = _OF_COMPILER
    elif all(name in known_headers for name in includes):
        foreign = _OF_HEADERS
    defined = set(_DEFINE.findall(text))
    for condition in _CONDITION.findall(text):
        for word in _WORD.findall(condition.partition("//")[0].partition("/*")[0]):
            if word not in defined and word not in _AGREED and foreign.match(word):
                return False
    return True
