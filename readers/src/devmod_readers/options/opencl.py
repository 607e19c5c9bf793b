"""The build options that the source of an OpenCL payload may have. Drivers take others, some of
which write files (``-save-temps=``).
"""

from __future__ import annotations

import re

__all__ = ["is_supported"]

_ALLOWED = re.compile(
    r"-[DU].*|-(?:cl|qcom)-[\w-]+(?:=[\w.+-]+)?|-w|-Werror|-g|-O[0-5]?|[A-Za-z0-9]+", re.ASCII
)


def is_supported(option: str) -> bool:
    """Return whether a source payload may have a build option."""
    return _ALLOWED.fullmatch(option) is not None
