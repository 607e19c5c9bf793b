"""The modules of naga_oil, as in bevy: ``#define_import_path a::b`` and ``#import a::b::{c, d as e}``. docs/webgpu.md has the rules.

The program gets the declarations of other files that it uses, directly or by one of them. A declaration keeps its name, unless the name
means something else in another file: it then gets a new one, which no file has. So a local variable that is renamed with it stays the same.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from devmod_readers.wgsl import LINE_BREAKS, NAME, line_marker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PATH = rf"{NAME}(?:::{NAME})*"
_COMMENT = re.compile(r"/\*|\*/")
_PART = re.compile(rf"//[^{LINE_BREAKS}]*|/\*|{_PATH}|\.?\d[\w.]*|\s+|.", re.DOTALL)
#: The end of a line.
BREAK = re.compile(rf"\r\n|[{LINE_BREAKS}]")
_IMPORT = re.compile(rf"{NAME}|::|\S")
_MARKER = re.compile(r'//#line (\d+) "(.*)"')
#: The limit on the braces within each other in an import.
_MAX_NESTING = 64
#: The attributes whose arguments are no names of declarations.
_CONTEXTS = ("builtin", "interpolate", "diagnostic")
_NAMED = ("fn", "struct", "var", "const", "override", "alias")
_FIRST = ("enable ", "requires ", "diagnostic ")


class Reference(NamedTuple):
    """A name, or a path of names, in a declaration: its place in the text, its parts, and the user's line and file."""

    start: int
    end: int
    parts: tuple[str, ...]
    line: int
    file: str


class _Declaration(NamedTuple):
    """A declaration at the level of the module. The line and the file are those of the user for the start of its text."""

    text: str
    line: int
    file: str
    references: tuple[Reference, ...]


class Module:
    """A text without directives, and what it imports.

    Attributes
    ----------
    path
        Its path, such as "a::b"; "" for the program.
    imports
        What each name in the text means, such as "a::b::c".
    declarations
        The declarations by name, and those that have none by their positions.
    """

    def __init__(self, path: str, text: str, file: str, imports: Mapping[str, str]) -> None:
        self.path, self.imports = path, imports
        self.declarations: dict[str, _Declaration] = {}
        for name, each in _declarations(text, file):
            # A second one of the name is an error of the program.
            self.declarations[name if name not in self.declarations else f"{name} {len(self.declarations)}"] = each

    def target(self, parts: tuple[str, ...]) -> tuple[str, str] | None:
        """Return the path of the module and the name that a reference means; None for a name that the text does not declare or import."""
        first = self.imports.get(parts[0])
        if first is None and len(parts) == 1:
            return (self.path, parts[0]) if parts[0] in self.declarations else None
        path, _, name = "::".join((first or parts[0], *parts[1:])).rpartition("::")
        return path, name


def read_import(text: str) -> dict[str, str]:
    """Return what the names of an import mean, from the text after ``#import``. ValueError if it is none."""
    found: dict[str, str] = {}
    prefixes, path, alias, is_alias = [""], "", "", False
    for part in [*_IMPORT.findall(text), ","]:
        if part == "{" and path.endswith("::") and len(prefixes) < _MAX_NESTING:
            prefixes.append(path)
        elif part in (",", "}"):
            if path != prefixes[-1]:
                if path.endswith("::") or is_alias or "::" not in path:
                    raise ValueError
                found[alias or path.rpartition("::")[2]] = path
            if part == "}":
                prefixes.pop()
                if not prefixes:
                    raise ValueError
            path, alias, is_alias = prefixes[-1], "", False
            continue
        elif part == "as" and path != prefixes[-1] and not path.endswith("::") and not alias:
            is_alias = True
        elif is_alias and part.isidentifier():
            alias, is_alias = part, False
        elif not alias and not is_alias and (part == "::") != (path.endswith("::") or not path) and (part == "::" or part.isidentifier()):
            path += part
        else:
            raise ValueError
    if len(prefixes) != 1 or not found:
        raise ValueError
    return found


