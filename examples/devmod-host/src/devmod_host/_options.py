"""The options of a payload that reach the receiver's C compiler."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Options that only change the generated code. Other options of a C compiler run programs and write
#: files. The list has the allowed options, because a payload may come from an untrusted source.
_ALLOWED = re.compile(
    r"-O[0-3s]?|-g|-W[a-z0-9-]*|-std=(c|gnu)(99|11|17)|-march=[a-z0-9.+-]+|-mtune=[a-z0-9.+-]+|-m(avx2?|avx512f|fma|sse4\.[12])"
    r"|-f(no-)?(fast-math|finite-math-only|math-errno|trapping-math|signed-zeros|associative-math|reciprocal-math"
    r"|strict-aliasing|unroll-loops|tree-vectorize|wrapv|omit-frame-pointer)|-ffp-contract=(off|on|fast)"
)


def check_options(options: Iterable[str]) -> str:
    """Return the first option that is not allowed and why, for a message; "" if all are allowed."""
    for option in options:
        if not option.startswith(("-D", "-U")) and not _ALLOWED.fullmatch(option):
            return f"the option {option!r}: only options for optimization, language and processor are allowed"
    return ""
