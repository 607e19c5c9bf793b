"""Memory of a device, as kernels and copies take it."""

from __future__ import annotations


class Memory(int):
    """An address in a device's memory, which keeps its allocation alive.

    It is an int, so that ``struct.pack`` writes it into a parameter block without a call of Python.
    """

    owner: object

    def __new__(cls, address: int, owner: object) -> Memory:
        """Return the memory at `address`; `owner` is the object that frees the allocation."""
        memory = super().__new__(cls, address)
        memory.owner = owner
        return memory
