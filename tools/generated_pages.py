"""The sections of docs/ that `make docs` writes from code, and the sidebar of all pages.

Only the built pages have the sections, so their pages also say how to see the same without a build.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import commands
import opencl_accuracy
import ptx_instructions
import rocm_functions
import rows

#: The section at the end of a page, by the name of the page's file in docs/.
SECTIONS: dict[str, Callable[[], str]] = {
    "command-line.md": commands.section_of_all,
    "contract.md": rows.section,
    "cuda-without-a-gpu.md": ptx_instructions.section,
    "opencl.md": opencl_accuracy.section,
    "rocm.md": rocm_functions.section,
}

# Where to change: a page of the docs
#   here: `docs/`, and a list of `docs/index.md`; a reason goes to the note of its part in
#     `docs/design/`
#   tests: `tests/test_docs.py`
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


def names() -> list[str]:
    """Return the pages with a section, which may change while the page's file does not."""
    return [name.removesuffix(".md") for name in SECTIONS]


def built(page: str, text: str) -> str:
    """Return the text of a page, with its section and the sidebar's tables of contents."""
    if page in INDEXES:
        return with_contents(text)
    section = SECTIONS.get(f"{page}.md")
    if section is None:
        return text
    return f"{text}\n{section()}"
