"""Write the payload of each kind's smallest kernel into the package of its runtime, where
`devmod.doctor` and the conformance kit read it: ``python tools/small_kernels.py``.

The sources are beside the compilers, as in
``compilers/targets/src/devmod_targets/opencl/small_kernel.cl``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from devmod.targets import KINDS
from devmod_targets.doctor import small_payload

_PLUGINS = Path(__file__).resolve().parent.parent / "plugins"


# Where to change: the small kernel that `devmod doctor` compiles and runs
#   here: `small_kernel.*` beside the kind's `toolchain.py`, then `python tools/small_kernels.py`
#   tests: `tests/test_every_kind.py`, `compilers/targets/tests/test_doctor.py`
def payloads() -> dict[Path, Callable[[], bytes]]:
    """Return what makes the contents of each file."""
    found: dict[Path, Callable[[], bytes]] = {}
    for kind in KINDS:
        folder = _PLUGINS / f"devmod-{kind}" / "src" / f"devmod_{kind}"
        found[folder / "small_kernel.module"] = partial(small_payload, kind)
    return found


if __name__ == "__main__":
    for path, make in payloads().items():
        path.write_bytes(make())
