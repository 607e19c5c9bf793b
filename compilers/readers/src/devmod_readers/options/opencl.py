"""The build options that the source of an OpenCL payload may have. Drivers take others, some of
which write files (``-save-temps=``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from devmod_readers.options.table import OptionTable

__all__ = ["TABLE", "VERSIONS", "doubts_of", "is_supported", "unsupported"]

# Where to change: an option of the compiler of OpenCL C
#   also: `compilers/targets/src/devmod_targets/opencl/compile.py` (`_FRONTEND_OPTIONS`), if it
#     changes macros or types
#   tests: `compilers/targets/tests/test_options.py`,
#     `compilers/targets/tests/test_compile_opencl.py`
#: The options of OpenCL, each with the first version that has it: clBuildProgram in the
#: specification, and the extension cl_ext_cxx_for_opencl.
VERSIONS = {
    "-cl-single-precision-constant": "1.0",
    "-cl-denorms-are-zero": "1.0",
    "-cl-opt-disable": "1.0",
    "-cl-strict-aliasing": "1.0",
    "-cl-mad-enable": "1.0",
    "-cl-no-signed-zeros": "1.0",
    "-cl-unsafe-math-optimizations": "1.0",
    "-cl-finite-math-only": "1.0",
    "-cl-fast-relaxed-math": "1.0",
    "-w": "1.0",
    "-Werror": "1.0",
    "-cl-std=CL1.1": "1.1",
    "-cl-std=CL1.2": "1.2",
    "-cl-fp32-correctly-rounded-divide-sqrt": "1.2",
    "-cl-kernel-arg-info": "1.2",
    "-cl-std=CL2.0": "2.0",
    "-cl-std=CLC++": "2.0",
    "-cl-std=CLC++1.0": "2.0",
    "-cl-uniform-work-group-size": "2.0",
    "-g": "2.0",
    "-cl-no-subgroup-ifp": "2.1",
    "-cl-std=CL3.0": "3.0",
    "-cl-std=CLC++2021": "3.0",
}
#: The version of a source whose options name none.
_DEFAULT = "1.2"
#: clang's options, which many drivers take.
_OF_CLANG = re.compile(r"-U[A-Za-z_]\w*|-O[0-5]?", re.ASCII)
_VENDORS = {
    "-cl-amd-": "AMD's",
    "-cl-arm-": "Arm's",
    "-cl-img-": "Imagination's",
    "-cl-intel-": "Intel's",
    "-cl-nv-": "NVIDIA's",
    "-cl-qcom-": "Qualcomm's",
    "-qcom-": "Qualcomm's",
}
_OF_VENDORS = re.compile(rf"(?:{'|'.join(_VENDORS)})[\w-]+(?:=[\w.+-]+)?", re.ASCII)
#: A value after an option of a vendor: ``-cl-nv-maxrregcount 32``.
_VALUE = r"[A-Za-z0-9]+"
TABLE = OptionTable(VERSIONS, others=rf"-D.*|{_VALUE}|{_OF_CLANG.pattern}|{_OF_VENDORS.pattern}")


def is_supported(option: str) -> bool:
    """Return whether a source payload may have a build option."""
    return option in TABLE


def unsupported(options: Iterable[str]) -> str:
    """Return the first of some options that a source payload must not have; "" if there is none."""
    previous = ""
    for option in options:
        is_value = not option.startswith("-")
        takes_value = _OF_VENDORS.fullmatch(previous) and "=" not in previous
        if option not in TABLE or (is_value and not takes_value):
            return option
        previous = option
    return ""


def doubts_of(options: Iterable[str]) -> list[str]:
    """Return why drivers may refuse each of some options of a source payload, which are in the
    table.
    """
    options = tuple(options)
    own = max((VERSIONS[each] for each in options if each.startswith("-cl-std=")), default=_DEFAULT)
    doubts = []
    for option in options:
        version = VERSIONS.get(option, "")
        vendor = next((name for start, name in _VENDORS.items() if option.startswith(start)), "")
        if vendor:
            why = f"is one of {vendor} drivers alone, and devmod does not check its spelling"
        elif _OF_CLANG.fullmatch(option):
            why = "is one of clang, and OpenCL has no such option"
        elif option.startswith("-cl-std=CLC++"):
            why = "needs the extension cl_ext_cxx_for_opencl"
        elif version > own:
            why = f"is one of OpenCL {version}, and the source is of {own}"
        else:
            continue
        doubts.append(f"the option {option!r} {why}")
    return doubts
