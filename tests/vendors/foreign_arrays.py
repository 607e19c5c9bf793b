"""Arrays of other libraries, for tests: views of devmod's arrays with the protocols of those
libraries.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
from vendor import Vendor


def collect_exports(device: Any) -> Any:
    """Collect the arrays of earlier exports, which the next export releases, and return the array
    of a new one: a free waits for streams.
    """
    gc.collect()
    array = device.zeros(1, "uint8")
    array.__dlpack__()
    gc.collect()
    return array


class Tensor:
    """An array of a library with DLPack. It is a view of one of devmod's."""

    def __init__(self, array: Any, kind: int | None = None) -> None:
        self.array = array
        self.kind = array.device.dlpack_type if kind is None else kind
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.array.device.index

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


class OldTensor(Tensor):
    """An array of a library that is older than DLPack 1."""

    def __dlpack__(self, *, stream: Any = None) -> object:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


def of_library(kind: type, library: str, array: Any, **values: Any) -> Any:
    """Return an array of a class that another library could have."""
    return type("ndarray", (kind,), {"__module__": library})(array, **values)


def check_foreign_array(vendor: Vendor, device: Any, add: Any, kind: Callable[[Any], Any]) -> None:
    """Check that a kernel uses arrays of another library, `kind(array)`, without a copy, and that a
    prepared launch keeps them.
    """
    b, c = device.from_numpy(np.ones(64, "float32")), device.zeros(64, "float32")
    root = device.from_numpy(np.arange(72, dtype="float32"))
    view = kind(root[8:])
    copies = vendor.calls("copy_to_device") + vendor.calls("copy_to_host")
    add(view, b, c, 64, grid=1, block=64)
    launch = add.bind(kind(root[:64]), b, kind(c), 64, grid=1, block=64)
    assert vendor.calls("copy_to_device") + vendor.calls("copy_to_host") == copies
    np.testing.assert_array_equal(c.numpy(), np.arange(8, 72) + 1)
    del root, view
    gc.collect()
    launch()
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)
