"""The shaders in a payload: parsed, and compared with the payload's fmap.

This file uses no driver.
"""

from __future__ import annotations

from functools import cached_property

from devmod import Block, FunctionInfo, Interface, Param
from devmod.errors import FormatError, list_names
from devmod_readers.reflection import ReflectedShader, Resource, is_one_argument
from devmod_readers.spirv import (
    GL_COMPUTE,
    SpirvConstants,
    read_lengths,
    read_module,
    read_samplings,
    reflect,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from devmod_runtime import SetConstant

#: In a shader's flag: scalars of a function without an interface are in a uniform buffer instead of
#: push constants (R15).
_USES_UNIFORM = 1
#: In SPIR-V: the opcode of pointer types.
_POINTER = 32
#: The capability PhysicalStorageBufferAddresses, and the storage class of its pointers.
_ADDRESSES, _PHYSICAL = 5347, 5349
#: The opcodes of variables, and of values that come from several branches.
_VARIABLE, _PHI = 59, 245
#: The kinds of resources that have no bytes, and the last one in a message.
_OPAQUE = ("image", "sampler", "combined")
_COMBINED = "image with a sampler"
#: The bytes of a scalar of a function without an interface.
_SCALAR = 8


class Shader:
    """One function's shader.

    Parameters
    ----------
    name
        The function's name, for messages.
    info
        Its entry in the payload's fmap.
    value
        The payload's bytes: flag, number of words, words (R15).

    Attributes
    ----------
    words : bytes
        The SPIR-V.
    version : tuple of int
        Its version.
    capabilities : list of int
        The capabilities that it declares.
    entry : str
        The entry point's name.
    interface : Interface
        Every argument with its place, the block and the constants. Without an interface, TVM's rule
        gives the places, and the SPIR-V the constants.
    images : dict
        The images and samplers that the shader uses, by (set, binding).
    module
        The parsed SPIR-V module.

    Raises
    ------
    FormatError
        The bytes are no such shader, or the shader differs from the fmap.
    """

    def __init__(self, name: str, info: FunctionInfo, value: bytes | memoryview) -> None:
        self.name = name
        self.entry = info.name
        flag, self.words = _unpack(name, value)
        try:
            module = read_module(self.words)
        except FormatError as error:
            raise self._shader_error(str(error)) from None
        self.module = module
        self.version, self.capabilities = module.version, module.capabilities
        entries = [entry.name for entry in module.entries if entry.model == GL_COMPUTE]
        if entries and info.name not in entries:
            raise self._shader_error(
                f"has no compute entry point {info.name!r}, which the payload's fmap names; it has: {list_names(entries)}"
            )
        reflected = self.reflected = self.reflect({})
        self.images = self._used_images(reflected)
        self.interface = _complete_interface(info, flag, reflected, name)
        self._complete_images()
        self._check_places()
        self._compare(reflected, info)

    @cached_property
    def samplings(self) -> dict[tuple[tuple[int, int], tuple[int, int]], bool]:
        """The pairs of an image and a sampler, as `devmod_readers.spirv.read_samplings` returns
        them.
        """
        return read_samplings(self.words, self.module)

    def lengths_read(self) -> set[int]:
        """Return the numbers of the buffers whose run-time length the shader uses."""
        places = read_lengths(self.words, self.module)
        return {
            number
            for number, param in enumerate(self.interface.params)
            if param.kind == "buffer" and param.at in places
        }

    def _used_images(self, reflected: ReflectedShader) -> dict[Any, Resource]:
        """Return the images and samplers by place. Raise FormatError if two variables of one place
        need different descriptors.
        """
        images: dict[Any, Resource] = {}
        for resource in reflected.resources:
            if resource.kind not in _OPAQUE:
                continue
            other = images.get(resource.at, resource)
            if not is_one_argument(other, resource):
                raise self._shader_error(
                    f"has two variables at {_place_text(resource.at)}, {other.name!r} and {resource.name!r}, which cannot be one argument"
                )
            images[resource.at] = other._replace(format=other.format or resource.format)
        return images

    def _complete_images(self) -> None:
        """Set what the interface omits of its images. Raise FormatError if it differs from the
        shader.
        """
        params = list(self.interface.params)
        for number, param in enumerate(params):
            resource = self.images.get(param.at) if param.kind == "image" else None
            if resource is None or resource.kind == "sampler":
                continue
            for field in ("type", "format", "sample"):
                given, needed = getattr(param, field), getattr(resource, field)
                if given != needed and given and (needed or field != "format"):
                    at = _place_text(resource.at)
                    raise self._shader_error(
                        f"has an image of the {field} {needed!r} at {at}, {resource.name!r}, but the payload's fmap gives {given!r}"
                    )
            type_, format_ = resource.type, param.format or resource.format
            params[number] = param.replace(
                type=type_,
                format=format_,
                sample=resource.sample,
                access=param.access or resource.access,
            )
        self.interface = self.interface.replace(params=params)

    def _check_places(self) -> None:
        """Raise FormatError if a scalar or a block has no valid place, so that its value would be
        lost.
        """
        blocks = self.interface.blocks
        for number, param in enumerate(self.interface.params):
            if param.kind == "uniform" and not bytes_of(param.type):
                raise self._interface_error(
                    f"gives the uniform argument {number + 1} the type {param.type!r}, expected uint8xN"
                )
            if param.kind != "scalar":
                continue
            if not isinstance(param.at, tuple) or param.at[0] >= len(blocks):
                raise self._interface_error(
                    f"places argument {number + 1} at {param.at!r}, outside of its {len(blocks)} blocks"
                )
            if param.type == "handle" and _ADDRESSES not in self.capabilities:
                raise self._interface_error(
                    f"gives argument {number + 1} as an address, which the shader cannot use"
                )
            size = blocks[param.at[0]].size
            if param.at[1] >= size:
                raise self._interface_error(
                    f"places argument {number + 1} at byte {param.at[1]} of a block of {size} bytes"
                )
        for number, block in enumerate(blocks):
            if not block.size:
                raise self._interface_error(f"has a block of no bytes at {block.at!r}")
            if block.at == "push" and any(each.at == "push" for each in blocks[:number]):
                raise self._interface_error("has two blocks of push constants")

    def reflect(self, values: Mapping[int, bool | int | float]) -> ReflectedShader:
        """Return the entry point, with values for constants by their numbers.

        Raises
        ------
        FormatError
            devmod does not support the shader.
        """
        try:
            shaders = reflect(
                self.module,
                self.name,
                include_unused=False,
                constants=SpirvConstants(self.module, values),
            )
        except FormatError as error:
            raise self._shader_error(str(error)) from None
        return next(shader for shader in shaders if shader.symbol == self.entry)

    def check_constants(self, new: Iterable[SetConstant]) -> None:
        """Raise FormatError if the payload's fmap gives constants without a number, or with another
        type.
        """
        types = {each.id: each.type for each in self.reflected.constants}
        for each in (one.constant for one in new):
            if each.id is None:
                raise self._shader_error(
                    f"identifies its constants by number, but the payload's fmap gives no number for {each.name!r}"
                )
            if types.get(each.id, each.type) != each.type:
                raise self._shader_error(
                    f"has the constant {each.id} of type {types[each.id]}, but the payload's fmap gives {each.type}"
                )

    def _compare(self, reflected: ReflectedShader, info: FunctionInfo) -> None:
        """Raise FormatError if the shader uses a resource that the fmap does not give, since the
        driver would access invalid memory.
        """
        values: dict[object, str] = {}
        sizes: dict[object, int] = {}
        for param in self.interface.params:
            if param.kind != "scalar":
                values[param.at] = (
                    "combined"
                    if {values.get(param.at), param.kind} == {"image", "sampler"}
                    else param.kind
                )
                sizes[param.at] = bytes_of(param.type)
        for each in self.interface.blocks:
            values[each.at] = "uniform"
            sizes[each.at] = each.size
        for resource in reflected.resources:
            kind = values.get(resource.at, "nothing")
            at = _place_text(resource.at)
            if kind != resource.kind:
                has, gives = (
                    _COMBINED if each == "combined" else each for each in (resource.kind, kind)
                )
                article = "an" if has.startswith("image") else "a"
                raise self._shader_error(
                    f"has {article} {has} at {at}, {resource.name!r}, but the payload's fmap has {gives} there"
                )
            if resource.kind == "uniform" and sizes[resource.at] < resource.size:
                raise self._shader_error(
                    f"has a uniform of {resource.size} bytes at {at}, {resource.name!r}, but the payload's fmap gives {sizes[resource.at]}"
                )
        push = next((block.size for block in self.interface.blocks if block.at == "push"), 0)
        if reflected.push_size > push:
            raise self._shader_error(
                f"has {reflected.push_size} bytes of push constants, but the payload's fmap gives {push}"
            )
        block = info.interface.block if info.interface is not None else None
        if block is not None and reflected.block is not None and block != reflected.block:
            raise self._shader_error(
                f"is built for blocks of {reflected.block} threads, but the payload's fmap gives {block}"
            )

    def stores_addresses(self) -> bool:
        """Return whether a variable of a function, or a value that comes from several branches, is
        a pointer to a buffer.
        """
        if _ADDRESSES not in self.capabilities:
            return False
        pointers = {
            number: operands
            for number, (opcode, operands) in self.module.types.items()
            if opcode == _POINTER
        }
        addresses = {number for number, (storage, _) in pointers.items() if storage == _PHYSICAL}
        addresses.update(
            [number for number, (_, target) in pointers.items() if target in addresses]
        )
        words = memoryview(self.words).cast("I")
        at = 5
        while at < len(words):
            if words[at] & 0xFFFF in (_VARIABLE, _PHI) and words[at + 1] in addresses:
                return True
            at += words[at] >> 16
        return False

    def _shader_error(self, text: str) -> FormatError:
        return FormatError(
            f"the SPIR-V of the vulkan function {self.name!r} {text}",
            kind="vulkan",
            function=self.name,
        )

    def _interface_error(self, text: str) -> FormatError:
        return FormatError(
            f"the interface of the vulkan function {self.name!r} {text}",
            kind="vulkan",
            function=self.name,
        )


def _place_text(at: object) -> str:
    return "(set {}, binding {})".format(*at) if isinstance(at, tuple) else str(at)


def bytes_of(type_: str) -> int:
    """Return the bytes of a uniform of type "uint8" or "uint8xN"; 0 for other types."""
    base, _, count = type_.rpartition("x")
    return int(count) if base == "uint8" else int(type_ == "uint8")


def _unpack(name: str, value: bytes | memoryview) -> tuple[int, bytes]:
    flag, number = int.from_bytes(value[:4], "little"), int.from_bytes(value[4:12], "little")
    if len(value) < 12 or len(value) != 12 + 4 * number:
        raise FormatError(
            f"the shader of the vulkan function {name!r} is damaged: expected a flag of 4 bytes, a number of words in 8 bytes and that "
            f"many words of 4 bytes, got the number {number} and {len(value)} bytes in all",
            kind="vulkan",
            function=name,
        )
    return flag, bytes(value[12:])


def _complete_interface(
    info: FunctionInfo, flag: int, reflected: ReflectedShader, name: str
) -> Interface:
    """Return the interface with a place for every argument, and with the block and the constants of
    the shader.

    The constants of an interface remain, since an optimized shader may have lost their names. TVM's
    rule gives the missing places: buffers in set 0 in their order, scalars of 8 bytes in push
    constants or in a uniform buffer after the last buffer.
    """
    known = info.interface
    if known is None:
        params = [
            Param("", "buffer") if declared == "handle" else Param("", "scalar", declared)
            for declared in info.arg_types
        ]
    else:
        params = list(known.params)
    blocks = list(known.blocks) if known is not None else []
    buffers = scalars = 0
    for number, param in enumerate(params):
        if param.at is None and param.kind == "scalar":
            type_ = param.type or info.arg_types[number]
            if "x" in type_.replace("complex", "") or type_ == "complex128":
                raise FormatError(
                    f"the payload of the vulkan function {name!r} gives no place for argument {number + 1} of type {type_}. Without a "
                    f"place, expected a single number of at most {_SCALAR} bytes; compile the function with an interface",
                    kind="vulkan",
                    function=name,
                )
            params[number] = param.replace(at=(len(blocks), _SCALAR * scalars))
            scalars += 1
        elif param.at is None:
            params[number] = param.replace(at=(0, buffers))
        buffers += param.kind != "scalar"
    if scalars:
        blocks.append(Block((0, buffers) if flag & _USES_UNIFORM else "push", _SCALAR * scalars))
    known = known or Interface()
    constants = [constant.to_dict() for constant in reflected.constants]
    extra = {"constants": constants, **known.extra} if constants else known.extra
    return known.replace(params=params, blocks=blocks, block=reflected.block, extra=extra)
