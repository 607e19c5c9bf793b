"""The options of clang that the source of a ROCm payload may have, which a receiver passes to
hiprtc.

A payload may come from a stranger, and clang has options that read and write files or load plugins.
"""

from __future__ import annotations

import re

__all__ = ["is_supported"]

_FLOATS = (
    "fast-math math-errno finite-math-only signed-zeros reciprocal-math associative-math honor-nans honor-infinities "
    "approx-func trapping-math unsafe-math-optimizations rounding-math"
)
_SWITCHES = "gpu-flush-denormals-to-zero gpu-approx-transcendentals unroll-loops vectorize slp-vectorize exceptions rtti strict-aliasing"
_ALLOWED = re.compile(
    "|".join(
        [
            r"-[DU][A-Za-z_]\w*(?:=.*)?",
            r"-O(?:[0-3sz]|fast)?",
            r"--?std=(?:c|gnu)\+\+\w\w",
            "-f(?:no-)?(?:" + "|".join((_FLOATS + " " + _SWITCHES).split()) + ")",
            "-ffp-contract=(?:off|on|fast|fast-honor-pragmas)",
            "-f(?:no-)?hip-fp32-correctly-rounded-divide-sqrt",
            "-m(?:no-)?(?:wavefrontsize64|cumode|unsafe-fp-atomics|tgsplit)",
            "-mcode-object-version=[456]",
            r"--gpu-max-threads-per-block=\d+",
            # No comma: -Wl, and -Wa, pass options to other programs.
            r"-w|-W[a-z0-9+-]*(?:=[a-z0-9+-]+)?",
        ]
    ),
    re.ASCII,
)


def is_supported(option: str) -> bool:
    """Return whether an option may be in a payload: it changes the code or the diagnostics, and
    reads and writes no file.
    """
    return _ALLOWED.fullmatch(option) is not None
