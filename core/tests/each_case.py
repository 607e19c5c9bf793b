"""Many cases in one test: pytest takes longer to collect a test than most of them take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pytest

import devmod

Case = TypeVar("Case")
#: The most errors that are raised: a fault may have each case take long.
_MAX_ERRORS = 10


def check_each(cases: Iterable[Case], check: Callable[[Case], object]) -> None:
    """Call `check` with each case, and raise the first errors, with a note of the case of each."""
    number = 0
    errors: list[BaseException] = []
    for case in cases:
        number += 1
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in the case {case!r}")
            errors.append(error)
            if len(errors) == _MAX_ERRORS:
                break
    assert number, "there is no case"
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of the first {number} cases", errors)


def some(items: Iterable[Case]) -> list[Case]:
    """Return the items, and fail if there are none: `all` and a loop then check nothing."""
    found = [*items]
    assert found, "there is nothing to check"
    return found


def error_of(call: Callable[..., object], *args: Any, **named: Any) -> Any:
    """Return the error that a call raises: one of devmod, or of a wrong value."""
    with pytest.raises((devmod.DevmodError, ValueError)) as caught:
        call(*args, **named)
    return caught.value


def check_errors(cases: Mapping[str, Any], act: Callable[[Any], object]) -> None:
    """Check that `act` raises an error with each text, and its notes, for the value beside it."""

    def check(case: tuple[str, Any]) -> None:
        error = error_of(act, case[1])
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        assert text == case[0], text

    check_each(cases.items(), check)


def check_texts(cases: Mapping[str, Any], text_of: Callable[[Any], str], start: str = "") -> None:
    """Check that `text_of` returns each text, behind `start`, for the value beside it."""

    def check(case: tuple[str, Any]) -> None:
        text = text_of(case[1])
        assert text == start + case[0], text

    check_each(cases.items(), check)


def raised(error: type[Exception], call: Callable[..., object], /, *args: Any, **named: Any) -> Any:
    """Return the error of a type that a call raises."""
    with pytest.raises(error) as caught:
        call(*args, **named)
    return caught.value


def refusal(
    error: type[Exception], call: Callable[..., object], /, *args: Any, **named: Any
) -> str:
    """Return the text of the error of a type that a call raises."""
    return str(raised(error, call, *args, **named))
