"""The process in which `Libclang.parse` parses a program first: deep nesting overflows clang's stack, which ends the process."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from devmod.worker import answer_writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(request: dict[str, Any]) -> None:
    """Parse the program of a request, and answer if that does not end the process."""
    cindex: Any = import_module("clang.cindex")

    answer = answer_writer()
    files = [tuple(each) for each in request["files"]]
    with suppress(cindex.TranslationUnitLoadError):  # raised again in the first process
        cindex.Index.create().parse(request["main"], args=request["arguments"], unsaved_files=files, options=request["options"])
    answer(True)
