"""The errors of devmod: one family, and the wording that several places share.

Every error says what failed, on which kind, distribution, function and argument, why, and what to do next. What a
message says in words stands in attributes too, for programs: ``kind``, ``key``, ``distribution``, ``function``,
``argument``, ``log``; each is ``""`` where it does not apply.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "ArgumentError",
    "CompileError",
    "ConflictError",
    "DeviceNotFoundError",
    "DevmodError",
    "FormatError",
    "FunctionNotFoundError",
    "LaunchError",
    "NotRegisteredError",
    "PluginError",
    "RuntimeNotLinkedError",
    "ToolchainNotFoundError",
]


class DevmodError(Exception):
    """The base of every error that devmod raises by its own decision.

    Parameters
    ----------
    message
        The whole text.
    kind, key, distribution, function, argument, log
        What the message is about, for programs.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        key: str = "",
        distribution: str = "",
        function: str = "",
        argument: str = "",
        log: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.key = key
        self.distribution = distribution
        self.function = function
        self.argument = argument
        self.log = log

    # KeyError prints the repr of its argument; nobody wants quotes round a sentence.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NotRegisteredError(DevmodError, RuntimeError):
    """Nothing is registered under a key: its distribution is not installed."""


class PluginError(DevmodError, RuntimeError):
    """An entry was found and is broken; the cause is chained."""


class ConflictError(PluginError):
    """Two distributions claim one key."""


class RuntimeNotLinkedError(DevmodError, RuntimeError):
    """A fallback was asked to run."""


class DeviceNotFoundError(DevmodError, RuntimeError):
    """The runtime is installed, and the driver or a device is not there."""


class CompileError(DevmodError, RuntimeError):
    """A compiler refused the source; ``log`` is what it said."""


class ToolchainNotFoundError(CompileError):
    """The compiler that a target needs is not installed."""


class FunctionNotFoundError(DevmodError, KeyError):
    """A module has no function, or no global, of that name."""


class FormatError(DevmodError, ValueError):
    """Bytes, a file or a name is not of the form that it must have."""


class LaunchError(DevmodError, RuntimeError):
    """A launch was refused by a limit of the device, or the device reported a fault."""


class ArgumentError(DevmodError, TypeError, ValueError):
    """An argument of a call is wrong; ``argument`` names it. Nothing was launched."""


# -- wording ----------------------------------------------------------------------------------------------------------


def quoted(names: Iterable[str]) -> str:
    """Names for a message: ``'a', 'b'`` in their order, cut after twelve."""
    listed = [repr(str(name)) for name in names]
    if len(listed) > 12:
        return ", ".join(listed[:12]) + f" and {len(listed) - 12} more"
    return ", ".join(listed) or "none"


def said(error: BaseException) -> str:
    """An exception's type and text on one line, as a message quotes another's: ``OSError: no libnpu.so``."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it is a stranger's class
        text = "it cannot say what is wrong"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def function_not_found(kind: str, name: str, known: Iterable[str], *, what: str = "function") -> FunctionNotFoundError:
    """The error for a name that a module does not have, with those it has and the likeliest one meant."""
    known = list(known)
    if not isinstance(name, str):
        return FunctionNotFoundError(f"the {kind} module's {what}s are named by strings, not by {type(name).__name__}", kind=kind)
    message = f"the {kind} module has no {what} {name!r}; it has: {quoted(known)}"
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    if close:
        message += f". Did you mean {close[0]!r}?"
    return FunctionNotFoundError(message, kind=kind, function=name)


def source_refused(kind: str, language: str, errors: Sequence[str], log: str) -> CompileError:
    """The error of a source in which there are errors: the first of them, how many more there are, and all that was said in `log`."""
    more = f" (and {len(errors) - 1} more in .log)" if len(errors) > 1 else ""
    return CompileError(f"the {language} source does not compile: {errors[0]}{more}", kind=kind, log=log)


def runtime_not_linked(
    kind: str, title: str, name: str, install: str, *, what: str = "function", forced: bool = False
) -> RuntimeNotLinkedError:
    """The error of a fallback that is asked for something only a runtime can give (R25). `forced`: it was not looked for."""
    if forced:
        made = "DEVMOD_COMPILE_FORCE_FALLBACK was set"
        todo = f"make it again without that, or load what it saves, where the {title} runtime is installed"
    else:
        made, todo = f"the {title} runtime was not installed", ""
    return RuntimeNotLinkedError(
        f"the {kind} {what} {name!r} cannot be used here: this module is a fallback, made while {made}. It can be inspected and saved. "
        + (f"To run it, {todo} ({install})" if todo else f"To run it: {install}"),
        kind=kind,
        function=name,
    )
