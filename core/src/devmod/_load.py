"""From a claim to the object that it names: importing it, and checking that it is what its group's entries are."""

from __future__ import annotations

import sys

from devmod.errors import said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._registry import Claim
    from devmod.errors import PluginError

_FUNCTION = type(lambda: None)
_VARARGS = 0x04  # inspect.CO_VARARGS


def load(claim: Claim) -> object:
    """The object that a claim names, imported and checked.

    Raises
    ------
    PluginError
        It is broken; the cause is chained. The next call tries again.
    """
    from devmod._registry import CORE

    if claim.problem:
        from devmod._refusals import unusable

        raise unusable(claim, claim.problem)
    module, _, attribute = claim.value.partition("[")[0].partition(":")
    module, attribute = module.strip(), attribute.strip()
    # pluggy's plugins are modules as often as objects; in the other groups a module could not be what is wanted.
    attributes = attribute.split(".") if attribute or claim.group != "devmod.hooks" else []
    if not all(part.isidentifier() for part in (*module.split("."), *attributes)):
        raise _broken(claim, f"its entry is {claim.value!r}, which is not of the form 'module:attribute'")
    from devmod._log import debug

    debug(f"{claim.key} is {claim.value} of {claim.who}")  # before its import, which may end the process
    found = _imported(claim, module)
    at = module
    for part in attributes:
        try:
            found = getattr(found, part)
        except Exception as error:
            raise _broken(claim, f"its entry is {claim.value!r}, and {at} has no {part!r} ({said(error)})") from error
        at += f".{part}"
    check(claim, found)
    if claim.distribution not in ("", CORE):
        from devmod._exit import watch

        watch(claim, module)
    return found


def check(claim: Claim, found: object) -> None:
    """PluginError unless `found` is what an entry of its group must be: a plugin is checked before it is used."""
    wrong = _wrong(claim, found)
    if wrong:
        raise _broken(claim, wrong)


def _imported(claim: Claim, module: str) -> object:
    from devmod._registry import STARTED

    # Python keeps the listing of each folder; one that has changed within its clock's tick would hide the new module.
    late = claim.changed > STARTED
    if late:
        _forget_listings()
    while True:
        try:
            return _import(module)
        except (Exception, SystemExit) as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}.")
            if missing and not late:
                late = True
                _forget_listings()
                continue
            from devmod import _refusals

            if missing and _refusals.is_editable(claim) and claim.changed > _refusals.process_started(STARTED):
                raise _refusals.restart(claim, module) from error
            if _refusals.lacks_name_of_core(error):
                raise _refusals.other_core(claim, f"importing {module} failed ({said(error)})") from error
            raise _broken(claim, f"importing {module} failed ({said(error)})") from error


def _import(module: str) -> object:
    """Import a module and those above it. When its import fails in another thread, this one's turn comes: all get the cause."""
    found: object = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        while True:
            # Python hands a thread that waited the very module whose import failed, and says nothing.
            found = __import__(name, fromlist=("__name__",))
            if sys.modules.get(name) is found:
                break
    return found


def _broken(claim: Claim, why: str) -> PluginError:
    from devmod._refusals import broken

    return broken(claim, why)


def _forget_listings() -> None:
    import importlib

    importlib.invalidate_caches()


def _wrong(claim: Claim, found: object) -> str:
    from devmod._registry import GROUPS

    what = claim.value if claim.distribution else "the object"
    if claim.group == "devmod.targets":
        from devmod.targets import TargetSpec

        if not isinstance(found, TargetSpec):
            return f"{what} is of type {type(found).__name__}, not a devmod.TargetSpec"
        return "" if found.kind == claim.name else f"{what} is the TargetSpec of the kind {found.kind!r}"
    arguments = GROUPS[claim.group]
    if arguments is None:
        return f"{what} is None" if found is None else ""
    call = f"f({', '.join(arguments)})"
    if not callable(found):
        return f"{what} is of type {type(found).__name__} and cannot be called; it is called as {call}"
    if type(found) is _FUNCTION and not _takes(found, len(arguments)):
        return f"{what} cannot be called as {call}"
    return ""


def _takes(function: object, count: int) -> bool:
    """Whether a plain function can be called with that many positional arguments. By its code: inspect is slow to import."""
    code = function.__code__  # type: ignore[attr-defined]
    required = code.co_argcount - len(function.__defaults__ or ())  # type: ignore[attr-defined]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return (
        required <= count
        and (count <= code.co_argcount or bool(code.co_flags & _VARARGS))
        and set(named) <= set(function.__kwdefaults__ or ())  # type: ignore[attr-defined]
    )
