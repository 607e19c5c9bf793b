"""The options of NVRTC that a build and a receiver accept: one list, so that what builds also
compiles at the receiver.

A payload may come from a stranger, and NVRTC has options that read and write files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from devmod.errors import CompileError
from devmod_readers.options.table import OptionTable

__all__ = ["check_options", "check_values", "is_supported", "writes_folders"]

# Where to change: an option of the compiler of CUDA: NVRTC or nvcc
#   tests: `compilers/targets/tests/test_compile_cuda.py`,
#     `compilers/targets/tests/test_compile_nvcc.py`
#: Names without their dashes. NVRTC takes one dash or two before most of them.
_FLAGS = (
    "lineinfo generate-line-info G device-debug use_fast_math fno-signed-zeros ffinite-math-only extra-device-vectorization w "
    "disable-warnings Wreorder Wconversion restrict default-device device-as-default-execution-space device-int128 device-float128 err-no "
    "display-error-number no-err-no no-display-error-number device-stack-protector minimal dw device-w"
)
_SWITCHES = (
    "ftz prec-sqrt prec-div fmad modify-stack-limit device-stack-protector builtin-move-forward builtin-initializer-list brief-diagnostics "
    "brief-diag"
)
_NUMBERS = r"\d+(?:,\d+)*"
_VALUES = {
    "std": r"c\+\+\d\d",
    "dopt": "on",
    "maxrregcount": r"\d+",
    "fmax-errors": r"\d+",
    "jump-table-density": r"\d+",
    "jtd": r"\d+",
    "Ofast-compile": r"(?:0|min|mid|max)",
    "Ofc": r"(?:0|min|mid|max)",
    "opt-info": "inline",
    "optimization-info": "inline",
    "Werror": r"[a-z-]+(?:,[a-z-]+)*",
    "warning-as-error": r"[a-z-]+(?:,[a-z-]+)*",
    "diag-error": _NUMBERS,
    "diag-suppress": _NUMBERS,
    "diag-warn": _NUMBERS,
    "Xptxas": r"-(?:v|O[0-4]|w|-?(?:warn-spills|warn-double-usage|warn-lmem-usage|verbose)|-?opt-level=[0-4]"
    r"|(?:[df]lcm|-?(?:def|force)-load-cache)=(?:ca|cg|cs|cv|lu)|(?:[df]scm|-?(?:def|force)-store-cache)=(?:cg|cs|wb|wt)"
    r"|-?allow-expensive-optimizations=(?:true|false)|-?disable-optimizer-const(?:ant)?s|-?maxrregcount=\d+)",
}
_VALUES["ptxas-options"] = _VALUES["Xptxas"]
_WORDS = [*_FLAGS.split(), "rdc=false", "relocatable-device-code=false"]
for _name in _SWITCHES.split():
    _WORDS += [f"{_name}=true", f"{_name}=false"]
TABLE = OptionTable(
    [f"{dashes}{word}" for dashes in ("--", "-") for word in _WORDS],
    {f"{dashes}{name}": value for dashes in ("--", "-") for name, value in _VALUES.items()},
    r"-[DU][A-Za-z_]\w*(?:=.*)?",
)
_ARCH = re.compile(r"--?(?:arch|gpu-architecture|gencode|generate-code)\b")
_RELOCATABLE = re.compile(
    r"--?(?:rdc|relocatable-device-code|dc|device-c|dlto|dlink-time-opt|gen-opt-lto|ewp|extensible-whole-program)\b"
)
_FILES = re.compile(
    r"--?(?:time|fdevice-time-trace|pch|create-pch|use-pch|pch-dir|include-path|pre-include|use-bundled-headers|no-source-include|"
    r"fdevice-syntax-only|optix-ir)\b"
)
#: nvcc's options for the code of the host, its phases and its files.
_NVCC = re.compile(
    r"--?(?:O[0-3sg]?|optimize|(?:expt-)?extended-lambda|expt-relaxed-constexpr|Xcompiler|compiler-options|ccbin|compiler-bindir|c|compile|ptx|"
    r"cubin|fatbin|v|verbose|keep|keep-dir|cudart|l|L|shared|lib|threads|t|x|m64|fPIC|Wall|Wextra|Xlinker|Xfatbin|Xnvlink|run|dryrun|"
    r"allow-unsupported-compiler|forward-unknown-to-host-compiler|prec|march|mtune|fopenmp|g|pg)\b.*"
)
#: Those of them that change what code of the device may use.
_LANGUAGE = re.compile(r"--?(?:(?:expt-)?extended-lambda|expt-relaxed-constexpr)")
_LEVEL = re.compile(r"-O[0-3]")
#: Options that put the names of folders into the output.
_DEBUG = re.compile(r"--?(?:lineinfo|generate-line-info|G|device-debug)")


def is_supported(option: str) -> bool:
    """Return whether an option may be in a payload: it changes the code or the diagnostics, and
    reads and writes no file.
    """
    return option in TABLE


def check_values(options: Iterable[str]) -> None:
    """Raise CompileError for an option whose value is in the next word, or missing."""
    names = {f"{dash}{name}" for dash in ("-", "--") for name in _VALUES}
    check_options(option for option in options if option in names)


def check_options(options: Iterable[str], *, is_nvcc: bool = False) -> None:
    """Raise CompileError for an option that is not in the list, or that a payload cannot have.
    `is_nvcc`: also nvcc's own are in it.
    """
    for option in options:
        if is_supported(option):
            continue
        if is_nvcc and (_LANGUAGE.fullmatch(option) or _LEVEL.fullmatch(option)):
            continue
        problem = _problem(option, is_nvcc=is_nvcc)
        raise CompileError(f"the cuda option {option!r} {problem}", kind="cuda")


def _problem(option: str, *, is_nvcc: bool) -> str:
    """Return why an option is not accepted."""
    if _ARCH.match(option):
        return "names an architecture; name it in the target, such as 'cuda -arch=sm_90'"
    if _RELOCATABLE.match(option):
        return "makes code that a linker must finish; a module is loaded as it is"
    if _FILES.match(option):
        return "reads or writes files, or gives no code"
    if _takes_value(option):
        return f"has no value that is supported; write it in one word, as in {_example(option)}"
    if not _NVCC.fullmatch(option):
        return f"is not supported; expected an option of NVRTC such as -std=c++20, --use_fast_math or --maxrregcount=32{TABLE.hint(option)}"
    if is_nvcc:
        return "is for the code or the compiler of the host, or for files; a payload has the code of the device. Leave it out"
    problem = "is nvcc's, and NVRTC lacks it: it compiles and optimizes the code of the device alone. Leave it out"
    if _LANGUAGE.fullmatch(option):
        problem += ", or compile with nvcc, as in 'cuda -arch=sm_90 -compiler=nvcc'"
    if option.endswith("expt-relaxed-constexpr"):
        problem += ". -default-device makes functions without __device__ functions of the device"
    return problem


def _takes_value(option: str) -> bool:
    given, _, _ = option.partition("=")
    return any(given in (f"-{name}", f"--{name}") for name in (*_VALUES, *_SWITCHES.split()))


def _example(option: str) -> str:
    name = option.lstrip("-").partition("=")[0]
    values = {
        "std": "c++20",
        "maxrregcount": "32",
        "Xptxas": "-O3",
        "ptxas-options": "-O3",
        "dopt": "on",
        "Ofast-compile": "mid",
        "Ofc": "mid",
    }
    default = "true" if name in _SWITCHES.split() else "1"
    return f"{option.partition('=')[0]}={values.get(name, default)}"


def writes_folders(options: Iterable[str]) -> bool:
    """Return whether an option makes NVRTC write the current folder into its output (line
    information, debug information).
    """
    return any(_DEBUG.fullmatch(option) for option in options)
