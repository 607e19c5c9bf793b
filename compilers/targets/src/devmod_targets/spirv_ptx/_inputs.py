"""The built-in values that a kernel reads."""

from __future__ import annotations

from collections.abc import Callable

from devmod_targets.spirv_ptx._writer import Writer

#: The number of lanes of a subgroup.
SUBGROUP = 32
_AXES = "xyz"


def _triple(register: str) -> Callable[[Writer], list[str]]:
    return lambda writer: [writer.op("b32", "mov.u32", f"%{register}.{axis}") for axis in _AXES]


def _global_id(writer: Writer) -> list[str]:
    values = []
    for axis in _AXES:
        group, size, thread = (
            writer.op("b32", "mov.u32", f"%{each}.{axis}") for each in ("ctaid", "ntid", "tid")
        )
        values.append(writer.op("b32", "mad.lo.u32", group, size, thread))
    return values


def local_index(writer: Writer) -> list[str]:
    """Return the number of a thread in its group."""
    x, y, z = _triple("tid")(writer)
    width, height, _ = _triple("ntid")(writer)
    rows = writer.op("b32", "mad.lo.u32", z, height, y)
    return [writer.op("b32", "mad.lo.u32", rows, width, x)]


def _lane(writer: Writer) -> list[str]:
    return [writer.op("b32", "mov.u32", "%laneid")]


def _subgroup(writer: Writer) -> list[str]:
    return [writer.op("b32", "shr.u32", local_index(writer)[0], "5")]


def group_size(writer: Writer) -> str:
    """Return the number of threads in a group."""
    width, height, depth = _triple("ntid")(writer)
    area = writer.op("b32", "mul.lo.u32", width, height)
    return writer.op("b32", "mul.lo.u32", area, depth)


def _subgroups(writer: Writer) -> list[str]:
    size = writer.op("b32", "add.u32", group_size(writer), str(SUBGROUP - 1))
    return [writer.op("b32", "shr.u32", size, "5")]


def _mask(name: str) -> Callable[[Writer], list[str]]:
    def masks(writer: Writer) -> list[str]:
        return [writer.op("b32", "mov.u32", f"%lanemask_{name}"), "0", "0", "0"]

    return masks


def _number(value: int) -> Callable[[Writer], list[str]]:
    return lambda writer: [str(value)]


_INPUTS: dict[int, Callable[[Writer], list[str]]] = {
    24: _triple("nctaid"),
    25: _triple("ntid"),
    26: _triple("ctaid"),
    27: _triple("tid"),
    28: _global_id,
    29: local_index,
    36: _number(SUBGROUP),
    38: _subgroups,
    40: _subgroup,
    41: _lane,
    4416: _mask("eq"),
    4417: _mask("ge"),
    4418: _mask("gt"),
    4419: _mask("le"),
    4420: _mask("lt"),
    4438: _number(0),
}


def input_value(writer: Writer, number: int) -> list[str] | None:
    """Return the registers with a built-in value; None if there is none for kernels in PTX."""
    make = _INPUTS.get(number)
    return make(writer) if make else None
