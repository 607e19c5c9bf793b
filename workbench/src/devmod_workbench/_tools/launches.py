"""Launches of `devmod run` and `devmod bench` in another process: a kernel that writes far outside
ends its process, or hangs it.
"""

from __future__ import annotations

import json
import sys
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from math import inf
from traceback import format_exception
from typing import Any, Self

from devmod import Module
from devmod._plugins.registry import local_kinds
from devmod.backend import walk
from devmod.commands import STDIN, error_text, show_warning, standard_input
from devmod.errors import ArgumentError, CompileError, DevmodError
from devmod.worker import End, Worker, answer_items, can_start_python
from devmod_workbench._cli._describe import open_file

#: What the launches of another process have in common, and the function of an item.
Settings = Mapping[str, Any]
Answer = Callable[[Any], Any]

#: What usually ends a process so, by the exit status; None: it takes too long.
_CAUSES = {
    None: "The kernel may never end",
    -4: "The kernel has an instruction that this processor does not have",
    -6: "The driver ended it after an error, or the kernel wrote over the driver's memory",
    -7: "The kernel probably accesses memory outside of its arrays",
    -8: "The kernel probably divides an integer by zero",
    -9: "The system does so when memory is short",
    -11: "The kernel probably accesses memory outside of its arrays",
}

#: The least limit in seconds for the start of a process and the first item of a `Conversation`.
_START = 120.0


def file_settings(files: Sequence[str]) -> dict[str, Any]:
    """Return the settings for files, "-" for standard input: the other process has another one."""
    stdin = ""
    if STDIN in files:
        stdin = b64encode(standard_input()).decode()
    return {"files": files, "stdin": stdin}


def open_modules(settings: Settings) -> dict[str, Module]:
    """Return the modules of the files of `file_settings` by their names."""
    return {each: open_file(each, b64decode(settings["stdin"]))[1] for each in settings["files"]}


def launched(
    launcher: str, items: Sequence[Any], seconds: float | None, settings: Settings
) -> Iterator[tuple[Any, End | None]]:
    """Yield for each item its result and None, or None and how its process ended. Raise an error
    that has the text of the other process's.

    Files with a kind that is registered in this process are used here.

    Parameters
    ----------
    launcher
        A module of which ``launcher(settings)`` returns the function of an item.
    items
        The items, of JSON's types.
    seconds
        The limit for an item, or None.
    settings
        Those of `file_settings`, and others, of JSON's types.
    """
    is_here = is_local(open_modules(settings).values())
    with Conversation(launcher, settings, seconds or inf, is_here=is_here) as conversation:
        for item in items:
            yield conversation.ask(item)


def is_local(modules: Iterable[Module]) -> bool:
    """Return whether a kind of modules is registered in this process alone."""
    kinds = {each.kind for each in walk(*modules)}
    return not kinds.isdisjoint(local_kinds())


def _value_of(answer: Mapping[str, Any]) -> Any:
    """Return the result of an answer, or raise its error."""
    if "error" not in answer:
        return answer["value"]
    error: DevmodError = CompileError(answer["error"], log=answer["log"])
    if answer["argument"]:
        error = argument_error(answer["argument"])
    error.add_note(answer["traceback"])
    raise error


def describe_argument_error(error: BaseException) -> list[str] | None:
    """Return what `argument_error` takes; None for another error."""
    if isinstance(error, ArgumentError):
        return [str(error), error.kind, error.function, error.argument, *error.keywords]
    return None


def argument_error(fields: Sequence[str]) -> ArgumentError:
    """Return the ArgumentError of another process."""
    text, kind, function, argument, *keywords = fields
    error = ArgumentError(text, kind=kind, function=function, argument=argument)
    error.keywords = keywords
    return error


class Conversation:
    """Launches in another process, one item at a time: the answers decide what the next item is.
    The end of the context ends the process.

    Parameters
    ----------
    launcher, settings
        As for `launched`.
    seconds
        The limit for an item.
    is_here
        Whether to launch in this process (`is_local`).
    captures
        Whether to print nothing of what the process prints.

    Attributes
    ----------
    first
        The item with which each process begins, and which opens what the others need; () without
        one.
    """

    def __init__(
        self,
        launcher: str,
        settings: Settings,
        seconds: float,
        *,
        is_here: bool,
        captures: bool = False,
    ) -> None:
        self.first: Sequence[Any] = ()
        self._settings = {**settings, "launcher": launcher}
        self._seconds = seconds
        self._captures = captures
        self._worker: Worker | None = None
        self._here: Answer | None = None
        if is_here or not can_start_python():
            self._here = _launcher(self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.__exit__()
            self._worker = None

    def ask(self, item: Any) -> tuple[Any, End | None]:
        """Return the result of an item and None, or None and how its process ended. The next item
        starts another process then.
        """
        if self._here is not None:
            return self._here(item), None
        items = [item]
        if self._worker is None:
            self._worker = Worker(__name__, self._settings, captures=self._captures)
            if self.first and item != self.first:
                items.insert(0, self.first)
        for each in items:
            seconds = self._seconds
            if each == self.first:
                seconds = max(seconds, _START)
            answer = self._worker.ask(each, seconds)
            if answer is None:
                end = self._worker.end_of_item(seconds)
                self.__exit__()
                return None, end
        return _value_of(answer), None


def main(request: dict[str, Any]) -> None:
    """Answer in the new process with the result of each item, or with its error. Warnings are
    printed.
    """
    request["items"] = map(json.loads, sys.stdin)
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = show_warning
    launch = _launcher(request)

    def answer(item: Any) -> Any:
        try:
            return {"value": launch(item)}
        except BaseException as error:  # noqa: BLE001 - a driver or a plugin may raise any, and the command prints it
            text, log = error_text(error)
            return {
                "error": text,
                "log": log,
                "argument": describe_argument_error(error),
                "traceback": "".join(format_exception(error)).rstrip(),
            }

    answer_items(request, answer)


def _launcher(settings: Settings) -> Answer:
    """Return the function of the items. Its module, which imports NumPy, is imported where it
    launches.
    """
    find = cache(lambda: import_module(settings["launcher"]).launcher(settings))
    return lambda item: find()(item)


def describe_launch(end: End, advice: str) -> str:
    """Return how a launch ended, the likely cause, and the next step."""
    cause = _CAUSES.get(end.code, "The driver or the kernel ended it")
    return f"its launch {end}. {cause}. {advice}"
