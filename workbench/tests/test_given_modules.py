"""`devmod.bench`, `explain`, `tune` and `verify` of what is no module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from candidates import INFO, loaded, ptx
from each_case import check_texts, refusal

import devmod


class Toy:
    """A function, as of a runtime."""

    name = "f"
    info = INFO

    def __call__(self) -> None: ...

    def __repr__(self) -> str:
        return "<Function f>"


CALLERS = ("bench", "explain", "tune", "verify")


def test_a_path_or_a_function_in_place_of_a_module() -> None:
    module = loaded(ptx("sm_75"))
    function = Toy()
    cases: dict[str, tuple[Any, ...]] = {}
    for caller in CALLERS:
        expected = f"{caller}: expected a module, as of devmod.load, got "
        path = f". To open a file: {caller}(devmod.load('k.devmod'))"
        cases[f"{expected}'k.devmod'{path}"] = (caller, "k.devmod")
        cases[f"{expected}{Path('k.devmod')!r}{path}"] = (caller, Path("k.devmod"))
        cases[f"{expected}None"] = (caller, None)
        name = f". Pass the module, and the name of the function: {caller}(module, 'f')"
        cases[f"{expected}{function!r}{name}"] = (caller, function)
        text = f"{caller}: expected the name of a function, got {function!r}. Pass 'f'"
        cases[text] = (caller, module, function)
    cases["bench: expected a module, as of devmod.load, got 3"] = ("bench", {"a": 3})
    for caller in ("bench", "verify"):
        text = f"{caller}(arguments): expected a mapping of names to values, got [1]"
        cases[text] = (caller, module, "f", [1])

    def text_of(case: tuple[Any, ...]) -> str:
        caller, *given = case
        text: str = refusal(devmod.ArgumentError, getattr(devmod, caller), *given)
        return text

    check_texts(cases, text_of)
