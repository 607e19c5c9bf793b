"""devmod's own headers of HIP, from the folder ``headers``. Every HIP source includes devmod_hip.h."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("headers")


@cache
def files() -> dict[str, str]:
    """Return the text of each header by its name in an include."""
    return {path.relative_to(_FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in sorted(_FOLDER.rglob("*.h"))}
