"""The pages of docs/ build without a warning, their links work, and public docstrings have one
form.
"""

from __future__ import annotations

import ast
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
from each_case import check_each, some

import devmod
import devmod.backend
import devmod.commands
import devmod.errors
import devmod.interop.tvm
import devmod.plugins
import devmod.targets
import devmod.worker
import devmod_conformance
import devmod_readers.amdgpu
import devmod_readers.elf
import devmod_readers.nvidia
import devmod_readers.offload
import devmod_readers.options.cuda
import devmod_readers.reflection
import devmod_readers.sources
import devmod_readers.spirv
import devmod_targets.authoring
import devmod_targets.authoring.clang
import devmod_targets.authoring.zig
import devmod_targets.cuda.nvrtc
import devmod_targets.interop.offload
import devmod_targets.interop.triton
import devmod_trust
import devmod_wgsl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tests"))

import build_pages  # noqa: E402 - a file of tools/
from devmod_workbench._cli import main  # noqa: E402
from devmod_workbench._cli._known import KNOWN  # noqa: E402
from generated_pages import INDEXES, entries  # noqa: E402 - a file of tools/
from generated_pages import SECTIONS as GENERATED  # noqa: E402

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *DOCS.rglob("*.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("*/*/README.md"),
    ROOT / "tests" / "golden" / "README.md",
    *ROOT.glob("plugins/*/*.md"),
    *ROOT.glob("extras/simulators/**/*.md"),
    *ROOT.glob("plugins/*/*/README.md"),
    *ROOT.glob("examples/**/*.md"),
]
#: The public modules.
PUBLIC = (
    devmod,
    devmod.backend,
    devmod.plugins,
    devmod.commands,
    devmod.worker,
    devmod.interop.tvm,
    devmod_targets.authoring,
    devmod_targets.authoring.clang,
    devmod_targets.authoring.zig,
    devmod_targets.cuda.nvrtc,
    devmod_targets.interop.offload,
    devmod_targets.interop.triton,
    devmod_readers.amdgpu,
    devmod_readers.elf,
    devmod_readers.nvidia,
    devmod_readers.offload,
    devmod_readers.options.cuda,
    devmod_readers.reflection,
    devmod_readers.sources,
    devmod_readers.spirv,
    devmod_wgsl,
    devmod_conformance,
    devmod_trust,
)


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module: its `__all__`, or the functions and classes that it
    defines.
    """
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return listed
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


# -- the built pages


class Page(HTMLParser):
    """The links and anchors of a page."""

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
    """Build the pages as `make docs` does: a warning is an error."""
    out = tmp_path_factory.mktemp("docs")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *build_pages.OPTIONS,
        "-d",
        str(out / "doctrees"),
        str(DOCS),
        str(out / "html"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


@pytest.mark.volume  # the build takes 30 s, and other tests compare the sources of the pages
def test_every_link_and_anchor_of_the_built_pages_works(built: Path) -> None:
    pages = {path: Page(path) for path in built.rglob("*.html")}
    assert {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")} <= {
        path.relative_to(built) for path in pages
    }
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue  # of another site; not fetched
            found = (path.parent / target.partition("?")[0]).resolve() if target else path
            if not found.exists() or (
                anchor and found in pages and anchor not in pages[found].anchors
            ):
                broken.append(f"{path.name} → {link}")
    assert broken == []


@pytest.mark.volume
def test_the_built_address_of_a_page_that_has_left_leads_to_its_content(built: Path) -> None:
    for page, target in redirects().items():
        text = (built / f"{page}.html").read_text()
        assert f'<meta http-equiv="refresh" content="0; url={target}">' in text


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="#there">x</a><img src="b.png"></p>')
    page = Page(tmp_path / "a.html")
    assert (page.links, page.anchors) == (["#there", "b.png"], {"here"})


@pytest.mark.volume
def test_the_api_pages_have_every_public_name_once(built: Path) -> None:
    found = [name for path in built.glob("api*.html") for name in Page(path).anchors if "." in name]
    assert sorted(found) == sorted(set(found))
    anchors = set(found)
    # `devmod.commands` is a module of the workbench.
    places = {devmod.commands.__name__: "devmod.commands"}
    names = {
        f"{places.get(module.__name__, module.__name__)}.{name}"
        for module in PUBLIC
        for name in public_names(module)
    }
    modules = {
        "devmod.__version__",
        *(name for name in names if inspect.ismodule(sys.modules.get(name))),
    }
    assert sorted(names - modules - anchors) == []
    assert {f"devmod.{name}" for name in devmod.errors.__all__} <= names - modules


# -- the documents in the repository


def slugs(document: Path) -> set[str]:
    """Return GitHub's anchors of the headings."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()).replace(
            " ", "-"
        )
        for heading in headings
    }


