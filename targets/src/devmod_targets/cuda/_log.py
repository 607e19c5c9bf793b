"""Read the diagnostics in NVRTC's log."""

from __future__ import annotations

import re

#: ``k.cu(3): error: identifier "x" is undefined``, and with a number: ``k.cu(3): warning #177-D: …``.
_DIAGNOSTIC = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<level>[a-z ]*error|warning)(?: #[\w-]+)?: (?P<text>.*)$")
#: ``ptxas error   : Entry function 'k' uses too much shared data``, ``nvrtc: error: unrecognized option --foo found``.
_TOOL = re.compile(r"^(?P<tool>\w+)\s*:?\s+(?P<level>fatal|error|warning)\s*: (?P<text>.*)$")
#: The file in which NVRTC reads name expressions.
EXPRESSIONS = "__nv_name_map"


def diagnostics(log: str) -> tuple[list[str], list[str]]:
    """Return the errors and the warnings of a log, each as ``file:line: error: text``."""
    errors: list[str] = []
    warnings: list[str] = []
    for line in log.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match is None:
            match = _TOOL.match(line)
            if match is None:
                continue
            place = match["tool"]
        else:
            place = f"{match['file']}:{match['line']}"
        level = "warning" if match["level"] == "warning" else "error"
        (warnings if level == "warning" else errors).append(f"{place}: {level}: {match['text']}")
    return errors, warnings
