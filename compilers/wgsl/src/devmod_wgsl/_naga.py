"""What devmod does for naga, the compiler of wgpu: it limits the nesting of a text, and turns a
report into a message.

Compilers recurse on nested constructs, and a stack overflow of naga ends the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from devmod_wgsl._tokens import NUMBER, Source, Token, tokens

#: The limit on nested brackets. naga uses about 4 KB of stack for each level, and a thread has at
#: most 8 MB.
MAX_NESTED = 255
#: The limit on the operators, members and indices of one expression, and on the branches of one if.
MAX_CHAINED = 2000

_OPEN = "([{"
_CLOSE = ")]}"
_OPERATORS = "+-*/%&|^!~.=>"

_ARROW = re.compile(r"\s*┌─ [^:\n]*:(\d+):(\d+)\s*$")
_HEADLINE = re.compile(r"^(?:Shader '.*?' parsing error: |Shader validation error: |error: )")
#: The most characters of a source line that a message shows.
_LONGEST_LINE = 160


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
    chained = text.count("else") + sum(map(text.count, _OPERATORS))
    if nested <= MAX_NESTED and nested + chained <= MAX_CHAINED:
        return
    source = Source(text, name)
    found_tokens = tokens(source)
    nesting = _Nesting()
    for number, token in enumerate(found_tokens[:-1]):
        if token.kind == NUMBER:
            continue
        nesting.add(found_tokens, number)
        if nesting.depth > MAX_NESTED:
            raise source.error(
                token.at,
                f"brackets are nested more than {MAX_NESTED} levels deep, on which compilers overflow their stack",
            )
        if nesting.depth + nesting.chain > MAX_CHAINED:
            raise source.error(
                token.at,
                f"one expression has more than {MAX_CHAINED} operators, on which compilers overflow their stack",
            )


class _Nesting:
    """How deep a compiler recurses at a token.

    Attributes
    ----------
    depth, chain : int
        The open brackets, and the operators and branches of the expressions in them.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.chain = 0
        # For each open bracket: its operators since the last comma, its "else if", and its "<" that
        # may open a template list.
        self._operators = [0]
        self._branches = [0]
        self._angles = [0]

    def add(self, found_tokens: list[Token], number: int) -> None:
        """Add the next token, which is not a number."""
        word = found_tokens[number].text
        if word in _OPEN:
            self._open(word)
        elif word in _CLOSE:
            self._close()
        elif word in (",", ";"):
            self._end_operators()
            if word == ";":
                self._end_angles()
        elif word == "else":
            self._branch(has_condition=found_tokens[number + 1].text == "if")
        elif word == "<" and not _joins(found_tokens, number):
            self._angles[-1] += 1
            self.depth += 1
        elif word in _OPERATORS or word == "<":
            if word == ">" and self._angles[-1]:
                self._angles[-1] -= 1
                self.depth -= 1
            self._operators[-1] += 1
            self.chain += 1

    def _open(self, bracket: str) -> None:
        if bracket == "{":
            # An expression contains no brace.
            self._end_operators()
            self._end_angles()
        else:
            self._operators[-1] += 1
            self.chain += 1
        self._operators.append(0)
        self._branches.append(0)
        self._angles.append(0)
        self.depth += 1

    def _close(self) -> None:
        if len(self._operators) > 1:
            self.chain -= self._operators.pop() + self._branches.pop()
            self.depth -= self._angles.pop() + 1

    def _end_operators(self) -> None:
        self.chain -= self._operators[-1]
        self._operators[-1] = 0

    def _end_angles(self) -> None:
        self.depth -= self._angles[-1]
        self._angles[-1] = 0

    def _branch(self, *, has_condition: bool) -> None:
        if has_condition:
            self.chain += 1
            self._branches[-1] += 1
        else:
            self.chain -= self._branches[-1]
            self._branches[-1] = 0


def _joins(found_tokens: list[Token], number: int) -> bool:
    """Return whether this "<" is a part of "<<" or "<="."""
    at = found_tokens[number].at
    following = found_tokens[number + 1]
    if following.at == at + 1 and following.text in ("<", "="):
        return True
    if not number:
        return False
    previous = found_tokens[number - 1]
    return previous.at == at - 1 and previous.text == "<"


# -- a report as a message


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
    following = iter(lines)
    headline = ""
    for line in following:
        arrow = _ARROW.match(line)
        if arrow:
            break
        headline = line.strip() or headline
    else:
        return f"{name}: {_reason_without_a_place(lines)}"

    frame, reasons = _frame(following)
    sentence = ": ".join([_HEADLINE.sub("", headline), *reasons])
    location = Source(text, name).location_of_line(int(arrow[1]))
    shown = [line for line in frame if line.strip()][:2]
    if any(len(line) > _LONGEST_LINE for line in shown):
        shown = []
    return "\n".join([f"{location}:{arrow[2]}: {sentence}", *shown])


def _reason_without_a_place(lines: list[str]) -> str:
    reported = []
    for line in map(str.strip, lines):
        is_frame = line in ("", "Validation Error", "Caused by:") or line.startswith("In wgpu")
        if not is_frame:
            reported.append(line)
    if not reported:
        return "naga reports no reason"
    return ": ".join([_HEADLINE.sub("", reported[0]), *reported[1:3]])


def _frame(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the source lines that naga shows behind its arrow, and the reasons."""
    frame: list[str] = []
    reasons: list[str] = []
    for line in lines:
        inside = re.match(r"\s*(\d*) │(.*)$", line)
        if inside:
            frame.append(f"  {inside[2]}")
        elif line.lstrip().startswith("= "):
            reasons.append(line.lstrip()[2:].removeprefix("note: "))
        elif line.strip().strip("│·"):
            break
    return frame, reasons
