"""Classes whose objects CPython calls without a tuple of the arguments and a dictionary of the
keywords, which take 0.1 to 0.2 µs of a call to an object with a `__call__` of Python.

Subclasses of functools.partial take both as CPython gives them to functions of Python: by its
vectorcall. From Python 3.12 on a class inherits this.
"""

from __future__ import annotations

import sys
from _weakref import ref
from functools import cache, partial
from typing import Any, Self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Py_TPFLAGS_HAVE_VECTORCALL of CPython's Include/object.h.
_HAVE_VECTORCALL = 1 << 11


class _FunctionOfCall:
    """The function of a plain call, without a reference to it: the function itself has this
    object as an argument, and a reference would make a cycle.
    """

    __slots__ = ("_attributes", "_class", "_reference")

    def __init__(self, function: Any, own: Any) -> None:
        self._attributes = function.__dict__
        self._class = own
        self._reference = ref(function)

    def __getattr__(self, name: str) -> Any:
        function = self._reference()
        if function is None:
            # The collector clears weak references before it runs finalizers, one of which calls
            # the function. Its stand-in has no code of a plain call, which it would clear.
            function = self._class.__new__(self._class)
            function.__dict__.update(self._attributes, _plain_call=None, _plain_globals=[])
        return getattr(function, name)


class CallBase(partial[Any]):
    """The base of functions, whose class can become one that is called as a partial."""

    __slots__ = ()

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        # A partial needs a function: `class_of_call` replaces it.
        return partial.__new__(cls, int)

    # Dask, asyncio and others take a partial apart, and compare the parts of two: those of
    # `class_of_call` are no call of this function.
    @property
    def func(self) -> Callable[..., Any]:
        """A function of Python that calls this one."""

        def call(*args: Any, **keywords: Any) -> Any:
            return self(*args, **keywords)

        call.__name__ = call.__qualname__ = self.__name__  # type: ignore[attr-defined]
        call.__signature__ = self.__signature__  # type: ignore[attr-defined]
        return call

    @property
    def args(self) -> tuple[Any, ...]:
        """No arguments."""
        return ()

    @property
    def keywords(self) -> dict[str, Any]:
        """No keywords."""
        return {}

    if sys.version_info >= (3, 13):

        def __get__(self, instance: object, owner: type | None = None) -> Self:
            # From Python 3.14 on, a partial in a class is a method of its objects. Python 3.13
            # warns of it.
            return self


class _PartialCall(partial[Any]):
    """The first base of a class that is called as a partial: CPython looks there alone."""

    __slots__ = ()


def class_of_call(function: Any, plain: Callable[..., Any], own: type, doc: object) -> type:
    """Return a class for one function, whose call is that of `plain` with the function.

    Parameters
    ----------
    own
        The class of the function.
    doc
        The docstring of the class, or its descriptor.
    """
    function.__setstate__((plain, (_FunctionOfCall(function, own),), {}, function.__dict__))
    names = {"__call__": partial.__call__, "__doc__": doc, "__module__": own.__module__}
    return _maker()((_PartialCall, own), names)


@cache
def _maker() -> Callable[[tuple[type, ...], dict[str, Any]], type]:
    """Return what makes a class `Function` of bases and attributes."""
    if sys.version_info >= (3, 12):
        return _new_class
    # In a debug build, a specification with this flag also needs what classes inherit.
    if hasattr(sys, "gettotalrefcount"):
        return _new_class
    try:
        import ctypes

        # Not an attribute of `pythonapi`, whose types others could set too.
        make = ctypes.pythonapi["PyType_FromSpecWithBases"]
    except (ImportError, AttributeError):  # built without libffi, or linked without symbols
        return _new_class

    # In Python 3.11 only classes of C have the flag: PyType_Spec and PyType_Slot.
    class Slot(ctypes.Structure):
        _fields_ = (("slot", ctypes.c_int), ("pfunc", ctypes.c_void_p))

    class Spec(ctypes.Structure):
        _fields_ = (
            ("name", ctypes.c_char_p),
            ("basicsize", ctypes.c_int),
            ("itemsize", ctypes.c_int),
            ("flags", ctypes.c_uint),
            ("slots", ctypes.POINTER(Slot)),
        )

    name = f"{__name__}.Function".encode()  # it warns of a name without a module
    spec = Spec(name, 0, 0, _HAVE_VECTORCALL, ctypes.pointer(Slot()))
    make.argtypes = [ctypes.POINTER(Spec), ctypes.py_object]
    make.restype = ctypes.py_object

    def make_class(bases: tuple[type, ...], names: dict[str, Any]) -> type:
        result: type = make(ctypes.byref(spec), bases)
        for each, value in names.items():
            setattr(result, each, value)
        return result

    return make_class


def _new_class(bases: tuple[type, ...], names: dict[str, Any]) -> type:
    return type("Function", bases, {"__slots__": (), **names})
