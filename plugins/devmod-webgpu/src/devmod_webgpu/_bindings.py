"""Where a function's arguments are bound: read from its interface, or by TVM's rule where it has none. Needs no driver."""

from __future__ import annotations

from devmod import Block, Interface, Param
from devmod.backend import block_packer, write_access
from devmod.errors import CompileError, FormatError
from devmod_targets.webgpu import read_wgsl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo

#: WebGPU's numbers are below this in every implementation; what a file says is checked before it is counted with.
_MOST_GROUPS, _MOST_BINDING = 8, 65535


class Binding:
    """What is bound at one place.

    Attributes
    ----------
    group, number
        The place.
    type
        WebGPU's word for the layout: "uniform", "storage" or "read-only-storage".
    least
        The bytes that must be there at least; 0 where that is not known.
    argument
        The number of the argument that is a buffer, or the bytes of a whole uniform; -1 for a block of scalars.
    block
        The number of the block of scalars; -1 for none.
    """

    __slots__ = ("argument", "block", "group", "least", "number", "type")

    def __init__(self, place: tuple[int, int], type: str, least: int, argument: int = -1, block: int = -1) -> None:  # noqa: A002 - WebGPU's word
        self.group, self.number = place
        self.type, self.least, self.argument, self.block = type, least, argument, block


class Bindings:
    """The bindings of one function.

    Parameters
    ----------
    name, info
        The function.
    interface
        Its interface.
    access
        For TVM's functions: the access that the shader has at each place, where it could be read.
    folded
        Whether the last block ends with TVM's ``packGridDimX``.

    Raises
    ------
    FormatError
        The interface is none that a WebGPU function can have.
    """

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        interface: Interface,
        *,
        access: Mapping[tuple[int, int], str] | None = None,
        folded: bool = False,
    ) -> None:
        self._name = name
        self.folded = folded
        self.listed: list[Binding] = []
        writes = iter(write_access(info))
        for number, param in enumerate(interface.params):
            if param.kind == "buffer":
                written = next(writes, True)
                place = self._place(param.at, f"argument {number + 1} {param.name!r}")
                mode = param.access or (access or {}).get(place) or ("rw" if written else "r")
                least = param.extra.get("least", 4 if param.type else 0)
                if type(least) is not int or not 0 <= least < 2**53:
                    raise self._wrong(f"argument {number + 1} {param.name!r} has the least size {least!r}, which is no number of bytes")
                self.listed.append(Binding(place, "read-only-storage" if mode == "r" else "storage", least, number))
            elif param.kind == "uniform":
                self.listed.append(Binding(self._place(param.at, f"argument {number + 1} {param.name!r}"), "uniform", 0, number))
            elif param.kind == "local":
                raise self._wrong(f"argument {number + 1} {param.name!r} is of kind local, and WGSL has no such arguments")
            elif param.kind == "scalar" and not (isinstance(param.at, tuple) and param.at[0] < len(interface.blocks)):
                raise self._wrong(f"argument {number + 1} {param.name!r} lies in no block")
        for number, block in enumerate(interface.blocks):
            self.listed.append(Binding(self._place(block.at, f"block {number}"), "uniform", block.size, block=number))
            if not 0 < block.size <= 1 << 20:
                raise self._wrong(f"block {number} has {block.size} bytes")
        places = [(each.group, each.number) for each in self.listed]
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            raise self._wrong(f"two things are bound at group {twice[0]}, binding {twice[1]}")
        self.groups = max((each.group for each in self.listed), default=-1) + 1
        #: The bytes of each block from a call's values.
        self.pack: Callable[[Sequence[Any]], tuple[bytes, ...]] = block_packer(interface)

    def _place(self, at: object, what: str) -> tuple[int, int]:
        if isinstance(at, tuple) and at[0] < _MOST_GROUPS and at[1] <= _MOST_BINDING:
            return at[0], at[1]
        raise self._wrong(f"{what} has the place {at!r}, which is no group and binding of WebGPU")

    def _wrong(self, text: str) -> FormatError:
        return FormatError(f"the interface of the webgpu function {self._name!r} is wrong: {text}", kind="webgpu", function=self._name)


def tvm_interface(name: str, info: FunctionInfo, text: str) -> tuple[Interface, dict[tuple[int, int], str]]:
    """The interface that TVM's rule gives a function without one, and the access that its shader has at each place.

    Buffers are bound in group 0 from 0 up; the scalars lie in a block at the next binding, four bytes each, ``packGridDimX`` behind them.

    Raises
    ------
    FormatError
        A scalar is of a type that has no such form.
    """
    params: list[Param] = []
    buffers = sum(each == "handle" for each in info.arg_types)
    scalars = placed = 0
    for number, each in enumerate(info.arg_types):
        if each == "handle":
            params.append(Param("", "buffer", at=(0, placed)))
            placed += 1
        elif each in ("int32", "uint32", "float32", "bool", "uint1"):
            params.append(Param("", "scalar", each, at=(0, 4 * scalars)))
            scalars += 1
        else:
            raise FormatError(
                f"the webgpu function {name!r} has no interface, and its argument {number + 1} is a {each}: without one, scalars are "
                "int32, uint32, float32 or bool",
                kind="webgpu",
                function=name,
            )
    try:
        found = read_wgsl(text, name).get(info.name)
    except CompileError:  # the device's compiler has the last word
        found = None
    access = {param.at: param.access for param in found.params if isinstance(param.at, tuple) and param.access} if found else {}
    blocks = [Block((0, buffers), 4 * scalars + 4)]
    return Interface(params, blocks, found.block if found else None, dict(found.extra) if found else {}), access
