"""Many cases in one test: pytest takes longer to collect a test than most of them take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

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
