"""Slang on a device: uniform blocks of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import devmod


@pytest.mark.parametrize(
    ("type_", "count", "dtype"),
    [
        ("uint8_t", 0, "uint8"),
        ("uint16_t", 0, "uint16"),
        ("half", 0, "float16"),
        ("half", 3, "float16"),
    ],
)
def test_uniform_blocks_whose_size_is_no_multiple_of_4(
    type_: str, count: int, dtype: str, device: Any
) -> None:
    """Mesa's CPU device reads whole words."""
    member, element = (f"a[{count}]", f"a[{count - 1}]") if count else ("a", "a")
    source = (
        f"struct S {{ {type_} {member}; }}; ConstantBuffer<S> p; RWStructuredBuffer<float> y;"
        f'[shader("compute")][numthreads(1, 1, 1)] void k() {{ y[0] = float(p.{element}); }}'
    )
    try:
        f = devmod.compile(source, "vulkan", language="Slang")["k"]
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))
    value: Any = np.arange(29, 29 + (count or 1)).astype(dtype)
    for given in ({"a": value if count else value[0]}, *([_padded(f, value)] if count else [])):
        y = np.zeros(1, "float32")
        f(y=y, p=given, grid=1)
        assert y[0] == value[-1]


def _padded(f: Any, value: Any) -> Any:
    """Return a record whose elements take 16 bytes. The block ends inside the padding of the last
    one.
    """
    param = next(each for each in f.info.interface.params if each.name == "p")
    record = np.zeros((), param.dtype)
    assert (param.type, record.dtype.itemsize) == ("uint8x34", 48)
    record["a"]["value"] = value
    return record
