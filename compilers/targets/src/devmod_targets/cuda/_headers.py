"""The headers that NVRTC lacks, and NVIDIA's: a check of their names, and the headers of one
program in memory.

NVRTC writes the folder of a header into line information and into the messages of ``assert``. With
the headers in memory it writes only their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache

from devmod.errors import pip_install
from devmod_targets._text import header_files
from devmod_targets.authoring.hip_names import renaming_header
from devmod_targets.cuda import _wheels

_DEFINE = re.compile(r"^#define (\w+) (.+)$", re.MULTILINE)
#: The texts of headers, by their names.
_Headers = dict[str, str]

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_HAS_INCLUDE = re.compile(r'__has_include\w*[ \t]*\([ \t]*[<"]([^>"\n]+)[>"]')
_MAX_HEADERS = 20_000
#: The header that declares a type which programs often use without it. nvcc includes the first ones
#: itself.
_DECLARED = (
    (re.compile(r"u?int(?:_least|_fast)?(?:8|16|32|64)_t|u?int(?:ptr|max)_t"), "cstdint"),
    (re.compile(r"(?:__)?half2?"), "cuda_fp16.h"),
    (re.compile(r"(?:__)?nv_bfloat162?"), "cuda_bf16.h"),
    (re.compile(r"__nv_fp8\w*"), "cuda_fp8.h"),
    (re.compile(r"CUtensorMap|CUdeviceptr"), "cuda.h"),
    (re.compile(r"cu(?:Float|Double)?Complex"), "cuComplex.h"),
    (re.compile(r"cooperative_groups"), "cooperative_groups.h"),
)

#: The distributions of headers, by the start of an include's name.
_DISTRIBUTIONS = (
    (("curand",), "nvidia-curand"),
    (("cublas.h", "cublas_", "cublasLt.h", "cublasXt.h"), "nvidia-cublas"),
    (("cufft.h", "cufftXt.h"), "nvidia-cufft"),
    (("cusparse.h",), "nvidia-cusparse"),
    (("cusolverDn.h", "cusolverSp.h"), "nvidia-cusolver"),
    (("nvtx3/",), "nvidia-nvtx"),
    (("cuda_profiler_api.h", "cudaProfiler.h"), "nvidia-cuda-profiler-api"),
    (("cuda/", "cub/", "thrust/", "nv/"), "nvidia-cuda-cccl"),
    (("crt/",), "nvidia-cuda-crt"),
    (
        ("cooperative_groups", "cuda", "mma.h", "math_constants", "vector_types", "cuComplex"),
        "nvidia-cuda-runtime",
    ),
)


# Where to change: a header of C or C++ that NVRTC lacks
#   here: `compilers/targets/src/devmod_targets/cuda/headers/`
#   tests: `compilers/targets/tests/test_nvrtc.py`
@cache
def host_headers() -> _Headers:
    """Return the standard headers of C and C++ that NVRTC lacks, a cuda.h with types alone, and
    HIP's, by their names in an include.

    NVRTC itself declares ``size_t``, ``printf``, ``assert``, ``malloc``, ``memcpy`` and the
    functions of math.h in the global namespace. These headers add the macros, the integer types and
    the names in ``std`` that kernels use. Their macros and types agree with those of ``cuda/std``,
    so that a program may include both.
    """
    headers = dict(header_files(__package__))
    for name, text in header_files("devmod_targets.authoring").items():
        headers[f"hip/{name}"] = text
    headers["hip/devmod_hip_names.h"] = renaming_header(to_hip=False)
    return headers


def hip_headers() -> _Headers:
    """Return the headers of HIP alone."""
    return {name: text for name, text in host_headers().items() if name.startswith("hip/")}


def math_functions() -> list[str]:
    """Return the names of the functions of math.h that NVRTC declares."""
    return re.findall(r"using ::(\w+);", host_headers()["cmath"])


@cache
def _constants() -> list[_Headers]:
    """Return the macros of math.h, float.h and limits.h, name to value."""
    return [
        dict(_DEFINE.findall(host_headers()[name])) for name in ("math.h", "float.h", "limits.h")
    ]


def predefined(text: str) -> str:
    """Return the definitions of the constants of math.h, float.h and limits.h that a program uses.

    Compilers of host code define them for kernels without an include. A constant that the program
    itself defines is left out.
    """
    words = set(re.findall(r"\w+", text))
    groups = [group for group in _constants() if not words.isdisjoint(group)]
    if not groups:
        return ""
    own = set(re.findall(r"#[ \t]*define[ \t]+(\w+)", text))
    lines = []
    for group in groups:
        for name, value in group.items():
            if name not in own:
                lines.append(f"#define {name} {value}\n")
    return "".join(lines)


# -- NVIDIA's headers.


def include_names(text: str) -> list[str]:
    """Return the names of the headers that a program includes, in all branches of its
    conditions.
    """
    return [match[2] or match[3] for match in _INCLUDE.finditer(text)]


def has_header(name: str, folders: Sequence[str]) -> bool:
    """Return whether an include's name is one of NVIDIA's headers, also in a wheel that is not
    installed, or of those in memory.
    """
    return name in host_headers() or bool(_path_of(folders, name) or _missing_wheel(name))


def _path_of(folders: Sequence[str], name: str) -> str:
    """Return the path of the first file of this name in folders; "" if there is none."""
    paths = (os.path.join(folder, name) for folder in folders)
    return next(filter(os.path.isfile, paths), "")


def header_of(name: str) -> str:
    """Return the header that declares a type of CUDA or of stdint.h; "" for another name."""
    for pattern, header in _DECLARED:
        if pattern.fullmatch(name):
            return header
    return ""


def missing_header(name: str, folders: Sequence[str], with_headers: str, reason: str) -> str:
    """Return the sentences with the remedy for a header that the compiler did not find.

    Parameters
    ----------
    name
        The name in the include.
    folders
        The folders of the headers, in which NVRTC has looked.
    with_headers
        What pip installs for the compiler and its headers.
    reason
        Why the compiler has no headers of the host; "" for nvcc, which has them.
    """
    if name.startswith(("hip", "roc")):
        return "It is a header of HIP or of ROCm that devmod does not have for cuda: docs/cuda.md lists its headers of HIP"
    distribution = _missing_wheel(name)
    if distribution:
        wanted = distribution
        if distribution in _wheels.HEADERS.values():
            wanted = with_headers
        return f"It is in the wheel {distribution}, which is not installed. To add it: {pip_install(wanted)}"
    remedy = "For a header of your own, add its folder to include="
    if _path_of(folders, os.path.join("cuda", "std", name)):
        remedy = f"<cuda/std/{name}> has the same names in the namespace cuda::std"
    return ". ".join(filter(None, (reason, remedy)))


def _missing_wheel(name: str) -> str:
    """Return the distribution of an include's name by its start, if that is not installed; ""
    otherwise.
    """
    for prefixes, distribution in _DISTRIBUTIONS:
        if name.startswith(prefixes) and not _wheels.version(distribution):
            return distribution
    return ""


def headers_in_memory(text: str, folders: Sequence[str]) -> _Headers:
    """Return the headers that a program may include, by name. Conditions are not evaluated.

    In their texts, the includes of files in the same folder have names from the include folder:
    NVRTC compares names in memory as they are written.
    """
    headers: _Headers = {}
    pending = include_names(text) + _HAS_INCLUDE.findall(text)
    while pending and len(headers) < _MAX_HEADERS:
        name = pending.pop()
        if name in headers or name in host_headers():
            continue
        path = _path_of(folders, name)
        if not path:
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            content = file.read()
        parent = os.path.dirname(name)
        headers[name] = _INCLUDE.sub(
            lambda match, parent=parent: _absolute(match, parent, folders),  # type: ignore[misc]
            content,
        )
        pending += include_names(headers[name]) + _HAS_INCLUDE.findall(content)
    return headers


def _absolute(match: re.Match[str], parent: str, folders: Sequence[str]) -> str:
    """Return an include directive with the name from the include folder."""
    if match[2]:
        name = os.path.normpath(os.path.join(parent, match[2])).replace(os.sep, "/")
        if _path_of(folders, name):
            return f"{match[1]}<{name}>"
    return match[0]
