"""The exceptions of devmod, and functions that make the texts which several modules share.

Each text has what failed, why, and what to do. Programs read the same facts from attributes:
``kind``, ``key``, ``distribution``, ``function``, ``argument`` and ``log``. An attribute that does
not apply is ``""``.
"""

from __future__ import annotations

from devmod._util.text import escape, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The largest number of names that a message lists. A file may have a million.
MAX_LISTED = 12
#: The largest number of names that are compared with an unknown one.
MAX_COMPARED = 2000


# Where to change: an error class
#   also: `__all__` in this file; `core/src/devmod/__init__.py` (`_NAMES`); `docs/errors.md`;
#     `docs/api.md`
#   tests: `tests/test_two_places.py`, `tests/test_docs.py`, `tests/test_new_members.py`
class DevmodError(Exception):
    """Base class of devmod's exceptions.

    The text, the log and the notes may quote a file, a compiler, a driver or a plugin. This class
    escapes their control characters. A text of more than 8,000 characters is cut in the middle.

    Parameters
    ----------
    message
        The whole text.
    kind, key, distribution, function, argument, log
        The facts of the message, for programs. `log` is escaped, the others are not.

    Attributes
    ----------
    keywords : sequence of str
        The keywords of the call that the message has as Python writes them, such as "threads" of
        ``threads=64``. Who prints the message for users of another form writes these in that form.
    """

    keywords: Sequence[str] = ()

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
        if isinstance(message, str):
            message = shorten(escape(message))
        super().__init__(message)
        self.kind = kind
        self.key = key
        self.distribution = distribution
        self.function = function
        self.argument = argument
        self.log = escape(log)

    # KeyError prints the repr of its argument, with quotes. A caller may assign to `args`, so the
    # text is escaped again.
    def __str__(self) -> str:
        if not self.args:
            return ""
        return escape(str(self.args[0]))

    def add_note(self, note: str) -> None:
        """Add a note, escaped as the message is."""
        super().add_note(shorten(escape(note)))

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython prints: the caller's frames, without those inside
        devmod, which ``__traceback__`` has.
        """
        import sys
        from types import TracebackType

        frames = []
        trace = self.__traceback__
        while trace is not None and not trace.tb_frame.f_globals.get("__name__", "").startswith(
            "devmod"
        ):
            frames.append(trace)
            trace = trace.tb_next
        outer = None
        for each in reversed(frames):
            outer = TracebackType(outer, each.tb_frame, each.tb_lasti, each.tb_lineno)
        lines: list[str] = (
            sys.modules["IPython"]
            .get_ipython()
            .InteractiveTB.structured_traceback(type(self), self, outer)
        )
        return lines


class NotRegisteredError(DevmodError, RuntimeError):
    """No object is registered under a key, because its distribution is not installed."""


class PluginError(DevmodError, RuntimeError):
    """A plugin is installed and broken. The cause is chained."""


class ConflictError(PluginError):
    """Two distributions provide the same key."""


class RuntimeNotLinkedError(DevmodError, RuntimeError):
    """A fallback module cannot run, because the runtime of its kind was not installed."""


class DeviceNotFoundError(DevmodError, RuntimeError):
    """The runtime is installed, and the driver or the device is missing."""


class CompileError(DevmodError, RuntimeError):
    """A compiler rejected the source. ``log`` has the compiler's output."""


class ToolchainNotFoundError(CompileError):
    """The compiler of a target is not installed."""


class FunctionNotFoundError(DevmodError, KeyError):
    """A module has no function or global of that name."""


class FormatError(DevmodError, ValueError):
    """Bytes, a file or a name are invalid."""


class FetchError(DevmodError, OSError):
    """A bundle at a URL or in a file object cannot be read.

    Attributes
    ----------
    status : int or None
        The status of the HTTP server's answer; None if there is none.
    """

    status: int | None = None


class TrustError(DevmodError, RuntimeError):
    """A policy refuses a file: nothing of it was used."""


class LaunchError(DevmodError, RuntimeError):
    """A launch exceeds a limit of the device, or the device reported a fault."""


class DeviceMemoryError(LaunchError):
    """A device has too little free memory. Everything allocated before stays valid, and the next
    call works.

    Attributes
    ----------
    requested : int
        The requested bytes; 0 if the driver reports the failure without them.
    free : int or None
        The free bytes of the device; None if its driver does not report them.
    """

    requested: int = 0
    free: int | None = None


class GuardError(LaunchError):
    """A kernel has written outside of an array, or to one that it declares read-only, as
    `devmod.guard` found after the launch.

    `devmod.testing.assert_kernel` and the commands also raise it for results that depend on memory
    outside of the arrays.

    Attributes
    ----------
    index : int
        The first element that has changed, in the array or behind it, where it is the length or
        more. If none of them has, the last one before the array, which is negative. For a result,
        its place.
    value : object
        The value that is there, as an element of the array.
    fault : str
        "write", "read" for a result that depends on bytes outside of the arrays, or "unwritten" for
        one that depends on memory of a program that nothing wrote.
    """

    fault: str = "write"
    index: int = 0
    value: object = None


