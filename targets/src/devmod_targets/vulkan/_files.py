"""A shader's source as one file, and the way back from a compiler's messages to the user's files."""

from __future__ import annotations

import re

from devmod.targets._includes import Inliner, line_directive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod._payload import CompileRequest

#: A compiler's message: glslang's with the severity first, shaderc's and dxc's with the place first.
_SEVERITY_FIRST = re.compile(r"(?P<severity>ERROR|WARNING): (?:(?P<file>[^:\n]*):(?P<line>\d+): )?(?P<text>.*)")
_PLACE_FIRST = re.compile(r"(?P<file>[^:\n]*):(?P<line>\d+):(?:\d+:)? (?P<severity>error|warning): (?P<text>.*)")
_COUNTED = re.compile(r"(?:\d+ (?:compilation )?errors?\b.*|'' : compilation terminated|SPIR-V is not generated.*)\s*$")


class Files:
    """The source with its includes in place.

    GLSL's ``#line`` takes numbers for files, so each has one there.

    Attributes
    ----------
    file, text
        The name and the text of that file.
    sources
        Name of each source to the SHA-256 of its text.
    """

    def __init__(self, request: CompileRequest, language: str, defines: Mapping[str, str]) -> None:
        self.file = "source.hlsl" if language == "HLSL" else "source.comp"
        self._names = [request.name]
        inliner = Inliner(
            request,
            frozenset(name.partition("(")[0] for name in defines),
            line_directive if language == "HLSL" else self._numbered,
        )
        self.text = inliner.inline(request.text)
        self.sources = inliner.sources

    def _numbered(self, number: int, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        return f"#line {number} {self._names.index(name)}\n"

    def messages(self, said: str) -> tuple[list[str], list[str]]:
        """The errors and the warnings among a compiler's lines, each as ``k.comp:3: error: …``."""
        errors: list[str] = []
        warnings: list[str] = []
        for line in said.splitlines():
            found = _SEVERITY_FIRST.match(line) or _PLACE_FIRST.match(line)
            if not found or _COUNTED.match(found["text"]):
                continue
            severity = found["severity"].lower()
            place = f"{self._name(found['file'])}:{found['line']}: " if found["line"] else ""
            (errors if severity == "error" else warnings).append(f"{place}{severity}: {found['text'].strip()}")
        return errors, warnings

    def _name(self, file: str) -> str:
        if file.isdigit() and int(file) < len(self._names):
            return self._names[int(file)]
        return self._names[0] if file == self.file else file
