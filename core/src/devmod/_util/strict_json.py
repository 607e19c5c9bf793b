"""JSON from files of strangers: what a reader of another language would read in another way is an
error.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parse(text: str | bytes) -> Any:
    """Return the value of JSON.

    Raises
    ------
    ValueError
        The text is not JSON, is nested too deeply, has a key of a map twice, or a number that JSON
        does not have, such as NaN.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:  # its text differs by the version of Python
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in fields if names.count(key) > 1)
        raise ValueError(f"the key {twice!r:.80} is there twice")
    return fields


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
