"""Check that the preprocessor's conditions in a program have the same values for libclang as for NVRTC."""

from __future__ import annotations

import re

from devmod_targets.cuda._host_headers import host_headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)
_ANY_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)$", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*")
#: The macros that have one value in NVRTC and here, or none in both.
_AGREED = frozenset(
    [
        "defined",
        "__CUDACC__",
        "__CUDACC_RTC__",
        "__CUDA_ARCH__",
        "__CUDA_ARCH_LIST__",
        "__cplusplus",
        "__CUDACC_VER_MAJOR__",
        "__CUDACC_VER_MINOR__",
        "CUDART_VERSION",
        "__EDG__",
        "__LP64__",
        "__STDC__",
        "NULL",
        "__global__",
        "__device__",
        "__host__",
        "__shared__",
        "__constant__",
        "__launch_bounds__",
        "__grid_constant__",
        "__cluster_dims__",
        "__block_size__",
        "__forceinline__",
        "__clang__",
        "__GNUC__",
        "_MSC_VER",
        "_WIN32",
        "__linux__",
        "__unix__",
        "__APPLE__",
        "__x86_64__",
        "__aarch64__",
        "__NVCC__",
        "__HIPCC__",
        "__HIP__",
        "__HIP_PLATFORM_AMD__",
        "__HIP_DEVICE_COMPILE__",
        "__OPENCL_VERSION__",
        "__METAL_VERSION__",
        "__CUDA__",
        "__CUDACC_RDC__",
        "__CUDACC_DEBUG__",
        "NDEBUG",
        "__SYCL_DEVICE_ONLY__",
        "__INTELLISENSE__",
        "true",
        "false",
    ]
)
#: The macros that the compiler may define, the compiler and NVIDIA's headers, and any header.
_OF_COMPILER = re.compile("_")
_OF_HEADERS = re.compile(
    r"_|CU|cu|NV|nv|CCCL|LIBCUDACXX|THRUST|RESOURCE_|FP_|TIME_|SIZE_|INTMAX|UINTMAX|PTRDIFF|U?INT\d|va_|offsetof|warpSize"
)
_ANY = re.compile("")


def include_names(text: str) -> list[str]:
    """Return the names of the headers that a program includes, in all branches of its conditions."""
    return [match[1] for match in _INCLUDE.finditer(text)]


def names_all_includes(text: str) -> bool:
    """Return whether each include has the name of its header, and no macro has one."""
    return len(_INCLUDE.findall(text)) == len(_ANY_INCLUDE.findall(text))


def conditions_agree(text: str, options: Iterable[str], known_headers: Collection[str]) -> bool:
    """Return whether the conditions use only macros whose values are the same for libclang and NVRTC.

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
    if all(name in host_headers() for name in includes):
        foreign = _OF_COMPILER
    else:
        foreign = _OF_HEADERS if all(name in known_headers for name in includes) else _ANY
    defined = set(_DEFINE.findall(text))
    for condition in _CONDITION.findall(text):
        for word in _WORD.findall(condition.partition("//")[0].partition("/*")[0]):
            if word not in defined and word not in _AGREED and foreign.match(word):
                return False
    return True
