"""What devmod does for naga, the compiler of wgpu: it limits the nesting of a text, and turns a
report into a message.

Compilers recurse on nested constructs, and a stack overflow of naga ends the process.
"""

from __future__ import annotations

import re

from devmod_readers.wgsl._tokens import NUMBER, Source, Token, tokens

#: The limit on nested brackets. naga uses about 4 KB of stack for each level, and a thread has at
#: most 8 MB.
MAX_NESTED = 255
#: The limit on the operators, members and indices of one expression, and on the branches of one if.
MAX_CHAINED = 2000

_OPEN, _CLOSE = "([{", ")]}"
_OPERATORS = "+-*/%&|^!~.=>"


def check_depth(text: str, name: str) -> None:
    """Raise CompileError for a text on which compilers recurse too deeply.

    The counted depth is at least the recursion depth of a parser, for any text. Small texts are
    accepted by character counts alone.

    Parameters
    ----------
    text, name
        The text, and its name in messages.

    Raises
    ------
    CompileError
        The text is nested too deeply, or a large text contains an invalid token. The message
        contains line and column.
    """
    nested = sum(map(text.count, "([{<"))
    if (
        nested <= MAX_NESTED
        and nested + text.count("else") + sum(map(text.count, _OPERATORS)) <= MAX_CHAINED
    ):
        return
    source = Source(text, name)
    found_tokens = tokens(source)
    # For each open bracket: its operators since the last comma, its "else if", and its "<" that may
    # open a template list.
    operators, branches, angles = [0], [0], [0]
    depth = chain = 0
    for number, token in enumerate(found_tokens[:-1]):
        word = token.text
        if token.kind == NUMBER:
            continue
        if word in _OPEN:
            if word == "{":  # an expression contains no brace
                chain -= operators[-1]
                depth -= angles[-1]
                operators[-1] = angles[-1] = 0
            else:
                operators[-1] += 1
                chain += 1
            operators.append(0)
            branches.append(0)
            angles.append(0)
            depth += 1
        elif word in _CLOSE:
            if len(operators) > 1:
                chain -= operators.pop() + branches.pop()
                depth -= angles.pop() + 1
        elif word in (",", ";"):
            chain -= operators[-1]
            operators[-1] = 0
            if word == ";":
                depth -= angles[-1]
                angles[-1] = 0
        elif word == "else":
            more = found_tokens[number + 1].text == "if"
            chain += 1 if more else -branches[-1]
            branches[-1] = branches[-1] + 1 if more else 0
        elif word == "<" and not _joins(found_tokens, number):
            angles[-1] += 1
            depth += 1
        elif word in _OPERATORS or word == "<":
            if word == ">" and angles[-1]:
                angles[-1] -= 1
                depth -= 1
            operators[-1] += 1
            chain += 1
        if depth > MAX_NESTED:
            raise source.error(
                token.at,
                f"brackets are nested more than {MAX_NESTED} levels deep, on which compilers overflow their stack",
            )
        if depth + chain > MAX_CHAINED:
            raise source.error(
                token.at,
                f"one expression has more than {MAX_CHAINED} operators, on which compilers overflow their stack",
            )


def _joins(found_tokens: list[Token], number: int) -> bool:
    """Return whether this "<" is a part of "<<" or "<="."""
    at = found_tokens[number].at
    following, previous = found_tokens[number + 1], found_tokens[number - 1]
    return (following.at == at + 1 and following.text in ("<", "=")) or (
        number > 0 and previous.at == at - 1 and previous.text == "<"
    )


# -- a report as a message


_ARROW = re.compile(r"\s*┌─ [^:\n]*:(\d+):(\d+)\s*$")
_HEADLINE = re.compile(r"^(?:Shader '.*?' parsing error: |Shader validation error: |error: )")
#: The most characters of a source line that a message shows.
_LONGEST_LINE = 160


def naga_message(report: str, name: str, text: str) -> str:
    """Turn a report of naga into a message.

    Parameters
    ----------
    report
        naga's output, as its command, wgpu and wgpu-native print it.
    name
        The source's name.
    text
        The source. Its `line_marker` comments give the user's file and line.

    Returns
    -------
    str
        The location, the error and its reasons in the first line, then the source line.
    """
    lines = report.splitlines()
    place = next((number for number, line in enumerate(lines) if _ARROW.match(line)), len(lines))
    headline = next((line.strip() for line in reversed(lines[:place]) if line.strip()), "")
    if place == len(lines):
        reported = [
            line.strip()
            for line in lines
            if line.strip() and not line.strip().startswith("In wgpu")
        ]
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
        elif line.strip().strip("│·"):
            break
    sentence = ": ".join([_HEADLINE.sub("", headline), *reasons])
    shown = [line for line in frame if line.strip()][:2]
    if any(len(line) > _LONGEST_LINE for line in shown):
        shown = []
    return "\n".join(
        [f"{Source(text, name).location_of_line(int(arrow[1]))}:{arrow[2]}: {sentence}", *shown]
    )
