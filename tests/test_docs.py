"""The pages of docs/ build without a warning, their links lead somewhere, and the docstrings they show are of one form."""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import devmod
import devmod.backend
import devmod.errors
import devmod.interop.tvm
import devmod.testing

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("core/*.md"), *ROOT.glob("plugins/*/*.md"), *ROOT.glob("examples/**/*.md")]


# -- the built pages


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors |= {str(found[key]) for key in ("id", "name") if found.get(key)}
        self.links += [str(found[key]) for key in ("href", "src") if found.get(key)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` builds them: a warning is an error."""
    out = tmp_path_factory.mktemp("docs")
    line = re.search(r"-m sphinx (.*) -d build/doctrees docs build/docs\n", (ROOT / "Makefile").read_text())
    assert line, "make docs runs another command"
    command = [sys.executable, "-m", "sphinx", *line[1].split(), "-d", str(out / "doctrees"), str(DOCS), str(out / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


def test_every_link_and_anchor_of_the_built_pages_leads_somewhere(built: Path) -> None:
    pages = {path: Page(path) for path in built.rglob("*.html")}
    assert {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")} <= {path.relative_to(built) for path in pages}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue  # another site's; not fetched
            found = (path.parent / target.partition("?")[0]).resolve() if target else path
            if not found.exists() or (anchor and found in pages and anchor not in pages[found].anchors):
                broken.append(f"{path.name} → {link}")
    assert broken == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="#there">x</a><img src="b.png"></p>')
    page = Page(tmp_path / "a.html")
    assert (page.links, page.anchors) == (["#there", "b.png"], {"here"})


def test_the_api_page_has_every_public_name(built: Path) -> None:
    anchors = Page(built / "api.html").anchors
    modules = {"backend", "errors", "interop", "targets", "__version__"}
    wanted = {f"devmod.{name}" for name in devmod.__all__ if name not in modules}
    wanted |= {f"devmod.backend.{name}" for name in devmod.backend.__all__}
    wanted |= {f"devmod.testing.{name}" for name in devmod.testing.__all__}
    wanted |= {f"devmod.interop.tvm.{name}" for name in devmod.interop.tvm.__all__}
    assert sorted(wanted - anchors) == []
    assert {f"devmod.{name}" for name in devmod.errors.__all__} <= wanted


# -- the documents as they stand in the repository


def slugs(document: Path) -> set[str]:
    """The anchors that GitHub gives to the headings."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()).replace(" ", "-") for heading in headings}


def test_the_links_between_documents_lead_to_files_and_headings() -> None:
    broken = []
    for document in DOCUMENTS:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(), flags=re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
            if target.startswith(("http://", "https://")):
                continue
            found = document.parent / target if target else document
            if not found.exists() or (anchor and anchor not in slugs(found)):
                broken.append(f"{document.relative_to(ROOT)} → {target}#{anchor}")
    assert broken == []


# -- what the page of the plugins says


def code() -> str:
    """All code of core and the plugins, without the quotes and line breaks that part a message."""
    text = "".join(path.read_text() for folder in ("core/src", "plugins") for path in sorted((ROOT / folder).rglob("*.py")))
    return re.sub(r'"\s*f?"', "", text)


def rows_under(heading: str) -> list[str]:
    section = (DOCS / "plugins.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)


def test_the_messages_that_the_page_explains_are_devmods() -> None:
    said = rows_under("When something does not work")
    assert len(said) >= 10
    text = code()
    assert [words for words in said if words not in text] == []


def test_every_environment_variable_is_on_the_page() -> None:
    used = set(re.findall(r"\bDEVMOD_[A-Z]+(?:_[A-Z]+)*\b(?!_)", code()))
    assert used == set(rows_under("Environment variables"))


# -- the docstrings


SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes", "Examples")


def public() -> Iterator[tuple[str, object]]:
    """Every public object with a docstring of its own, and the public methods and properties of classes."""
    seen: set[int] = set()
    for module in (devmod, devmod.backend, devmod.testing, devmod.interop.tvm):
        for name in module.__all__:
            found = getattr(module, name)
            if id(found) in seen or inspect.ismodule(found) or isinstance(found, str):
                continue
            seen.add(id(found))
            yield f"{module.__name__}.{name}", found
            for part, value in vars(found).items() if inspect.isclass(found) else ():
                value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
                if (not part.startswith("_") or part == "__call__") and (inspect.isfunction(value) or isinstance(value, property)):
                    yield f"{module.__name__}.{name}.{part}", value


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring, with "" for what stands above the first."""
    parts = re.split(r"^(\S.*)\n(-{3,})$\n?", text, flags=re.MULTILINE)
    made = {"": parts[0]}
    for title, line, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        assert len(title) == len(line), f"the line below {title!r} is {len(line)} long"
        made[title] = body
    return made


def names_in(section: str) -> list[str]:
    found = re.findall(r"^(\S[^:\n]*?)(?: : .*)?$", section, re.MULTILINE)
    return [name.strip("* ") for line in found for name in line.split(",")]


@pytest.mark.parametrize(("name", "found"), list(public()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_public_docstring_is_numpys_and_names_the_parameters_there_are(name: str, found: object) -> None:
    text = inspect.getdoc(found)
    assert text, f"{name} has no docstring"
    summary = text.splitlines()[0]
    assert summary[0].isupper() or summary[0] in "`_'\"*", f"{name}: {summary}"
    parts = sections(text)
    assert summary.rstrip().endswith((".", ":", ";", ",")) or "\n" in parts[""], f"{name}: {summary}"
    assert list(parts) == ["", *(title for title in SECTIONS if title in parts)], (
        f"{name}: unknown sections, or in another order: {list(parts)}"
    )
    if "Parameters" in parts and not isinstance(found, property):
        taken = inspect.signature(found).parameters  # type: ignore[arg-type]
        documented = names_in(parts["Parameters"])
        assert sorted(documented) == sorted(set(taken) - {"self", "cls"}), f"{name}: documents {documented}, takes {list(taken)}"
    for error in names_in(parts.get("Raises", "")):
        assert any(hasattr(module, error) for module in (devmod, devmod.backend, builtins)), f"{name} raises {error}, which is no error"
