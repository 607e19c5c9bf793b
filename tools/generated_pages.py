"""The pages of docs/ that `make docs` writes from code, and the sidebar of all pages.

git ignores the pages, so a page that links to one also says how to see it.
"""

from __future__ import annotations

import re
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

#: The pages whose lists are the sidebar.
INDEXES = ("index", "api", "design/README")
_ENTRY = re.compile(r"^[-|] \[(.+?)\]\(([\w/-]+)\.md\)", re.MULTILINE)


def entries(text: str) -> list[tuple[str, str]]:
    """Return the pages that the list or the table of an index has, each with its text: those at
    the begin of a line.
    """
    found: list[tuple[str, str]] = _ENTRY.findall(text)
    return found


def with_contents(text: str) -> str:
    """Return an index with a table of contents of each of its sections, for Sphinx's sidebar."""
    tables = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        caption = section.partition("\n")[0]
        lines = [f"{title} <{page}>\n" for title, page in entries(section)]
        if lines:
            name = "" if caption.startswith("# ") else f":caption: {caption}\n"
            tables.append(f"\n```{{toctree}}\n:hidden:\n{name}\n{''.join(lines)}```\n")
    return text + "".join(tables)


def write_pages(folder: Path) -> None:
    """Write the pages into a folder. Leave a file with the same text, so that Sphinx does not read
    it again.
    """
    for name, page in PAGES.items():
        path = folder / name
        text = page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
