"""The size of the waves of a code object, which a device must have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from each_case import refusal

import devmod

SOURCE = (
    'extern "C" __global__ void fill(int *x) { x[threadIdx.x] = __builtin_amdgcn_wavefrontsize(); }'
)


def compiled(*options: str) -> devmod.Module:
    return devmod.compile(SOURCE, "rocm -arch=gfx1100", language="HIP", options=options)


@pytest.mark.row("R34")
@pytest.mark.usefixtures("emulator")
def test_a_code_object_with_other_waves_is_skipped(device: Any) -> None:
    if device.arch != "gfx1100":
        pytest.skip("the code objects are for gfx1100")
    narrow, wide = compiled(), compiled("-mwavefrontsize64")
    assert [each.functions["fill"].interface.subgroup for each in (narrow, wide)] == [32, 64]  # type: ignore[union-attr]
    assert tuple(device.subgroup_sizes) == (32,)
    lacking = (
        f"needs subgroups of 64 threads (it has subgroups of 32), which {device} does not have"
    )
    x = np.zeros(32, np.int32)
    # A look-up raises too.
    assert (
        refusal(devmod.DeviceNotFoundError, lambda: wide["fill"](x, grid=1, block=32))
        == f"the rocm function 'fill' {lacking}"
    )
    devmod.loads(devmod.dumps(devmod.bundle(wide, narrow)))["fill"](x, grid=1, block=32)
    assert set(x.tolist()) == {32}
    assert (
        refusal(
            devmod.DeviceNotFoundError, lambda: devmod.bundle(wide)["fill"](x, grid=1, block=32)
        )
        == f"no candidate of the bundle can run 'fill' here:\n  1. rocm/hsaco for gfx1100: {lacking}"
    )
