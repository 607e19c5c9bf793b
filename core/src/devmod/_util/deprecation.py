"""Warnings about public names that go."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


# Where to change: to rename a parameter, or another public name that goes
#   here: the old name calls this function, and works for two more minor versions
#   also: `CHANGELOG.md`; the pages of `docs/`, which have the new name alone:
#     `git grep -lw NAME` prints the files with the old one
#   tests: `core/tests/test_deprecation.py`, `tests/test_public_names.py`
def warn_deprecated(old: str, *, new: str, removed_in: str) -> None:
    """Warn about a public name that goes, at the line of the code that uses it.

    That line is the nearest one outside of the package that calls this function, so a package may
    call it at any depth. Python shows a DeprecationWarning of a program's main file and in pytest.

    Parameters
    ----------
    old
        The name that goes: ``"pictures.smooth"``, or ``"the parameter radius of pictures.blur"``.
    new
        What takes its place.
    removed_in
        The distribution and its first version without the old name: ``"pictures 0.4"``.

    Warns
    -----
    DeprecationWarning
        Always: whoever calls this function has been called by the old name.
    """
    import warnings

    user = _user_of(sys._getframe(1))
    module = user.f_globals
    warnings.warn_explicit(
        f"{old} is deprecated and will be removed in {removed_in}. Use {new}",
        DeprecationWarning,
        user.f_code.co_filename,
        user.f_lineno,
        module=module.get("__name__", ""),
        registry=module.setdefault("__warningregistry__", {}),
    )


def _user_of(frame: FrameType) -> FrameType:
    """Return the nearest frame outside of the package of a frame, or its caller if a program is one
    package.
    """
    own = _package_of(frame)
    user = frame.f_back
    while user is not None and (_package_of(user) == own or _is_of_import(user)):
        user = user.f_back
    return user or frame.f_back or frame


def _package_of(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def _is_of_import(frame: FrameType) -> bool:
    """Return whether a frame is importlib's: ``from pictures import smooth`` calls
    ``pictures.__getattr__`` through it. Its module has one of two names.
    """
    return frame.f_code.co_filename.startswith("<frozen importlib.")
