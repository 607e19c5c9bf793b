"""Files of C that a build writes, from NVIDIA's headers: names of errors and functions, prototypes,
and versions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

_RUNTIME_HEADERS = (
    "cuda_runtime_api.h",
    "cuda_egl_interop.h",
    "cuda_gl_interop.h",
    "cuda_vdpau_interop.h",
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_PROTOTYPE = re.compile(r"\b(?:CUDARTAPI|CUDAAPI|cudaError_t) (\w+)\(([^;]*)\)\s*;")
#: A default value, for C++.
_DEFAULT = re.compile(r" (?:__dv\(\w+\)|= \w+)")
#: A name that is that of another symbol, or of one for the default stream of a thread.
_RENAMED = re.compile(r"#define (cuda\w+) +(?:__CUDART_API_(PTSZ|PTDS)\()?(cuda\w+)")
#: A function of the driver, and the version of one of its forms.
_FORM = re.compile(r"\*PFN_(\w+?)_v(\d+)\)")
#: Of CUDA for Windows.
_ABSENT = {"cudaWGLGetDevice"}


def runtime_files(headers: Path) -> dict[str, str]:
    """Return the files of a CUDA runtime."""
    types = (headers / "driver_types.h").read_text("utf-8")
    errors = re.findall(r"\b(cudaSuccess|cudaError\w+) += +\d+", types)
    functions = _runtime_functions(headers)
    return {
        "error_names.h": "\n".join(f"NAME({name})" for name in errors),
        "parameters.h": _definitions(functions),
        "missing.h": "\n".join(f"MISSING({name})" for name in sorted(functions.keys() - _ABSENT)),
    }


def _definitions(functions: dict[str, str]) -> str:
    """Return a file that defines a macro for the parameters of each function."""
    return "\n".join(f"#define PARAMETERS_{name} {each}" for name, each in functions.items())


def _functions(header: str) -> dict[str, str]:
    """Return the parameters of functions by their names."""
    results: dict[str, str] = {}
    for name, parameters in _PROTOTYPE.findall(_COMMENT.sub("", header)):
        # The first prototype is the newest.
        results.setdefault(name, _DEFAULT.sub("", " ".join(parameters.split())))
    return results


def _runtime_functions(headers: Path) -> dict[str, str]:
    """Return the parameters of the runtime's functions, by the names of their symbols."""
    results: dict[str, str] = {}
    for header in _RUNTIME_HEADERS:
        text = (headers / header).read_text("utf-8")
        results = _functions(text) | results
        for name, form, symbol in _RENAMED.findall(text):
            if name not in results:
                continue
            results[symbol] = results[name]
            if form:
                results[f"{symbol}_{form.lower()}"] = results[name]
    return results


def driver_files(headers: Path) -> dict[str, str]:
    """Return the files of the CUDA driver."""
    versions = defaultdict(set)
    for name, version in _FORM.findall((headers / "cudaTypedefs.h").read_text("utf-8")):
        versions[name].add(int(version))
    lines = []
    for name, numbers in versions.items():
        for form, version in enumerate(sorted(numbers), 1):
            symbol = f"{name}_v{form}" if form > 1 else name
            if version >= 10020:
                lines.append(f'{{"{symbol}", {version}}},')
    functions = _functions((headers / "cuda.h").read_text("utf-8"))
    return {"first_versions.h": "\n".join(lines), "driver_parameters.h": _definitions(functions)}