def test_links_between_documents_work() -> None:
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


def redirects() -> dict[str, str]:
    """Return the old addresses of docs/conf.py, each with its new one."""
    tree = ast.parse((DOCS / "conf.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REDIRECTS":
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError("docs/conf.py has no REDIRECTS")


def test_an_old_address_leads_to_a_section_that_exists() -> None:
    for page, target in redirects().items():
        assert not (DOCS / f"{page}.md").exists(), page
        name, _, anchor = target.partition(".html#")
        found = DOCS / f"{name}.md"
        assert found.exists(), page
        assert anchor in slugs(found), page


# -- versions that do not fit


def code() -> str:
    """Return all code of core, the readers, the build side and the plugins, without the quotes and
    line breaks inside a message.
    """
    paths = [*ROOT.glob("*/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py")]
    return re.sub(r'"\s*f?"', "", "".join(path.read_text() for path in sorted(paths)))


def test_the_page_explains_messages_that_the_code_has() -> None:
    section = (
        (DOCS / "errors.md")
        .read_text()
        .partition("## If versions do not fit\n")[2]
        .partition("\n## ")[0]
    )
    messages = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    assert len(messages) == 7
    text = code()
    # An ellipsis stands for a name.
    assert [
        each
        for each in messages
        if not re.search(r"[^\n]*?".join(map(re.escape, each.split("…"))), text)
    ] == []


# -- environment variables


READERS = {
    "environment_text",
    "environment_flag",
    "environment_items",
    "environment_paths",
    "read_number",
}


def test_the_page_has_every_environment_variable_of_devmod_and_each_is_read_by_a_function_of_core() -> (
    None
):
    read = set()
    folders = [
        *(ROOT / each / "src" for each in ("core", "compilers/targets", "extras/remote")),
        *ROOT.glob("plugins/*/src"),
    ]
    for path in [path for folder in folders for path in some(folder.rglob("*.py"))]:
        text = path.read_text()
        if not re.search(r"environ|getenv|read_number|Trial\(", text):
            continue
        tree = ast.parse(text)
        constants: dict[str, object] = {"CHECKS_VARIABLE": devmod.targets.CHECKS_VARIABLE}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                constants[ast.unparse(node.targets[0])] = node.value.value
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
                assert "DEVMOD_" not in ast.unparse(node.slice), f"{path.name}: {ast.unparse(node)}"
            if not isinstance(node, ast.Call):
                continue
            function = ast.unparse(node.func)
            if function in READERS:
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    read.add(first.value)
                elif ast.unparse(first) in constants:
                    read.add(constants[ast.unparse(first)])
            elif function == "Trial":
                read.add(f"DEVMOD_{ast.literal_eval(node.args[0]).upper()}_TRIAL")
            elif function in ("os.environ.get", "os.getenv", "os.environ.pop"):
                assert "DEVMOD_" not in ast.unparse(node.args[0]), (
                    f"{path.name}: {ast.unparse(node)}"
                )
    section = (
        (DOCS / "plugins.md")
        .read_text()
        .partition("## Environment variables\n")[2]
        .partition("\n## ")[0]
    )
    rows = re.findall(r"^\| `(DEVMOD_\w+)` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(name for name in read if name.startswith("DEVMOD_"))


# -- the pages of the commands and of the errors


def test_the_page_of_the_commands_has_each_command_with_its_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = GENERATED["command-line.md"]()
    for name in KNOWN:
        assert main([name, "--help"]) == 0
        options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
        section = page.partition(f"\n### devmod {name}\n")[2].partition("\n### ")[0]
        assert "--help" in options
        assert {
            option for option in options if not re.search(rf"`[^`]*{option}\b", section)
        } == set(), name


def test_the_page_of_errors_has_each_class_with_the_state_after_it() -> None:
    page = (DOCS / "errors.md").read_text()
    rows = re.findall(
        r"^\| \[?(\w+Error)(?:\]\(.+?\))? \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE
    )
    assert sorted(name for name, *_ in rows) == sorted(set(devmod.errors.__all__) - {"DevmodError"})
    for name, bases, _, _ in rows:
        assert bases.split(", ") == [
            base.__name__
            for base in getattr(devmod, name).__bases__
            if base is not devmod.DevmodError
        ], name


def test_the_indexes_list_every_page_once() -> None:
    listed = []
    for index in INDEXES:
        path = DOCS / f"{index}.md"
        listed += [path.parent / f"{page}.md" for _, page in entries(path.read_text())]
    pages = {*DOCS.rglob("*.md")} - {DOCS / "index.md"}
    assert sorted(listed) == sorted(pages)


# -- the words

#: What is no prose of a page: code, headings, pictures and the targets of links to other pages.
NO_PROSE = r"```.*?```|`[^`\n]*`|^#.*?$|!\[.*?\]|\]\((?!(?:docs/)?glossary\.md).*?\)"


@pytest.mark.parametrize("term", ["candidate", "payload", "fmap", "stand-in", "origin"])
def test_the_first_use_of_a_term_on_a_page_is_its_explanation_or_links_to_the_glossary(
    term: str,
) -> None:
    missing = []
    for path in {ROOT / "README.md", *DOCS.glob("*.md")} - {DOCS / "glossary.md"}:
        prose = re.sub(NO_PROSE, "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        first = re.search(rf"\b{term}s?\b(\*|\]\(\S*glossary\.md\))?", prose, re.IGNORECASE)
        if first and not first[1] and path.name != "formats.md":
            missing.append(path.name)
    assert missing == []


# -- the docstrings


SECTIONS = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
    "Notes",
    "Examples",
)


def public() -> Iterator[tuple[str, object]]:
    """Yield every public function and class once, and the public methods and properties of
    classes.
    """
    seen: set[int] = set()
    for module in PUBLIC:
        for name in public_names(module):
            found = getattr(module, name)
            if id(found) in seen or not (inspect.isclass(found) or callable(found)):
                continue
            seen.add(id(found))
            yield f"{module.__name__}.{name}", found
            for part, value in vars(found).items() if inspect.isclass(found) else ():
                value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
                if (not part.startswith("_") or part == "__call__") and (
                    inspect.isfunction(value) or isinstance(value, property)
                ):
                    yield f"{module.__name__}.{name}.{part}", value


def sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring; "" is the text before the first."""
    parts = re.split(r"^(\S.*)\n(-{3,})$\n?", text, flags=re.MULTILINE)
    made = {"": parts[0]}
    for title, line, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        assert len(title) == len(line), f"the line below {title!r} is {len(line)} long"
        made[title] = body
    return made


def names_in(section: str) -> list[str]:
    found = re.findall(r"^(\S[^:\n]*?)(?: : .*)?$", section, re.MULTILINE)
    return [name.strip("* ") for line in found for name in line.split(",")]


def test_a_public_docstring_has_numpys_form_and_the_actual_parameters() -> None:
    check_each(public(), check_docstring)


def check_docstring(named: tuple[str, object]) -> None:
    name, found = named
    text = inspect.getdoc(found)
    assert text, f"{name} has no docstring"
    summary = text.splitlines()[0]
    assert summary[0].isupper() or summary[0] in "`_'\"*", f"{name}: {summary}"
    parts = sections(text)
    assert summary.rstrip().endswith((".", ":", ";", ",")) or "\n" in parts[""], (
        f"{name}: {summary}"
    )
    assert list(parts) == ["", *(title for title in SECTIONS if title in parts)], (
        f"{name}: unknown sections, or in another order: {list(parts)}"
    )
    if "Parameters" in parts and not isinstance(found, property):
        taken = inspect.signature(found).parameters  # type: ignore[arg-type]
        documented = names_in(parts["Parameters"])
        assert sorted(documented) == sorted(set(taken) - {"self", "cls"}), (
            f"{name}: documents {documented}, takes {list(taken)}"
        )
    for error in names_in(parts.get("Raises", "")):
        module, _, error = error.rpartition(".")
        places = (
            [sys.modules[module]]
            if module
            else [devmod, devmod.backend, devmod_conformance, builtins]
        )
        assert any(hasattr(place, error) for place in places), (
            f"{name} raises {error}, which is not an exception"
        )


# -- the pictures


def test_the_pictures_show_the_version_of_the_release() -> None:
    """`make pictures` draws them anew after a change of the version."""
    shown = set()
    for path in some(sorted((DOCS / "images").glob("*.svg"))):
        text = path.read_text(encoding="utf-8").replace("&#160;", " ")
        shown |= {
            (path.name, version)
            for version in re.findall(r"\bdevmod-[a-z]+ ([0-9]+\.[0-9]+\.[0-9]+)\b", text)
        }
    assert {name for name, _ in shown} >= {"doctor.svg", "inspect.svg"}
    assert {version for _, version in shown} == {devmod.__version__}
