"""The text of a shader: its defines and its includes in one file, and a compiler's messages mapped
back to the user's files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devmod_targets._included import unresolved_names
from devmod_targets._text import define_lines
from devmod_targets.authoring import CompileRequest, Inliner, line_directive
from devmod_targets.authoring._types import Messages

if TYPE_CHECKING:
    from collections.abc import Mapping


_LINE_END = r"(?:\r\n?|\n)"
#: A blank, a joined line or a comment, also one without an end.
_BLANK = rf"(?:[ \t\v\f]|\\{_LINE_END}|/\*(?s:.*?)(?:\*/|\Z))"
_LINECOMMENT = rf"(?://(?:[^\r\n\\]|\\{_LINE_END}?)*)"
#: The start of a GLSL source up to the end of its directive #version.
_VERSION_LINE = re.compile(
    rf"(?>(?:{_BLANK}|{_LINECOMMENT}|[\r\n])*)\#(?>{_BLANK}*)version\b(?>(?:{_BLANK}|{_LINECOMMENT}|[^\r\n])*)(?:{_LINE_END}|\Z)"
)
#: The messages of compilers: glslang prints the severity first, shaderc and dxc print the location
#: first.
_SEVERITY_FIRST = r"(?P<severity>ERROR|WARNING): (?:(?P<file>[^:\n]*):(?P<line>\d+): )?(?P<text>.*)"
_PLACE_FIRST = (
    r"(?P<file>[^:\n]*):(?P<line>\d+):(?:\d+:)? (?P<severity>error|warning): (?P<text>.*)"
)
_COUNTED = r"(?:\d+ (?:compilation )?errors?\b.*|'' : compilation terminated|SPIR-V is not generated.*)\s*$"


def text_with_defines(text: str, defines: Mapping[str, str | None]) -> str:
    """Return a GLSL source with its defines as lines after ``#version``, before which no other
    directive is valid.
    """
    if not defines:
        return text
    head = ""
    match = _VERSION_LINE.match(text)
    if match:
        head = match[0]
    number = len(re.findall(_LINE_END, head)) + 1
    return f"{head}\n{define_lines(defines)}#line {number}\n{text[len(head) :]}"


class Files:
    """The source with its includes embedded.

    GLSL's ``#line`` takes a file number, so each file has one.

    Attributes
    ----------
    file, text
        The name and the text of the file.
    sources
        The name of each source file to the SHA-256 of its text.
    files
        The value for `Payload`.
    """

    def __init__(self, request: CompileRequest) -> None:
        self.file = "source.comp"
        directive = self._numbered
        if request.language == "HLSL":
            self.file = "source.hlsl"
            directive = line_directive
        self._names = [request.name]
        inliner = Inliner(request, request.defines, directive)
        self.text = inliner.inline(request.text)
        self.sources = inliner.sources
        self.files = inliner.files | unresolved_names(self.text)

    def _numbered(self, number: int, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        return f"#line {number} {self._names.index(name)}\n"

    def messages(self, output: str) -> Messages:
        """Return the errors and the warnings in a compiler's output, each in the form ``k.comp:3:
        error: …``.
        """
        errors: list[str] = []
        warnings: list[str] = []
        for line in output.splitlines():
            match = re.match(_SEVERITY_FIRST, line) or re.match(_PLACE_FIRST, line)
            if not match or re.match(_COUNTED, match["text"]):
                continue
            severity = match["severity"].lower()
            message = f"{severity}: {match['text'].strip()}"
            if match["line"]:
                message = f"{self._name(match['file'])}:{match['line']}: {message}"
            if severity == "error":
                errors.append(message)
            else:
                warnings.append(message)
        return errors, warnings

    def _name(self, file: str) -> str:
        if file.isdigit() and int(file) < len(self._names):
            return self._names[int(file)]
        if file == self.file:
            return self._names[0]
        return file
