"""The options of clang that the source of a ROCm payload may have, which a receiver passes to
hiprtc.

A payload may come from a stranger, and clang has options that read and write files or load plugins.
"""

from __future__ import annotations

from devmod_readers.options.table import OptionTable

__all__ = ["TABLE", "is_supported"]

# Where to change: an option of the compiler of ROCm
#   also: `compilers/targets/src/devmod_targets/authoring/clang_build.py` (`_SWITCHES`), which a
#     build accepts; those here may be in a payload that is a source, too
#   tests: `compilers/targets/tests/test_compile_rocm_source.py`,
#     `compilers/targets/tests/test_hostile_options.py`
_FLOATS = (
    "fast-math math-errno finite-math-only signed-zeros reciprocal-math associative-math honor-nans honor-infinities "
    "approx-func trapping-math unsafe-math-optimizations rounding-math"
)
_SWITCHES = (
    "gpu-flush-denormals-to-zero gpu-approx-transcendentals unroll-loops vectorize slp-vectorize exceptions rtti strict-aliasing "
    "hip-fp32-correctly-rounded-divide-sqrt"
)
_MACHINE = "wavefrontsize64 cumode unsafe-fp-atomics tgsplit"
_WORDS = ["-O", *(f"-O{level}" for level in ("0", "1", "2", "3", "s", "z", "fast")), "-w"]
for _start, _names in (("-f", f"{_FLOATS} {_SWITCHES}"), ("-m", _MACHINE)):
    for _name in _names.split():
        _WORDS += [f"{_start}{_name}", f"{_start}no-{_name}"]
_STANDARD = r"(?:c|gnu)\+\+\w\w"
TABLE = OptionTable(
    _WORDS,
    {
        "-std": _STANDARD,
        "--std": _STANDARD,
        "-ffp-contract": "(?:off|on|fast|fast-honor-pragmas)",
        "-mcode-object-version": "[456]",
        "--gpu-max-threads-per-block": r"\d+",
    },
    # No comma: -Wl, and -Wa, pass options to other programs. clang checks the names of warnings.
    r"-[DU][A-Za-z_]\w*(?:=.*)?|-W[a-z0-9+-]*(?:=[a-z0-9+-]+)?",
)


def is_supported(option: str) -> bool:
    """Return whether an option may be in a payload: it changes the code or the diagnostics, and
    reads and writes no file.
    """
    return option in TABLE