class ArgumentError(DevmodError, TypeError, ValueError):
    """An argument of a call is invalid. ``argument`` names it. Nothing was launched."""


#: The exceptions.
__all__ = [name for name, value in sorted(globals().items()) if isinstance(value, type)]


# -- texts
# --------------------------------------------------------------------------------------------------


def list_names(names: Iterable[str]) -> str:
    """Return the names for a message, ``'a', 'b'``, in their order. At most twelve are listed."""
    names = list(names)
    text = ", ".join(quote_name(str(name)) for name in names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        text += f" and {len(names) - MAX_LISTED} more"
    return text or "none"


def count_text(number: int, noun: str) -> str:
    """Return a number of things for a message: ``1 time``, ``2 times``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


def quote_name(name: str) -> str:
    """Return the repr of a name for a message. A name of more than 120 characters is cut."""
    if len(name) > 120:
        return f"{name[:100]!r}… ({len(name)} characters)"
    return repr(name)


def describe_error(error: BaseException) -> str:
    """Return an exception's type and text for a message: ``OSError: no libnpu.so``."""
    try:
        text = escape(str(error))
    except Exception:  # noqa: BLE001 - a plugin's class may raise anything
        text = "its text cannot be read"
    if not text:
        return type(error).__name__
    return f"{type(error).__name__}: {text}"


def function_not_found(
    kind: str, name: str, known: Iterable[str], *, noun: str = "function", source: str = ""
) -> FunctionNotFoundError:
    """Return the error for an unknown function. It lists the known names, and has the nearest one
    or `condition_hint`.
    """
    known = list(known)
    if not isinstance(name, str):
        return FunctionNotFoundError(
            f"the name of the {kind} {noun} is not a string: expected a str, got {type(name).__name__}",
            kind=kind,
        )
    hint = condition_hint(source, name) or did_you_mean(name, known)
    message = f"the {kind} module has no {noun} {name!r}; it has: {list_names(known)}{hint}"
    return FunctionNotFoundError(message, kind=kind, function=name)


def condition_hint(source: str, name: str) -> str:
    """Return the end of a message about a missing name, if its definition in OpenCL C depends on a
    macro of the device's compiler; else "".

    Parameters
    ----------
    source
        The program.
    name
        The kernel, function, constant or macro.
    """
    import re

    if not name.isidentifier() or name not in source:
        return ""
    # The bounds keep the work linear in the size of a stranger's text.
    definition = re.compile(
        rf"^[ \t]*#[ \t]*define[ \t]+{name}\b|(?:^|[\w*][\s*]{{1,64}}){name}[ \t]{{0,64}}(?:[(=;\[]|$)"
    )
    conditions: list[str] = []  # those that are open
    for line in source.splitlines():
        directive = re.match(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b", line)
        if directive:
            if directive[1] in ("elif", "else", "endif") and conditions:
                conditions.pop()
            if directive[1] in ("if", "ifdef", "elif"):
                conditions.append(line.strip())
            elif directive[1] != "endif":
                conditions.append("")  # no definition of a macro compiles such a branch
        elif definition.search(line):
            hint = _branch_hint(name, conditions)
            if hint:
                return hint
    return ""


def _branch_hint(name: str, conditions: Sequence[str]) -> str:
    """Return the end of a message about a definition in branches, if the innermost that depends on
    a macro of the device's compiler has one; else "".
    """
    import re

    for condition in reversed(conditions):
        positive = re.sub(r"!\s*defined\s*\(?\s*\w+", "", condition)
        macro = re.search(r"(?<![!\w])(?:cl|__opencl_c)_\w+", positive)
        if macro:
            return (
                f". {name!r} is in a branch of {condition!r}, and each device's compiler has its own macros: "
                f"defines={{{macro[0]!r}: 1}} compiles the branch"
            )
    return ""


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the end of a message with the known name nearest to another, in any case; "" if none
    is as near as `cutoff` (at most 1).
    """
    from difflib import get_close_matches
    from itertools import islice

    names = {each.lower(): each for each in islice(known, MAX_COMPARED)}
    close = get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    if not close:
        return ""
    return f". Did you mean {names[close[0]]!r}?"


def compile_error(kind: str, language: str, errors: Sequence[str], log: str) -> CompileError:
    """Return the error for a source that does not compile: its first error and the number of
    others. `log` has the compiler's output.
    """
    text = f"the {language} source does not compile: {errors[0]}"
    if len(errors) > 1:
        text += f" (and {len(errors) - 1} more in .log)"
    return CompileError(text, kind=kind, log=log)


def with_log(message: str, log: str) -> str:
    """Return the text of a CompileError with the compiler's output below it. The message's
    quotation of the output is left out.
    """
    log = log.strip()
    if log in message:
        return message
    for line in map(str.strip, log.split("\n")):
        if line and f": {line}" in message:
            quoted = line
            break
    else:
        return f"{message}\n{log}"
    head, _, tail = message.partition(f" {quoted}")
    tail = tail.removeprefix(". ")
    if not tail or tail.startswith(" (and "):
        return f"{head}\n{log}"
    return f"{head}\n{log}\n{tail}"


def own_module(*names: str, error: BaseException | None = None) -> str:
    """Return the sentences about a file of the user that hides an installed package by its name; ""
    if there is none.

    Parameters
    ----------
    names
        Modules of packages that cannot be imported.
    error
        The exception of an import. The modules that it and its causes name are examined too.
    """
    import sys

    found = list(names)
    while error is not None:
        if isinstance(error, ImportError):
            found.append(error.name or "")
        elif isinstance(error, AttributeError) and isinstance(error.obj, type(sys)):
            found.append(error.obj.__name__)
        error = error.__cause__ or error.__context__
    for top in dict.fromkeys(name.partition(".")[0] for name in found if name):
        path = _hiding_file(top)
        if path:
            return f"the file {path!r} hides the installed package {top!r}. Rename the file"
    return ""


def _hiding_file(package: str) -> str:
    """Return the file that is imported in place of an installed package; "" if there is none."""
    import os
    import sys
    from importlib.machinery import PathFinder

    specs = []
    for entry in dict.fromkeys(os.path.abspath(each) for each in sys.path if isinstance(each, str)):
        spec = PathFinder.find_spec(package, [entry])
        if spec is not None:
            specs.append(spec)
    if len(specs) < 2 or not specs[0].origin:
        return ""
    path = specs[0].origin
    folder = os.path.dirname(path)
    if specs[0].submodule_search_locations:
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return ""
    # A folder of installed packages hides none by mistake.
    for name in os.listdir(folder):
        if name.endswith((".dist-info", ".egg-info")):
            return ""
    return path


def pip_install(*words: str) -> str:
    """Return pip's command for distributions and options: ``pip install "devmod-core[build]"``. A
    distribution with an extra is quoted.
    """
    command = "pip install"
    for word in " ".join(words).split():
        if "[" in word:
            word = f'"{word}"'
        command += f" {word}"
    return command


# Where to change: the text of an error for a runtime or another wheel that is not installed
#   here: `not_installed`, `pip_install`; `runtime_not_linked` for the text of a fallback;
#     `core/src/devmod/_plugins/miss.py` (`not_registered`) for a kind that is not registered;
#     `core/src/devmod/__init__.py` (`_runtime`) for devmod-runtime itself
#   tests: `core/tests/test_create.py`, `core/tests/test_registry.py`, `tests/test_clean_install.py`
def not_installed(subject: str, distribution: str, *modules: str) -> str:
    """Return the sentences about a missing distribution or program, with the command that installs
    it.

    `distribution` is what pip installs, such as "devmod-core[build]". `modules` are the missing
    modules. If a file of the user hides one, the sentences name that file.
    """
    own = own_module(*modules)
    if own:
        return f"{subject} cannot be imported: {own}"
    return f"{subject} is not installed. To add it: {pip_install(distribution)}"


def fallback_cause(runtime: str, variable: str, excluded: str) -> str:
    """Return why a fallback was made: its runtime was not installed, or an environment variable
    excluded it.
    """
    if excluded:
        return f"{variable} excluded {excluded}"
    if variable:
        return f"{variable} was set"
    return f"{runtime} was not installed"


def admission_hint(distribution: str, variable: str) -> str:
    """Return the clause with the change of DEVMOD_PLUGINS_ALLOW or DEVMOD_PLUGINS_DENY (`variable`)
    that admits a distribution.
    """
    if variable.endswith("ALLOW"):
        return f"add {distribution} to {variable}"
    return f"remove {distribution} from {variable}"


def runtime_not_linked(
    kind: str,
    title: str,
    name: str,
    install: str,
    *,
    noun: str = "function",
    variable: str = "",
    excluded: str = "",
) -> RuntimeNotLinkedError:
    """Return the error for a function or a global of a fallback (R25).

    Parameters
    ----------
    kind, title, install
        The kind, its title in messages, and the command that installs its runtime.
    name, noun
        The requested name, and whether it is a "function" or a "global".
    variable, excluded
        As in `devmod._modules.fallback.FallbackModule`.
    """
    runtime = f"the {title} runtime"
    if excluded:
        todo = f", {admission_hint(excluded, variable)} and make it again, or load what it saves where {excluded} may be used"
    elif variable:
        todo = f", make it again without that, or load what it saves, where {runtime} is installed ({install})"
    else:
        todo = f": {install}"
    return RuntimeNotLinkedError(
        f"the {kind} {noun} {name!r} cannot be used here: this module is a fallback, made while "
        f"{fallback_cause(runtime, variable, excluded)}. It can be inspected and saved. To run it{todo}",
        kind=kind,
        function=name,
        distribution=excluded,
    )
