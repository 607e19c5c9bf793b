"""Turn a report of naga into a message."""

from __future__ import annotations

import re

_ARROW = re.compile(r"\s*┌─ [^:\n]*:(\d+):(\d+)\s*$")
_HEADLINE = re.compile(r"^(?:Shader '.*?' parsing error: |Shader validation error: |error: )")
#: The most characters of a source line that a message shows.
_LONGEST_LINE = 160


def message(report: str, name: str) -> str:
    """Return a message with location, error and reasons in the first line, then the source line.

    Parameters
    ----------
    report
        naga's output, as its command, wgpu and wgpu-native print it.
    name
        The source's name.
    """
    lines = report.splitlines()
    place = next((number for number, line in enumerate(lines) if _ARROW.match(line)), len(lines))
    headline = next((line.strip() for line in reversed(lines[:place]) if line.strip()), "")
    if place == len(lines):
        reported = [line.strip() for line in lines if line.strip() and not line.strip().startswith("In wgpu")]
        reported = [line for line in reported if line not in ("Validation Error", "Caused by:")]
        first = _HEADLINE.sub("", reported[0]) if reported else "naga reports no reason"
        return f"{name}: {first}" + "".join(f": {line}" for line in reported[1:3])
    arrow = _ARROW.match(lines[place])
    assert arrow is not None
    frame: list[str] = []
    reasons: list[str] = []
    for line in lines[place + 1 :]:
        inside = re.match(r"\s*(\d*) │(.*)$", line)
        if inside:
            frame.append(f"  {inside[2]}")
        elif line.lstrip().startswith("= "):
            reasons.append(line.lstrip()[2:].removeprefix("note: "))
        elif line.strip() and not line.strip().strip("│·"):
            continue
        elif line.strip():
            break
    sentence = ": ".join([_HEADLINE.sub("", headline), *reasons])
    shown = [line for line in frame if line.strip()][:2]
    if any(len(line) > _LONGEST_LINE for line in shown):
        shown = []
    return "\n".join([f"{name}:{arrow[1]}:{arrow[2]}: {sentence}", *shown])
