"""How deep a WGSL text goes: compilers follow what stands in each other with their stack, and naga's overflow ends the process."""

from __future__ import annotations

from devmod_targets.webgpu._tokens import NUMBER, Source, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.webgpu._tokens import Token

#: Brackets in brackets. naga takes about 4 KB of stack for each, and a thread has 8 MB and less.
MOST_NESTED = 255
#: Operators, members and items behind each other in one expression, and branches of one if.
MOST_CHAINED = 2000

_OPEN, _CLOSE = "([{", ")]}"
_OPERATORS = "+-*/%&|^!~.=>"


def check_depth(text: str, name: str) -> None:
    """Refuse a text that no compiler should be given.

    What it counts is never less than what a parser goes down, whatever the text is; of plain texts nothing but a few numbers is taken.

    Parameters
    ----------
    text, name
        The text, and what messages call it.

    Raises
    ------
    CompileError
        It goes deeper than that, with line and column; or it is so large that it must be looked at, and has no tokens of WGSL.
    """
    nested = sum(map(text.count, "([{<"))
    if nested <= MOST_NESTED and nested + text.count("else") + sum(map(text.count, _OPERATORS)) <= MOST_CHAINED:
        return
    source = Source(text, name)
    found = tokens(source)
    # For each open bracket: the operators since its last comma, those of "else if", and what may be the beginning of a template list.
    operators, branches, angles = [0], [0], [0]
    depth = chain = 0
    for number, token in enumerate(found[:-1]):
        what = token.text
        if token.kind == NUMBER:
            continue
        if what in _OPEN:
            if what == "{":  # there is none in an expression
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
        elif what in _CLOSE:
            if len(operators) > 1:
                chain -= operators.pop() + branches.pop()
                depth -= angles.pop() + 1
        elif what in (",", ";"):
            chain -= operators[-1]
            operators[-1] = 0
            if what == ";":
                depth -= angles[-1]
                angles[-1] = 0
        elif what == "else":
            more = found[number + 1].text == "if"
            chain += 1 if more else -branches[-1]
            branches[-1] = branches[-1] + 1 if more else 0
        elif what == "<" and not _joins(found, number):
            angles[-1] += 1
            depth += 1
        elif what in _OPERATORS or what == "<":
            if what == ">" and angles[-1]:
                angles[-1] -= 1
                depth -= 1
            operators[-1] += 1
            chain += 1
        if depth > MOST_NESTED:
            raise source.wrong(token.at, f"brackets stand more than {MOST_NESTED} deep in each other, for which a compiler has no room")
        if depth + chain > MOST_CHAINED:
            raise source.wrong(token.at, f"more than {MOST_CHAINED} operators hang together, for which a compiler has no room")


def _joins(found: list[Token], number: int) -> bool:
    """Whether this "<" is a part of "<<" or "<="."""
    at = found[number].at
    behind, before = found[number + 1], found[number - 1]
    return (behind.at == at + 1 and behind.text in ("<", "=")) or (number > 0 and before.at == at - 1 and before.text == "<")
