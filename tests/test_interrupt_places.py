"""KeyboardInterrupt at each place of a use where CPython looks at signals: `interrupt_places.py`.

Random moments do not find a place that lasts microseconds. Without
``DEVMOD_TEST_INTERRUPT_PLACES=0``, which is all places, each use is interrupted at five of them,
and at those where a lock was just acquired.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from backend_checks import first_device

PLACES = os.environ.get("DEVMOD_TEST_INTERRUPT_PLACES", "5")
SEED = "1"
#: In the order of `interrupt_places.Uses.all`.
USES = ["first use", "load", "save", "call", "with", "exit"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.row("R61")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "kind", ["opencl", "webgpu", pytest.param("vulkan", marks=pytest.mark.volume)]
)
def test_every_use_works_after_an_interrupt_at_any_place(
    kind: str, use: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_device(kind)
    script = Path(__file__).with_name("interrupt_places.py")
    number = str(USES.index(use))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), kind, str(tmp_path), number, SEED, PLACES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith(" 0 failures\n"), done.stdout + done.stderr
    with capsys.disabled():
        if PLACES == "0":
            print(f"\n{kind}, {use}: {done.stdout.strip()}")
