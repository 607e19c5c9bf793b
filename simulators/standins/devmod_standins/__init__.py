"""Stand-ins that tests alone use, and no wheel has: AMD's runtimes, an emulator's launches of
gfx1100 (`rdna3`), Apple's Metal (`metal`).

simulators/README.md has what each executes, and its limits.
"""

from __future__ import annotations

from pathlib import Path

from devmod_simulators import DriverLibrary, StandinLibrary
from devmod_simulators.drivers.library import COMMON

__all__ = ["libamdhip64", "libhiprtc"]

_HERE = Path(__file__).resolve().parent
#: HIP's runtime, by the name that hip-python loads: launches of gfx1100 code are executed by
#: `devmod_standins.rdna3`.
libamdhip64 = DriverLibrary(
    "libamdhip64.so",
    (COMMON, _HERE / "libamdhip64"),
    "worker",
    ("-W", "ignore", str(_HERE / "rdna3")),
)
#: HIP's runtime compiler: `devmod.compile` compiles the source.
libhiprtc = StandinLibrary(
    "libhiprtc.so", (_HERE / "libhiprtc",), "hiprtc", (str(_HERE / "libhiprtc" / "compiler.py"),)
)
