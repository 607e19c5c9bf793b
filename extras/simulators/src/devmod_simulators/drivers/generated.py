"""Files of C that a build writes, from NVIDIA's headers and from tables beside the C files:
prototypes, versions, calls, errors, attributes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from devmod_simulators.drivers.build import BuildError, UnavailableError

_DRIVERS = Path(__file__).resolve().parent
_RUNTIME_HEADERS = (
    "cuda_runtime_api.h",
    "cuda_egl_interop.h",
    "cuda_gl_interop.h",
    "cuda_vdpau_interop.h",
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_PROTOTYPE = re.compile(r"\b(?:CUDARTAPI|CUDAAPI|cudaError_t)\s+(\w+)\(([^;]*)\)\s*;")
#: A default value, for C++.
_DEFAULT = re.compile(r" (?:__dv\(\w+\)|= \w+)")
#: The type and the name of a parameter; `void` has none.
_PARAMETER = re.compile(r"([^,]*[ *])(\w+)(?:\[\w*\])?(?:, |$)")
#: A code of an error.
_ERROR = re.compile(r"\b(cudaSuccess|cudaError\w+|CUDA_SUCCESS|CUDA_ERROR_\w+) += +\d+")
#: A name that is that of another symbol, or of one for the default stream of a thread.
_RENAMED = re.compile(r"#define (cu\w+) +(?:__CUDA(?:RT)?_API_(PTSZ|PTDS)\()?(cu\w+)")
#: A function of the driver, and the version of one of its forms.
_FORM = re.compile(r"\*PFN_(\w+?)_v(\d+)\)")
#: Of CUDA for Windows, and a function that cuda.h defines.
_ABSENT = {"cudaWGLGetDevice", "cuGetProcAddress_v2_ptsz"}


def runtime_files(includes: Sequence[Path]) -> dict[str, str]:
    """Return the files of a CUDA runtime, from the headers in the first of folders.

    Raises
    ------
    UnavailableError
        A header cannot be read.
    BuildError
        A table names a function that the headers lack.
    """
    types = _header(includes, "driver_types.h")
    functions = _functions("".join(_header(includes, name) for name in _RUNTIME_HEADERS))
    of_thread, others = _forwards(functions, _functions(_header(includes, "cuda.h")))
    return {
        "errors.h": _errors(types, "libcudart"),
        "parameters.h": definitions(functions),
        "properties.h": _fields(types, "cudaDeviceProp", "properties.txt", "CU_DEVICE_ATTRIBUTE_"),
        "attributes.h": _fields(
            types, "cudaFuncAttributes", "attributes.txt", "CU_FUNC_ATTRIBUTE_"
        ),
        "stream_forwards.h": "\n".join(of_thread),
        "forwards.h": "\n".join(others),
        "missing.h": "\n".join(f"MISSING({name})" for name in sorted(functions.keys() - _ABSENT)),
    }


def _header(includes: Sequence[Path], name: str) -> str:
    """Return the text of a header of NVIDIA's."""
    path = includes[0] / name
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise UnavailableError(
            f"{path} cannot be read, which a stand-in needs: {error.strerror}; install its package again: pip install --force-reinstall"
        ) from error


def _rows(library: str, table: str) -> list[tuple[str, str]]:
    """Return the rows of a table: the first word of each, and what follows it."""
    rows = []
    for line in (_DRIVERS / library / table).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            word, _, others = line.partition(" ")
            rows.append((word, others))
    return rows


def table(library: str, name: str, form: str) -> str:
    """Return the rows of a table in a form of C. A library may be elsewhere, by its path."""
    return "\n".join(form.format(*row) for row in _rows(library, name))


def _errors(header: str, library: str) -> str:
    """Return the rows of a table of the errors of a header: code, name, and text or NULL."""
    texts = dict(_rows(library, "errors.txt"))
    rows = []
    for name in _ERROR.findall(header):
        text = f'"{texts[name]}"' if name in texts else "NULL"
        rows.append(f'{{{name}, "{name}", {text}}},')
    return "\n".join(rows)


def _fields(header: str, structure: str, table: str, prefix: str) -> str:
    """Return the rows of a table of the fields of a structure that a header has."""
    fields = _COMMENT.sub("", header).partition(structure)[2].partition("}")[0]
    rows = []
    for field, attribute in _rows("libcudart", table):
        if re.search(rf"\b{field.partition('[')[0]}\b", fields):
            rows.append(f"FIELD({structure}, {field}, {prefix}{attribute}),")
    return "\n".join(rows)


