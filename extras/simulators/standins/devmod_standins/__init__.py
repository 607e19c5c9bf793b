"""Stand-ins that tests alone use, and no wheel has: AMD's runtimes, an emulator's launches of
gfx1100 (`rdna3`).

extras/simulators/standins/README.md has what each executes, and its limits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from devmod_simulators import DriverLibrary, StandinLibrary
from devmod_simulators.drivers.generated import definitions, table
from devmod_simulators.drivers.library import COMMON

__all__ = ["libamdhip64", "libhiprtc"]

# Where to change: a function of the stand-in runtime of HIP
#   here: `extras/simulators/standins/devmod_standins/libamdhip64/*.c`, by family
#   also: `extras/simulators/standins/devmod_standins/libamdhip64/calls.md`
#   tests: `tests/test_two_places.py`; those of `extras/simulators/tests/libamdhip64/`, by family
_HERE = Path(__file__).resolve().parent


def _hip_files(_includes: Sequence[Path]) -> dict[str, str]:
    """Return the files of HIP's runtime, for a build."""
    text = (_HERE / "libamdhip64" / "calls.md").read_text("utf-8")
    functions = dict(re.findall(r"^[\w *]*?(hip\w+)\((.*?)\);", text, re.MULTILINE))
    library = str(_HERE / "libamdhip64")
    return {
        "hip_parameters.h": definitions(functions),
        "errors.h": table(library, "errors.txt", '{{{1}, "{0}"}},'),
        "attributes.h": table(library, "attributes.txt", "ATTRIBUTE({}, {})"),
    }


#: HIP's runtime, by the name that hip-python loads: launches of gfx1100 code are executed by
#: `devmod_standins.rdna3`.
libamdhip64 = DriverLibrary(
    "libamdhip64.so",
    (COMMON, _HERE / "libamdhip64"),
    "worker",
    ("-W", "ignore", str(_HERE / "rdna3")),
    generate=_hip_files,
)
#: HIP's runtime compiler: `devmod.compile` compiles the source.
libhiprtc = StandinLibrary(
    "libhiprtc.so", (_HERE / "libhiprtc",), "hiprtc", (str(_HERE / "libhiprtc" / "compiler.py"),)
)
