"""The error for pickling an object that belongs to one process."""

from __future__ import annotations


class ProcessLocal:
    """The base of classes whose objects belong to one process. ``pickle`` and ``copy`` raise
    TypeError, which has what to pass instead.
    """

    __slots__ = ()
    #: What a program passes to the other process in place of the object.
    _pickle_advice = ""

    def __reduce__(self) -> str:
        raise TypeError(
            f"cannot pickle or copy '{type(self).__name__}' object: it belongs to this process; {self._pickle_advice}"
        )
