"""Put a shader's source and includes into one file, and map a compiler's messages back to the user's files."""

from __future__ import annotations

import re

from devmod_targets.authoring import Inliner, line_directive
from devmod_targets.authoring._included import unresolved_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_targets.authoring import CompileRequest

#: The messages of compilers: glslang prints the severity first, shaderc and dxc print the location first.
_SEVERITY_FIRST = re.compile(r"(?P<severity>ERROR|WARNING): (?:(?P<file>[^:\n]*):(?P<line>\d+): )?(?P<text>.*)")
_PLACE_FIRST = re.compile(r"(?P<file>[^:\n]*):(?P<line>\d+):(?:\d+:)? (?P<severity>error|warning): (?P<text>.*)")
_COUNTED = re.compile(r"(?:\d+ (?:compilation )?errors?\b.*|'' : compilation terminated|SPIR-V is not generated.*)\s*$")


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

    def __init__(self, request: CompileRequest, language: str, defines: Mapping[str, str]) -> None:
        self.file = "source.hlsl" if language == "HLSL" else "source.comp"
        self._names = [request.name]
        inliner = Inliner(
            request,
            frozenset(name.partition("(")[0] for name in defines),
            line_directive if language == "HLSL" else self._numbered,
        )
        self.text = inliner.inline(request.text)
        self.sources, self.files = inliner.sources, inliner.files | unresolved_names(self.text)

    def _numbered(self, number: int, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        return f"#line {number} {self._names.index(name)}\n"

    def messages(self, output: str) -> tuple[list[str], list[str]]:
        """Return the errors and the warnings in a compiler's output, each in the form ``k.comp:3: error: …``."""
        errors: list[str] = []
        warnings: list[str] = []
        for line in output.splitlines():
            match = _SEVERITY_FIRST.match(line) or _PLACE_FIRST.match(line)
            if not match or _COUNTED.match(match["text"]):
                continue
            severity = match["severity"].lower()
            place = f"{self._name(match['file'])}:{match['line']}: " if match["line"] else ""
            (errors if severity == "error" else warnings).append(f"{place}{severity}: {match['text'].strip()}")
        return errors, warnings

    def _name(self, file: str) -> str:
        if file.isdigit() and int(file) < len(self._names):
            return self._names[int(file)]
        return self._names[0] if file == self.file else file