def compose(program: Module, load: Callable[[str], Module], error: Callable[[str, int, str], Exception]) -> str:
    """Return the text of a program, followed by the declarations of modules that it uses.

    Parameters
    ----------
    program
        The program.
    load
        Returns the module of a path.
    error
        Returns the exception for a file, a line and a problem.
    """
    modules = {"": program}
    used: dict[tuple[str, str], _Declaration] = {("", name): each for name, each in program.declarations.items()}
    meanings: dict[tuple[str, tuple[str, ...]], tuple[str, str]] = {}
    pending = list(used)
    for path, name in pending:  # it grows
        for reference in used[path, name].references:
            target = modules[path].target(reference.parts)
            if target is None:
                continue
            meanings[path, reference.parts] = target
            if target in used:
                continue
            if target[0] not in modules:
                modules[target[0]] = load(target[0])
            found = modules[target[0]].declarations.get(target[1])
            if found is None:
                raise error(reference.file, reference.line, f"the module {target[0]} has no declaration {target[1]!r}")
            used[target] = found
            pending.append(target)
    words: dict[str, set[str]] = {path: set() for path in modules}
    for (path, _), each in used.items():
        words[path].update(reference.parts[0] for reference in each.references)
    names = _names([target for target in used if target[0]], modules, words)

    def renamed(path: str, each: _Declaration) -> str:
        pieces, at = [], 0
        for start, end, parts, _, _ in each.references:
            new = names.get(meanings.get((path, parts), ("", "")))
            if new is not None:
                pieces += [each.text[at:start], new]
                at = end
        return "".join(pieces) + each.text[at:]

    texts = [renamed("", each) for each in program.declarations.values()]
    for (path, _), each in used.items():
        if path:
            texts += ["\n", line_marker(each.line, each.file), renamed(path, each)]
    return "".join(texts) + "\n"


def _names(targets: list[tuple[str, str]], modules: Mapping[str, Module], words: Mapping[str, set[str]]) -> dict[tuple[str, str], str]:
    """Return the names of declarations in the program."""
    taken = set().union(*words.values())
    names: dict[tuple[str, str], str] = {}
    for path, name in targets:
        new = name
        if any(path != other and name in words[other] and modules[other].imports.get(name) != f"{path}::{name}" for other in modules):
            new = f"{path.replace('::', '_')}_{name}"
            while new in taken:
                new += "_"
            taken.add(new)
        names[path, name] = new
    return names


def _declarations(text: str, file: str) -> Iterator[tuple[str, _Declaration]]:
    """Yield the declarations of a text with their names. Their texts in a row are the text; blanks before one are a part of it."""
    line, start_line, start_file = 1, 1, file
    start = at = depth = 0
    words: list[str] = []  # the names outside of brackets and of templates
    is_template, last, context = False, "", ""
    references: list[Reference] = []
    while at < len(text):
        match = _PART.match(text, at)
        assert match is not None
        part, begin = match[0], at
        at = match.end()
        if part == "/*":
            at = end_of_comment(text, begin)  # the preprocessor has found it
            part = text[begin:at]
        if part.startswith(("//", "/*")) or part.isspace():
            marker = _MARKER.match(part)
            line, file = (int(marker[1]) - 1, marker[2]) if marker else (line + len(BREAK.findall(part)), file)
            continue
        depth += (part in "([{") - (part in ")]}") if len(part) == 1 else 0
        is_name = part[0].isidentifier()
        if is_name and last == "@":
            context = part
        elif is_name and last != "." and not (context in _CONTEXTS and depth):
            is_member = words[:1] == ["struct"] and depth == 1 and re.match(r"\s*:(?!:)", text[at : at + 100])
            if not is_member:
                references.append(Reference(begin - start, at - start, tuple(part.split("::")), line, file))
            if not depth and not is_template:
                words.append(part)
        elif part == ")":
            context = ""
        is_template = (is_template or (part == "<" and words == ["var"])) and part != ">"
        last = part
        if depth == 0 and part in (";", "}"):
            yield _name_of(words, start), _Declaration(text[start:at], start_line, start_file, tuple(references))
            start, start_line, start_file, words, references, context = at, line, file, [], [], ""
    if start < len(text):
        yield f"{start}", _Declaration(text[start:], start_line, start_file, tuple(references))


def _name_of(words: list[str], start: int) -> str:
    """Return the name of a declaration; without one, its first word and its position, which are no name."""
    return words[1] if len(words) > 1 and words[0] in _NAMED else f"{' '.join(words[:1])} {start}"


def end_of_comment(text: str, at: int) -> int:
    """Return the end of the block comment at a position; 0 if it has none. Block comments nest."""
    depth = 0
    for mark in _COMMENT.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return 0


def check_module(module: Module, error: Callable[[str, int, str], Exception]) -> None:
    """Raise an exception for a directive of WGSL in a module, which is allowed at the start of a program alone."""
    for name, each in module.declarations.items():
        if name.startswith(_FIRST):
            place = each.references[0]
            raise error(place.file, place.line, f"the directive {place.parts[0]!r} is for the whole program: write it there, at the start")
