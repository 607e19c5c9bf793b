"""Launches of `devmod run` and `devmod bench` in another process: a kernel that writes far outside
ends its process, or hangs it.
"""

from __future__ import annotations

import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from traceback import format_exception
from typing import Any

from devmod import Module
from devmod._cli._describe import open_file
from devmod._plugins.registry import local_kinds
from devmod.backend import walk
from devmod.commands import STDIN, error_text, show_warning, standard_input
from devmod.errors import CompileError
from devmod.worker import End, answer_items, answers

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


def file_settings(files: Sequence[str]) -> dict[str, Any]:
    """Return the settings for files, "-" for standard input: the other process has another one."""
    stdin = ""
    if STDIN in files:
        stdin = b64encode(standard_input()).decode()
    return {"files": files, "stdin": stdin}


def open_modules(settings: Mapping[str, Any]) -> dict[str, Module]:
    """Return the modules of the files of `file_settings` by their names."""
    return {each: open_file(each, b64decode(settings["stdin"]))[1] for each in settings["files"]}


def launched(
    launcher: str, items: Sequence[Any], seconds: float | None, settings: Mapping[str, Any]
) -> Iterator[tuple[Any, End | None]]:
    """Yield the result of each item as `devmod.worker.answers` does, or raise an error that has the
    text of the other process's.

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
    settings = {**settings, "launcher": launcher}
    kinds = local_kinds()
    is_here = False
    if kinds:
        for module in open_modules(settings).values():
            is_here |= any(each.kind in kinds for each in walk(module))
    for answer, end in answers(
        __name__, items, _launcher(settings), seconds, here=lambda _: is_here, settings=settings
    ):
        if end is None and "error" in answer:
            error = CompileError(answer["error"], log=answer["log"])
            error.add_note(answer["traceback"])
            raise error
        yield answer and answer["value"], end


def main(request: dict[str, Any]) -> None:
    """Answer in the new process with the result of each item, or with its error. Warnings are
    printed.
    """
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = show_warning
    launch = _launcher(request)

    def answer(item: Any) -> dict[str, Any]:
        try:
            return launch(item)
        except BaseException as error:  # noqa: BLE001 - a driver or a plugin may raise any, and the command prints it
            text, log = error_text(error)
            return {
                "error": text,
                "log": log,
                "traceback": "".join(format_exception(error)).rstrip(),
            }

    answer_items(request, answer)


def _launcher(settings: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """Return the function of the items. Its module, which imports NumPy, is imported where it
    launches.
    """
    find = cache(lambda: import_module(settings["launcher"]).launcher(settings))
    return lambda item: {"value": find()(item)}


def describe_launch(end: End, advice: str) -> str:
    """Return how a launch ended, the likely cause, and the next step."""
    cause = _CAUSES.get(end.code, "The driver or the kernel ended it")
    return f"its launch {end}. {cause}. {advice}"
