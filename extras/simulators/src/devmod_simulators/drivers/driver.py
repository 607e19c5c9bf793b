"""A stand-in driver in the process of the tests: its settings, and what it has noticed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Where to change: a setting of the stand-in drivers
#   here: the C files of `extras/simulators/src/devmod_simulators/drivers/`, which read it with
#     `setting` or `setting_number`
#   also: `extras/simulators/README.md`
#   tests: `tests/test_two_places.py`
#: The settings that `StandinDriver.set` changes, with the name of the environment variable in a
#: child process.
PREFIX = "DEVMOD_STANDIN_"


class ViolationError(Exception):
    """A program has used the API in a way that has no defined result with a real driver."""


class StandinDriver:
    """The stand-in driver in this process. It has devices between `show` and `hide` alone, so that
    other tests see none.

    Parameters
    ----------
    library
        The shared library. It stays loaded: who loads it by its soname later gets this one.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._library.standin_report.restype = ctypes.c_char_p
        self._library.standin_sanitize_reports.restype = ctypes.c_char_p
        self._library.standin_last_launch.restype = ctypes.c_char_p
        self._library.standin_calls.restype = ctypes.c_uint64
        self._library.standin_launches.restype = ctypes.c_uint64
        self._library.standin_set.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self._settings: set[str] = set()
        self.hide()

    @property
    def api(self) -> ctypes.CDLL:
        """The library, for calls of the API's functions."""
        return self._library

    def set(self, name: str, value: object) -> None:
        """Set a setting of extras/simulators/README.md until `reset`. None removes it."""
        self._settings.add(name)
        self._library.standin_set(name.encode(), None if value is None else str(value).encode())

    def set_always(self, name: str, value: str) -> None:
        """Set a setting that `reset` keeps."""
        self._library.standin_set(name.encode(), value.encode())

    def reset(self) -> None:
        """Remove all settings and forget the violations."""
        for name in self._settings:
            self._library.standin_set(name.encode(), None)
        self._settings.clear()
        self._library.standin_forget()

    @property
    def failed(self) -> bool:
        """Whether a device has a sticky error."""
        return "failed" in self.report

    def settle(self) -> None:
        """Run all work that waits."""
        self._library.standin_settle()

    def sanitize_reports(self) -> list[str]:
        """Return what checks have found since the last call, each as JSON."""
        reports: bytes = self._library.standin_sanitize_reports()
        return reports.decode().splitlines()

    def forget_failures(self) -> None:
        """Forget sticky errors, as a new process would."""
        self._library.standin_forget_failures()

    def show(self) -> None:
        """Let the driver have its devices."""
        self._library.standin_set(b"hidden", None)

    def hide(self) -> None:
        """Let the driver have no device."""
        self._library.standin_set(b"hidden", b"1")

    @contextmanager
    def shown(self) -> Iterator[StandinDriver]:
        """Have devices in the body, with default settings; afterwards forget settings, violations
        and sticky errors.

        Raises
        ------
        ViolationError
            The driver has noticed violations.
        """
        self.reset()
        self.show()
        try:
            yield self
        finally:
            violations = self.violations
            self.forget_failures()
            self.reset()
            self.hide()
            self.skip_launches(False)
        if violations:
            raise ViolationError("\n".join(violations))

    def skip_launches(self, skip: bool = True) -> None:
        """Let launches return at once and do nothing."""
        self._library.standin_skip_launches(int(skip))

    @property
    def report(self) -> dict[str, int]:
        """The numbers of live objects by kind, and the blocks and bytes of memory by device."""
        pairs = (
            line.split(" ")
            for line in self._lines("")
            if not line.startswith(("violation ", "reason "))
        )
        return {name: int(value) for name, value in pairs}

    @property
    def violations(self) -> list[str]:
        """The uses of the API that have no defined result with a real driver: stale handles, double
        frees, memory out of range.
        """
        return self._lines("violation ")

    @property
    def reason(self) -> str:
        """The reason of the last error that has a text of its own: a kernel's fault, a module that
        cannot be loaded.
        """
        return self._lines("reason ")[0]

    @property
    def last_launch(self) -> dict[str, str]:
        """The last launch: ``name``, ``grid``, ``block``, ``shared`` and so on, ``params`` in
        hexadecimal.
        """
        name, *fields = self._library.standin_last_launch().decode().split(" ")
        return {"name": name, **dict(field.split("=") for field in fields)}

    @property
    def launches(self) -> int:
        """The number of launches so far."""
        return int(self._library.standin_launches())

    def calls(self, name: str) -> int:
        """Return how often a function of the API was called, by its name without a version."""
        return int(self._library.standin_calls(name.encode()))

    def _lines(self, start: str) -> list[str]:
        """Return the rests of the lines of the report that begin so."""
        report: bytes = self._library.standin_report()
        lines = report.decode(errors="replace").splitlines()
        return [line.removeprefix(start) for line in lines if line.startswith(start)]
