"""Bundles for the tests of this wheel, and a runtime that notes what it loads."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from stored import Raw

import devmod

Register = Callable[[str, str, object], None]


def noise(size: int, seed: int = 0) -> bytes:
    """Return bytes that no compression makes smaller."""
    return random.Random(seed).randbytes(size)


def bundle_of(**kinds: bytes) -> bytes:
    """Return a bundle with a candidate of each kind for the function `f`."""
    return devmod.dumps(
        devmod.bundle(
            *(Raw(kind, data, functions=("f",)) for kind, data in kinds.items()), mixed=True
        )
    )


def runtime(register: Register, kind: str) -> list[bytes]:
    """Register a runtime for a kind. Return the list of the bytes that it loads."""
    loaded: list[bytes] = []

    def load(data: memoryview) -> Any:
        loaded.append(bytes(data))
        return Raw(kind, bytes(data), functions=("f",))

    register("devmod.load_from_bytes", kind, load)
    return loaded
