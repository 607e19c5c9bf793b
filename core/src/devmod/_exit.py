"""Whose it is, when a plugin raises while Python ends: nobody is left to catch it then, and Python names a file at best."""

from __future__ import annotations

import atexit
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from devmod._registry import Claim

_watched: dict[str, str] = {}


def watch(claim: Claim, module: str) -> None:
    """Remember that what raises in the package of `module`, at the interpreter's exit, is this claim's distribution."""
    package, _, rest = module.partition(".")
    while rest and getattr(sys.modules.get(package), "__file__", None) is None:  # a namespace package is several distributions'
        part, _, rest = rest.partition(".")
        package += f".{part}"
    _watched[package] = claim.who
    # The last that was registered runs first: before what the plugin has registered as it was imported.
    atexit.unregister(_tell)
    atexit.register(_tell)


def _tell() -> None:
    """From now on, a line behind Python's own report of what a plugin raised."""
    unraisable, excepted = sys.unraisablehook, sys.excepthook

    def report_unraisable(found: sys.UnraisableHookArgs, /) -> None:
        unraisable(found)
        _say(found.exc_traceback)

    def report(kind: type[BaseException], error: BaseException, at: TracebackType | None, /) -> None:
        excepted(kind, error, at)  # weakref.finalize reports here
        _say(at)

    sys.unraisablehook, sys.excepthook = report_unraisable, report


def _say(at: TracebackType | None) -> None:
    owner = ""
    while at is not None:
        name = f"{at.tb_frame.f_globals.get('__name__', '')}."
        owner = next((who for package, who in _watched.items() if name.startswith(f"{package}.")), owner)
        at = at.tb_next
    if owner and sys.stderr is not None:
        print(f"devmod: {owner} raised this while Python was ending; report it to its publisher", file=sys.stderr)
