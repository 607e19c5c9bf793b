"""Read the diagnostics in NVRTC's log."""

from __future__ import annotations

import re

#: ``k.cu(3): error: identifier "x" is undefined``, with a number ``k.cu(3): warning #177-D: …``, and of the later stages
#: ``k.cu(3): Error: Formal parameter space overflowed`` and ``Warning #20208-D: …``, which has no place.
_DIAGNOSTIC = re.compile(
    r"^(?:(?P<file>.+?)\((?P<line>\d+)\): )?(?P<level>[A-Za-z ]*error|Error|[Ww]arning)(?P<number> #[\w-]+)?: (?P<text>.*)$"
)
#: ``ptxas application ptx input, line 26; error   : Not a name of any known instruction``, of an asm statement.
_ASSEMBLER = re.compile(r"^ptxas application ptx input, line (?P<line>\d+); (?P<level>fatal|error|warning)\s*: (?P<text>.*)$")
#: The last message of the assembler after an error.
_END = "Ptx assembly aborted due to errors"
#: ``ptxas error   : Entry function 'k' uses too much shared data``, ``nvrtc: error: unrecognized option --foo found``.
_TOOL = re.compile(r"^(?P<tool>\w+)\s*:?\s+(?P<level>fatal|error|warning)\s*: (?P<text>.*)$")
#: ``ptxas info    : Used 8 registers, …`` and ``ptxas         .     0 bytes stack frame, …``; ``remark: k.cu:2:18: _Z1gf not inlined …``
_REPORT = re.compile(r"ptxas +(?:info +: |\. )|remark: ")
#: The time differs between equal compiles.
_TIME = re.compile(r"ptxas info +: Compile time = ")
#: The file in which NVRTC reads name expressions.
EXPRESSIONS = "__nv_name_map"


def read_reports(log: str, title: str, *, remarks: bool = False) -> list[str]:
    """Return the report of a log below a title, or no report. It has the assembler's lines, such as the registers of each kernel.

    With `remarks`, also the lines about inlining, each once. NVRTC prints them in later compiles of a process too, without the option.
    """
    lines = [line for line in log.splitlines() if _REPORT.match(line) and not _TIME.match(line)]
    inlining = [line for line in lines if line.startswith("remark: ")] if remarks else []
    report = [*dict.fromkeys(inlining), *(line for line in lines if not line.startswith("remark: "))]
    return ["\n".join([f"{title}:", *report])] if report else []


def diagnostics(log: str, name: str = "", ptx: str = "the PTX") -> tuple[list[str], list[str]]:
    """Return the errors and the warnings of a log, each as ``file:line: error: text`` or ``file:line: warning #177-D: text``.

    Parameters
    ----------
    log
        The log.
    name
        The name of the program, for a message without a place.
    ptx
        The name of the PTX, for a message of the assembler.
    """
    errors: list[str] = []
    warnings: list[str] = []
    for line in log.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match is not None:
            place = f"{match['file']}:{match['line']}" if match["file"] else name
        else:
            match = _ASSEMBLER.match(line) or _TOOL.match(line)
            if match is None or (match["text"] == _END and errors):
                continue
            place = f"{ptx}:{match['line']}" if match.re is _ASSEMBLER else match["tool"]
        is_warning = match["level"].lower() == "warning"
        # The number of a warning is that of --diag-suppress=.
        level = f"warning{match.groupdict().get('number') or ''}" if is_warning else "error"
        (warnings if is_warning else errors).append(f"{place}: {level}: {match['text']}".removeprefix(": "))
    return errors, warnings
