"""Forks: a driver works only in the process that opened it (docs/reliability.md).

A forked child has none of the parent's driver threads and owners of driver locks, so a call in the
child may never return. A backend calls `open_driver` before the first call of its driver. In a
forked child every launch, copy and allocation of that kind then raises LaunchError. Prepared
launches are changed at the fork, so a launch needs no check.
"""

from __future__ import annotations

import os
from _weakref import ref

from devmod.errors import DeviceNotFoundError, LaunchError, not_installed, own_module, pip_install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Lock = TypeVar("Lock")

#: The kinds whose driver this process has opened or is opening, each with the function that a
#: forked child calls.
_opened: dict[str, Callable[[], object] | None] = {}
#: The kinds whose driver was open in the parent when this process was forked.
_inherited: frozenset[str] = frozenset()
_locks: set[ref[Any]] = set()
#: Called in each forked child of a process with an open driver, when `is_inherited` is correct.
actions: list[Callable[[], object]] = []


def open_driver(kind: str, in_child: Callable[[], object] | None = None) -> None:
    """Record that this process opens the driver of `kind`. A backend calls it before the first call
    of the driver.

    Parameters
    ----------
    kind
        The backend's kind.
    in_child
        A function that each forked child calls first.

    Raises
    ------
    LaunchError
        The parent had opened the driver when this process was forked.
    """
    check_driver(kind)
    if in_child is not None or kind not in _opened:
        _opened[kind] = in_child


def check_driver(kind: str) -> None:
    """Raise LaunchError if the parent had opened the driver of `kind` when this process was
    forked.
    """
    if kind in _inherited:
        raise LaunchError(
            f"{kind} devices cannot be used in this process: it was forked after their driver was opened, and a driver works only in the "
            "process that opened it. Start processes that use devices with multiprocessing's 'spawn' or 'forkserver'",
            kind=kind,
        )


def is_inherited(kind: str) -> bool:
    """Return whether `check_driver` raises for the kind."""
    return kind in _inherited


def fork_safe(lock: Lock) -> Lock:
    """Register a lock and return it. A forked child releases it if another thread of the parent had
    acquired it.
    """
    _locks.add(ref(lock, _locks.discard))
    return lock


def _after_fork_in_child() -> None:
    global _inherited
    for reference in [*_locks]:
        lock: Any = reference()
        # A lock of this thread is released by this thread later.
        if lock is not None and not getattr(lock, "_is_owned", bool)():
            lock._at_fork_reinit()
    if _opened:
        _inherited = _inherited.union(_opened)
        own_actions = [action for action in _opened.values() if action is not None]
        _opened.clear()
        for action in actions + own_actions:
            action()
        skip_exit_handlers()


def skip_exit_handlers() -> None:
    """End this process later without the exit handlers of C libraries: a driver's would wait for
    the parent's threads, or for a kernel.

    Python's own shutdown runs as usual, and C's streams are flushed. Only glibc's ``on_exit``
    passes on the exit status.
    """
    import ctypes

    try:
        c = ctypes.CDLL(None)
        end = ctypes.cast(c._exit, ctypes.c_void_p)
        flush = ctypes.cast(c.fflush, ctypes.c_void_p)
        c.on_exit(end, None)
        c.__cxa_atexit(flush, None, None)  # registered last, called first
    except (AttributeError, OSError):
        pass


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork_in_child)


def driver_import_error(
    error: Exception,
    kind: str,
    title: str,
    package: str,
    *,
    modules: Sequence[str] = (),
    distribution: str = "",
    repair: str = "",
) -> DeviceNotFoundError:
    """Return the error of a runtime that cannot import the Python package of its driver.

    Parameters
    ----------
    error
        The exception of the import.
    kind, title, package
        The kind, its title in messages, and the package.
    modules
        The package's modules, if they have other names.
    distribution
        What pip installs for the package, if that has another name.
    repair
        The command that installs the package again. Default: pip with the package's name.
    """
    modules = modules or (package,)
    own = own_module(*modules, "numpy", error=error)
    if own:
        why = f"{package} cannot be imported: {own}"
    elif isinstance(error, ModuleNotFoundError) and error.name in modules:
        why = not_installed(package, distribution or package)
    else:
        why = f"{package} cannot be imported: {error}. To repair it: {repair or pip_install('--force-reinstall', package)}"
    return DeviceNotFoundError(f"no {title} device can be used: {why}", kind=kind)