def _forwards(functions: dict[str, str], driver: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return calls of the driver: of functions with a form for the default stream of a thread, and
    of others.
    """
    of_thread: list[str] = []
    others: list[str] = []
    for name, target in _rows("libcudart", "forwards.txt"):
        if name not in functions:
            continue
        target = target or name.replace("cuda", "cu", 1)
        if target not in driver:
            raise BuildError(
                f"libcudart/forwards.txt has {target} for {name}, and cuda.h has no such function: "
                "correct the name, or build with the headers of a newer CUDA"
            )
        lines = of_thread if f"{name}_ptsz" in functions else others
        kernel = ""
        arguments = []
        types = [each.strip() for each, _ in _PARAMETER.findall(driver[target])]
        parameters = _PARAMETER.findall(functions[name])
        for (own, argument), needed in zip(parameters, types, strict=True):
            if needed == "CUfunction" and "*" in own:
                kernel = f"{argument}, "
                argument = "function"
            elif own == "cudaStream_t " and lines is of_thread:
                argument = f"STREAM({argument})"
            elif own.startswith("struct ") and "*" not in own:
                argument = f"*({needed} *)&{argument}"
            else:
                argument = f"({needed}){argument}"
            arguments.append(argument)
        form = "FORWARD_KERNEL" if kernel else "FORWARD"
        lines.append(f"{form}({name}, {kernel}{target}({', '.join(arguments)}))")
    return of_thread, others


def definitions(functions: dict[str, str]) -> str:
    """Return a file that defines macros for the parameters of functions, and for their names."""
    lines = []
    for name, parameters in functions.items():
        names = ", ".join(each for _, each in _PARAMETER.findall(parameters))
        lines.append(f"#define PARAMETERS_{name} {parameters}")
        lines.append(f"#define ARGUMENTS_{name} ({names})")
    return "\n".join(lines)


def _functions(header: str) -> dict[str, str]:
    """Return the parameters of the functions of a header, by the names of their symbols too."""
    results: dict[str, str] = {}
    for name, parameters in _PROTOTYPE.findall(_COMMENT.sub("", header)):
        # The first prototype is the newest.
        results.setdefault(name, _DEFAULT.sub("", " ".join(parameters.split())))
    for name, form, symbol in _RENAMED.findall(header):
        if name not in results:
            continue
        results[symbol] = results[name]
        if form:
            results[f"{symbol}_{form.lower()}"] = results[name]
    return results


def _same_forms(header: str) -> dict[str, str]:
    """Return definitions of the names without a version whose earliest form has the parameters of a
    later one, by these names.
    """
    forms: dict[str, list[str]] = {}
    for name, parameters in _PROTOTYPE.findall(_COMMENT.sub("", header)):
        forms.setdefault(name, []).append(" ".join(parameters.split()))
    definitions = {}
    for name, _, newest in _RENAMED.findall(header):
        # The first prototype is that of the newest form, and the header has its symbol.
        declared, *earlier = forms.get(name, [""])
        if declared in earlier and newest != name:
            definitions[name] = f"#undef {name}\nSAME({name}, {newest})"
    return definitions


def _per_thread(header: str, functions: dict[str, str]) -> dict[str, str]:
    """Return definitions of the functions whose default stream is one of the thread, by their
    names.
    """
    definitions = {}
    for name, form, symbol in _RENAMED.findall(header):
        own = f"{symbol}_{form.lower()}"
        # A structure may have the stream.
        if not form or "Params *" in functions[name] or "config" in functions[name]:
            continue
        arguments = []
        for kind, argument in _PARAMETER.findall(functions[name]):
            is_stream = kind.strip() == "CUstream"
            arguments.append(f"STREAM({argument})" if is_stream else argument)
        definitions[own] = f"THREAD({own}, {symbol}({', '.join(arguments)}), {functions[name]})"
    return definitions


def driver_files(includes: Sequence[Path]) -> dict[str, str]:
    """Return the files of the CUDA driver, as `runtime_files` does."""
    versions = defaultdict(set)
    for name, version in _FORM.findall(_header(includes, "cudaTypedefs.h")):
        versions[name].add(int(version))
    lines = []
    for name, numbers in versions.items():
        for form, version in enumerate(sorted(numbers), 1):
            symbol = f"{name}_v{form}" if form > 1 else name
            if version >= 10020:
                lines.append(f'{{"{symbol}", {version}}},')
    header = _header(includes, "cuda.h")
    functions = _functions(header)
    renamed = {name: symbol for name, _, symbol in _RENAMED.findall(header)}
    forwards = _same_forms(header) | _per_thread(header, functions)
    missing = [
        f'MISSING({name}, "{renamed.get(name, "")}")'
        for name in sorted(functions.keys() - forwards.keys() - _ABSENT)
    ]
    return {
        "attributes.h": table("libcuda", "attributes.txt", "[CU_DEVICE_ATTRIBUTE_{}] = {},"),
        "unsupported.h": "\n".join(missing),
        "earlier.h": "\n".join(forwards.values()),
        "first_versions.h": "\n".join(lines),
        "driver_parameters.h": definitions(functions),
        "errors.h": _errors(header, "libcuda"),
    }
