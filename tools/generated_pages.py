"""The pages of docs/ that `make docs` writes from code. git ignores them, so a page that links to
one also says how to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import commands
import rocm_functions
import rows

#: The text of each page by the name of its file in docs/.
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands.page,
    "rocm-functions.md": rocm_functions.page,
    "rows.md": rows.page,
}


def write_pages(folder: Path) -> None:
    """Write the pages into a folder. Leave a file with the same text, so that Sphinx does not read
    it again.
    """
    for name, page in PAGES.items():
        path = folder / name
        text = page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
