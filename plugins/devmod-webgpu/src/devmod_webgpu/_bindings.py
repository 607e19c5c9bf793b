"""The bindings of a function's arguments, from its interface or by TVM's rule. This file uses no
driver.
"""

from __future__ import annotations

from devmod import Block, FunctionInfo, Interface, Param
from devmod.errors import FormatError
from devmod_runtime import block_packer, write_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod_readers.reflection import ReflectedFunction

#: The number of groups, the largest binding and the largest block in any WebGPU implementation. The
#: numbers in a file are checked against them.
_MAX_GROUPS = 8
_MAX_BINDING = 65535
_MAX_BLOCK = 1 << 20
_BUFFERS = ("uniform", "storage", "read-only-storage")
#: WebGPU's names of what a shader reads from a texture, and of the access to a storage texture.
_SAMPLE_TYPES = {"float": "float", "int": "sint", "uint": "uint"}
ACCESSES = {"r": "read-only", "w": "write-only", "rw": "read-write"}


class Binding:
    """The binding of one argument or block.

    Attributes
    ----------
    group, number
        The group and the binding number.
    type
        WebGPU's buffer type in the layout: "uniform", "storage" or "read-only-storage". For others
        the member of the layout: "texture", "storage_texture" or "sampler".
    least
        The minimum size in bytes; 0 if it is unknown.
    argument
        The number of the argument with the buffer or with the bytes of a whole uniform; -1 for a
        block of scalars.
    block
        The number of the block of scalars; -1 for none.
    options
        The rest of the layout for a texture; empty for others.
    """

    __slots__ = ("argument", "block", "group", "least", "number", "options", "type")

    def __init__(
        self,
        place: tuple[int, int],
        type: str,  # noqa: A002 - WebGPU's name
        least: int = 0,
        argument: int = -1,
        block: int = -1,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.group, self.number = place
        self.type = type
        self.least = least
        self.argument = argument
        self.block = block
        self.options = options or {}

    def layout(self, *, filters: bool) -> tuple[int, str, dict[str, Any]]:
        """Return the binding number, and the member of the layout with its options.

        A texture of floating-point numbers and a sampler have a layout with filters, and one
        without.
        """
        options: dict[str, Any] = dict(self.options)
        if self.type == "sampler":
            options["type"] = "filtering" if filters else "non-filtering"
        elif self.type in _BUFFERS:
            size = 0
            if self.type != "uniform":
                size = -(-self.least // 4) * 4
            return self.number, "buffer", {"type": self.type, "min_binding_size": size}
        elif not filters and self.is_float:
            options["sample_type"] = "unfilterable-float"
        return self.number, self.type, options

    @property
    def writes(self) -> bool:
        """Whether it is a storage texture that the shader may write to."""
        return "write" in self.options.get("access", "")

    @property
    def is_float(self) -> bool:
        """Whether it is a texture of floating-point numbers, which a sampler may filter."""
        return self.options.get("sample_type") == "float"


class Bindings:
    """The bindings of one function.

    Parameters
    ----------
    name, info
        The function's name and FunctionInfo.
    interface
        Its interface.
    access
        For TVM's functions: the access that the shader declares at each place, as far as it is
        known.

    Raises
    ------
    FormatError
        The interface is not valid for a WebGPU function.
    """

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        interface: Interface,
        access: Mapping[tuple[int, int], str],
    ) -> None:
        self._name = name
        #: Whether the last block ends with TVM's ``packGridDimX``.
        self.folded = info.interface is None
        self.listed: list[Binding] = []
        writes = iter(write_access(info))
        for number, param in enumerate(interface.params):
            subject = f"argument {number + 1} {param.name!r}"
            if param.kind == "buffer":
                is_written = next(writes, True)
                self.listed.append(self._buffer(param, number, access, is_written))
            elif param.kind == "uniform":
                place = self._place(param.at, subject)
                self.listed.append(Binding(place, "uniform", argument=number))
            elif param.kind in ("image", "sampler"):
                self.listed.append(self._image(param, number))
            elif param.kind == "local":
                raise self._interface_error(
                    f"{subject} is of kind local, which WGSL does not support"
                )
            elif param.kind == "scalar":
                is_in_block = isinstance(param.at, tuple) and param.at[0] < len(interface.blocks)
                if not is_in_block:
                    raise self._interface_error(
                        f"{subject} has the place {param.at!r}, which is in no block"
                    )
        for number, block in enumerate(interface.blocks):
            place = self._place(block.at, f"block {number}")
            self.listed.append(Binding(place, "uniform", block.size, block=number))
            if not 0 < block.size <= _MAX_BLOCK:
                raise self._interface_error(
                    f"block {number} has {block.size} bytes, expected 1 to {_MAX_BLOCK}"
                )
        places = [(each.group, each.number) for each in self.listed]
        duplicate = next((place for place in places if places.count(place) > 1), None)
        if duplicate is not None:
            raise self._interface_error(
                f"two bindings use group {duplicate[0]}, binding {duplicate[1]}"
            )
        self.groups = max((each.group for each in self.listed), default=-1) + 1
        #: Packs a call's values into the bytes of each block.
        self.pack: Callable[[Sequence[Any]], tuple[bytes, ...]] = block_packer(interface)

    def _buffer(
        self,
        param: Param,
        number: int,
        access: Mapping[tuple[int, int], str],
        is_written: bool,
    ) -> Binding:
        subject = f"argument {number + 1} {param.name!r}"
        place = self._place(param.at, subject)
        mode = param.access or access.get(place)
        if not mode and not is_written:
            mode = "r"
        least = param.extra.get("least", 4 if param.type else 0)
        if type(least) is not int or not 0 <= least < 2**53:
            raise self._interface_error(
                f"{subject} has the least size {least!r}, expected a number of bytes"
            )
        type_ = "storage"
        if mode == "r":
            type_ = "read-only-storage"
        return Binding(place, type_, least, number)

    def _image(self, param: Param, number: int) -> Binding:
        from devmod.backend import IMAGE_FORMATS

        subject = f"argument {number + 1} {param.name!r}"
        place = self._place(param.at, subject)
        if param.kind == "sampler":
            return Binding(place, "sampler", argument=number)
        sample_type = _SAMPLE_TYPES.get(param.sample)
        access = ACCESSES.get(param.access)
        view = {"view_dimension": param.type.replace("_", "-")}
        if param.type not in ("1d", "2d", "3d", "2d_array") or sample_type is None:
            raise self._interface_error(
                f"{subject} is an image of type {param.type!r} and sample {param.sample!r}, which WGSL does not have"
            )
        if not param.format and param.access == "r":
            return Binding(
                place, "texture", argument=number, options={"sample_type": sample_type, **view}
            )
        if (
            param.format not in IMAGE_FORMATS
            or IMAGE_FORMATS[param.format].sample != param.sample
            or access is None
        ):
            raise self._interface_error(
                f"{subject} has the format {param.format!r}, the sample {param.sample!r} and the access {param.access!r}; expected a "
                "format of images with its sample and an access, or the access 'r' without a format"
            )
        return Binding(
            place,
            "storage_texture",
            argument=number,
            options={"format": param.format, "access": access, **view},
        )

    def _place(self, at: object, subject: str) -> tuple[int, int]:
        if isinstance(at, tuple) and at[0] < _MAX_GROUPS and at[1] <= _MAX_BINDING:
            return at[0], at[1]
        raise self._interface_error(
            f"{subject} has the place {at!r}, expected a group below {_MAX_GROUPS} and a binding up to {_MAX_BINDING}"
        )

    def _interface_error(self, text: str) -> FormatError:
        return FormatError(
            f"the interface of the webgpu function {self._name!r} is invalid: {text}",
            kind="webgpu",
            function=self._name,
        )


def tvm_interface(
    name: str, info: FunctionInfo, shader: ReflectedFunction | None
) -> tuple[Interface, dict[tuple[int, int], str]]:
    """Return the interface of a function by TVM's rule, and the access that its shader, if it is
    known, declares at each place.

    The buffers have the bindings of group 0 from 0 up. The next binding is a block with the
    scalars, four bytes each, and ``packGridDimX`` at the end.

    Raises
    ------
    FormatError
        TVM's rule does not support the type of a scalar.
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
                f"the webgpu function {name!r} has no interface, and its argument {number + 1} has type {each}; without an interface, "
                "expected handle, int32, uint32, float32 or bool",
                kind="webgpu",
                function=name,
            )
    blocks = [Block((0, buffers), 4 * scalars + 4)]
    access: dict[tuple[int, int], str] = {}
    if shader is None:
        return Interface(params, blocks), access
    for param in shader.params:
        if isinstance(param.at, tuple) and param.access:
            access[param.at] = param.access
    return Interface(params, blocks, shader.block, dict(shader.extra)), access
