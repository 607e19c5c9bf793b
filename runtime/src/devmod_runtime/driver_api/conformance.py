"""What the conformance cases of the kinds share."""

from __future__ import annotations

from contextlib import contextmanager

from devmod import FunctionInfo, Interface, Member, Param
from devmod.backend import GRID_TAGS
from devmod_runtime.driver_api.images import LoadedImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def shift_info() -> FunctionInfo:
    """Return the kernel `shift`: a struct, a vector of three and a bool by value, and a table of constants."""
    members = [Member("amount", "int32", 0), Member("count", "int32", 4)]
    params = [
        Param("x", "buffer", "int32", "rw"),
        Param("how", "scalar", "uint8x8", align=4, members=members),
        Param("add", "scalar", "float32x3"),
        Param("twice", "scalar", "bool"),
    ]
    return FunctionInfo("shift", ["handle", "uint8x8", "float32x3", "bool"], GRID_TAGS, (), Interface(params))


def shift(x: Any, how: tuple[int, int], add: tuple[float, ...], twice: bool) -> None:
    """Compute with NumPy what the kernel `shift` computes."""
    x[: how[1]] += (how[0] + int(sum(add))) * (2 if twice else 1)
    for place in range(4):
        x[place::4] += place + 1


def shift_table() -> Any:
    """Return the bytes of the table of constants that `shift` reads."""
    import numpy as np

    return np.array([1, 2, 3, 4], "uint8")


@contextmanager
def watch_builds(on_build: Callable[[], None]) -> Iterator[None]:
    """Call `on_build` each time a driver loads an image while the body runs."""
    load = LoadedImage.__init__

    def load_and_report(image: LoadedImage, *args: Any) -> None:
        on_build()
        load(image, *args)

    LoadedImage.__init__ = load_and_report  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        LoadedImage.__init__ = load  # type: ignore[method-assign]
