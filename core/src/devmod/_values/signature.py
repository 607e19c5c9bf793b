"""Signatures as text, for reprs, documentation and `devmod inspect`: ``scale(x: float32* rw, n: int32) block 64×1×1``."""

from __future__ import annotations

from devmod._util.text import escape_line
from devmod._values.layout import is_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._values.info import FunctionInfo, Interface
    from devmod._values.param import Member, Param

#: The number of parameters and of members, and of characters of each, in a short text.
_MAX_PARTS, _MAX_LENGTH = 8, 60
#: The number of characters of a repr.
_MAX_REPR = 300


def signature_text(name: str, info: FunctionInfo, *, short: bool = False) -> str:
    """Return a function as one line: its name, its parameters and its block. `short` cuts long ones."""
    if info.interface is not None:
        return f"{_cut(name, short)}{interface_text(info.interface, short=short)}"
    return f"{_cut(name, short)}({_join(info.arg_types, short)})"


def interface_text(interface: Interface, *, short: bool = False) -> str:
    """Return the parameters, the result and the block: ``(x: float32* rw, n: int32) -> int32``, ``(n: int32) block 64×1×1``."""
    result = interface.extra.get("result")
    parts = [
        f"({_join([parameter_text(each) for each in interface.params], short)})",
        f"-> {result}" if result else "",
        block_text(interface),
    ]
    return " ".join(filter(None, parts))


def parameter_text(param: Param) -> str:
    """Return a parameter: ``x: float32* rw``, ``n: int32``, ``p: {a: float32, n: int32}``, ``t: local float32 = Local(64)``."""
    return f"{param.name}: {type_text(param)}" if param.name else type_text(param)


def type_text(param: Param) -> str:
    """Return the type of a parameter, with its access or its default."""
    if param.kind == "buffer":
        return f"{_members_text(param.members) if param.members else param.type or 'void'}* {param.access}".rstrip()
    if param.members:
        return kind_text(param.members[0]) if is_value(param.members) else _members_text(param.members)
    text = (param.type or "?") if param.kind == "scalar" else f"{param.kind} {param.type}".rstrip()
    return text if param.default is None else f"{text} = {param.default!r}"


def member_text(member: Member) -> str:
    """Return a member of a struct: ``a: float32``, ``w: float32[4][4]``."""
    return f"{member.name}: {kind_text(member)}"


def block_text(interface: Interface) -> str:
    """Return the block of a launch: ``block 64×1×1``, ``default block 64×1×1``, ``any block``; "" if the call chooses it."""
    for label, block in (("block", interface.block), ("default block", interface.default_block)):
        if block is not None:
            return f"{label} {'×'.join(map(str, block))}"
    return "any block" if interface.open_block else ""


def short_repr(kind: str, text: str) -> str:
    """Return ``<kind text>`` on one line. A long text is cut."""
    return escape_line(f"<{kind} {text if len(text) <= _MAX_REPR else text[: _MAX_REPR - 1] + '…'}>")


def kind_text(member: Member) -> str:
    """Return the type of a member: ``float32[4][4]``, ``{a: float32, n: int32}``."""
    kind = _members_text(member.members) if member.members else member.type
    return f"{kind}{''.join(f'[{length}]' for length in member.shape)}"


def _members_text(members: Sequence[Member]) -> str:
    return f"{{{_join([member_text(each) for each in members], True)}}}"


def _join(parts: Sequence[str], short: bool) -> str:
    if not short:
        return ", ".join(parts)
    texts = [_cut(part, short) for part in parts[:_MAX_PARTS]]
    return ", ".join([*texts, "…"] if len(parts) > _MAX_PARTS else texts)


def _cut(text: str, short: bool) -> str:
    return text if not short or len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
