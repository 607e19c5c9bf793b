"""Import the object of a claim, and check that it is valid for its group."""

from __future__ import annotations

import sys

from devmod._plugins.claim import GROUPS, STARTED, Claim, Distribution, is_verify_with_kind
from devmod._util.environment import debug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from typing import Any

    from devmod.errors import PluginError

_FUNCTION = type(lambda: None)
_VARARGS = 0x04  # inspect.CO_VARARGS


def load(claim: Claim, core: Distribution) -> object:
    """Import the object of a claim, and check it. `core` is core's distribution, for the errors.

    Raises
    ------
    PluginError
        The object cannot be imported or is invalid. The cause is chained. The next call tries
        again.
    """
    if claim.problem:
        from devmod._plugins import messages

        raise messages.unusable_entry(claim, claim.problem)
    module, attributes = _parse(claim)
    # Before the import, which may crash the process.
    debug(f"{claim.key} is {claim.value} of {claim.provider}")
    result = _import_for(claim, module, core)
    at = module
    for part in attributes:
        try:
            result = getattr(result, part)
        except Exception as error:
            from devmod._plugins import messages
            from devmod.errors import describe_error

            raise broken(
                claim,
                f"its entry is {claim.value!r}, and {at} has no {part!r} ({describe_error(error)})",
                error,
            ) from error
        at += f".{part}"
    check(claim, result)
    return result


def _parse(claim: Claim) -> tuple[str, list[str]]:
    """Return the module of an entry, and the attributes that lead to its object."""
    module, _, attribute = claim.value.partition("[")[0].partition(":")
    module = module.strip()
    attributes = attribute.strip().split(".")
    form = "module:attribute"
    # A pluggy plugin may be a module, and bundles are in a package. No other group accepts a
    # module.
    if attributes == [""] and claim.group in ("devmod.hooks", "devmod.bundles"):
        attributes = []
    is_valid = all(part.isidentifier() for part in (*module.split("."), *attributes))
    if claim.group == "devmod.bundles":
        form = "package"
        is_valid = is_valid and not attributes
    if not is_valid:
        from devmod._plugins import messages

        raise messages.broken_entry(
            claim, f"its entry is {claim.value!r}, which is not of the form {form!r}"
        )
    return module, attributes


def check(claim: Claim, obj: object) -> None:
    """Raise PluginError unless `obj` is valid for the group of the claim."""
    wrong = _mismatch(claim, obj)
    if wrong:
        from devmod._plugins import messages

        raise messages.broken_entry(claim, wrong)


def _import_for(claim: Claim, module: str, core: Distribution) -> object:
    # Python caches the listing of each folder. It does not notice a new module within one tick of
    # the file system's clock.
    refreshed = claim.changed > STARTED
    if refreshed:
        _invalidate_listings()
    while True:
        try:
            return _import(module)
        except (Exception, SystemExit) as error:
            is_missing = _is_missing(error, module)
            if is_missing and not refreshed:
                refreshed = True
                _invalidate_listings()
                continue
            from devmod._plugins import messages
            from devmod.errors import ArgumentError, PluginError, describe_error

            # The errors of devmod-runtime have the next step: for an invalid DEVMOD_GUARD, and for
            # one of another version.
            if isinstance(error, ArgumentError):
                raise
            if isinstance(error, PluginError) and error.distribution:
                raise
            if is_missing and messages.is_editable(claim):
                raise messages.not_found_editable(claim, module) from error
            why = f"importing {module} failed ({describe_error(error)})"
            if messages.is_missing_core_name(error):
                raise messages.core_mismatch(claim, why, core) from error
            raise broken(claim, why, error) from error


def _is_missing(error: BaseException, module: str) -> bool:
    """Whether an import failed since the module, or a package that it is in, was not found."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return False
    return f"{module}.".startswith(f"{error.name}.")


def broken(claim: Claim, why: str, error: BaseException) -> PluginError:
    """Return the error for an entry that cannot be imported: a file of the user hides a package, or
    the distribution is broken.
    """
    from devmod._plugins import messages
    from devmod.errors import own_module

    own = own_module(error=error)
    if own:
        return messages.hidden_entry(claim, f"{why}: {own}")
    return messages.broken_entry(claim, why)


def _import(module: str) -> object:
    """Import a module and its parents. If the import fails in another thread, this thread repeats
    it, and gets the cause too.
    """
    result: object = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        while True:
            # If another thread's import fails, Python returns the incomplete module to the threads
            # that waited for it.
            result = __import__(name, fromlist=("__name__",))
            if sys.modules.get(name) is result:
                break
    return result


def _invalidate_listings() -> None:
    import importlib

    from devmod._util.imports import import_with_pathlib

    import_with_pathlib("importlib.metadata")  # Python's own finder imports it there
    importlib.invalidate_caches()


def _mismatch(claim: Claim, obj: object) -> str:
    """Return why an object is invalid for the group of the claim; "" if it is valid."""
    subject = claim.value if claim.distribution else "the object"
    kind = type(obj).__name__
    if claim.group == "devmod.targets":
        from devmod._values.spec import TargetSpec

        if not isinstance(obj, TargetSpec):
            return f"{subject} is of type {kind}, not a devmod.TargetSpec"
        if obj.kind != claim.name:
            return f"{subject} is the TargetSpec of the kind {obj.kind!r}"
        return ""
    if claim.group == "devmod.commands":
        # What click calls of a command. Only the wheel with the commands imports click.
        if not callable(getattr(obj, "make_context", None)):
            return f"{subject} is of type {kind}, not a click command"
        return ""
    if claim.group == "devmod.bundles":
        if not bundle_files(obj):
            return f"{subject} is not a package with *.devmod files"
        return ""
    if is_verify_with_kind(claim):
        return "the hook devmod_verify takes no kind. Register the object as 'devmod_verify'"

    arguments = GROUPS[claim.group]
    if arguments is None:
        if obj is None:
            return f"{subject} is None"
        return ""
    call = f"f({', '.join(arguments)})"
    if not callable(obj):
        return f"{subject} is of type {kind} and cannot be called; it is called as {call}"
    if type(obj) is _FUNCTION and not _accepts(obj, len(arguments)):
        return f"{subject} cannot be called as {call}"
    return ""


def bundle_files(package: Any) -> list[Traversable]:
    """Return the ``*.devmod`` files of a package, sorted by name; an empty list for another
    object.
    """
    if not hasattr(package, "__path__"):
        return []
    from devmod._util.imports import import_with_pathlib

    results = []
    for each in import_with_pathlib("importlib.resources").files(package).iterdir():
        if each.name.endswith(".devmod") and each.is_file():
            results.append(each)
    return sorted(results, key=lambda each: each.name)


def _accepts(function: object, count: int) -> bool:
    """Return whether a Python function accepts `count` positional arguments. inspect is slow to
    import.
    """
    code = function.__code__  # type: ignore[attr-defined]
    required = code.co_argcount - len(function.__defaults__ or ())  # type: ignore[attr-defined]
    keyword_names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return (
        required <= count
        and (count <= code.co_argcount or bool(code.co_flags & _VARARGS))
        and set(keyword_names) <= set(function.__kwdefaults__ or ())  # type: ignore[attr-defined]
    )
