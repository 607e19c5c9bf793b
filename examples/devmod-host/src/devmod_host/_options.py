"""The options that a payload may hand to the receiver's C compiler."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: What changes how code is generated, and nothing else. A C compiler has options that run programs and write files; a payload
#: from a stranger must not reach them, so what is allowed is listed, not what is forbidden.
_ALLOWED = re.compile(
    r"-O[0-3s]?|-g|-W[a-z0-9-]*|-std=(c|gnu)(99|11|17)|-march=[a-z0-9.+-]+|-mtune=[a-z0-9.+-]+|-m(avx2?|avx512f|fma|sse4\.[12])"
    r"|-f(no-)?(fast-math|finite-math-only|math-errno|trapping-math|signed-zeros|associative-math|reciprocal-math"
    r"|strict-aliasing|unroll-loops|tree-vectorize|wrapv|omit-frame-pointer)|-ffp-contract=(off|on|fast)"
)


def check_options(options: Iterable[str]) -> str:
    """What is wrong with the options, as an object of a sentence; "" where nothing is."""
    for option in options:
        if not option.startswith(("-D", "-U")) and not _ALLOWED.fullmatch(option):
            return f"the option {option!r}: of a C compiler's options it takes those for optimization, language and processor"
    return ""
