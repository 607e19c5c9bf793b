"""The kernels compute what NumPy computes, on the devices of this machine."""

from __future__ import annotations

import numpy as np
import pytest

import devmod
import picture_kernels


def test_the_bundle_has_a_module_of_each_target() -> None:
    assert [
        (module.kind, list(module.functions)) for module in picture_kernels.kernels().imports
    ] == [
        ("opencl", ["gray"]),
        ("webgpu", ["gray"]),
    ]


@pytest.mark.parametrize("shape", [(1, 1, 4), (33, 70, 4), (0, 5, 4)])
def test_gray(shape: tuple[int, ...]) -> None:
    if not devmod.devices():
        pytest.skip("no runtime of devmod with a device is installed")
    picture = np.random.default_rng(0).integers(0, 256, shape, "uint8")
    expected = picture[..., :3] @ np.array([0.2126, 0.7152, 0.0722]) / 255
    np.testing.assert_allclose(picture_kernels.gray(picture), expected, atol=1e-6)


def test_a_picture_without_alpha_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"expected a picture of shape \(height, width, 4\) and uint8, got \(2, 2, 3\) and uint8",
    ):
        picture_kernels.gray(np.zeros((2, 2, 3), "uint8"))
