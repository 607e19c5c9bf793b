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
    with_atomic_fences,
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
_ADDRESSES = 5347
_PHYSICAL = 5349
#: The opcodes of variables, and of values that come from several branches.
_VARIABLE = 59
_PHI = 245
#: The kinds of resources that have no bytes, and those with another text in a message.
_OPAQUE = ("image", "sampler", "combined")
_KIND_TEXTS = {"image": "an image", "combined": "an image with a sampler"}
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
    launch : LaunchConstants or None
        What a launch sets, if clspv has compiled the shader.

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
        self.version = module.version
        self.capabilities = module.capabilities
        entries = [entry.name for entry in module.entries if entry.model == GL_COMPUTE]
        if entries and info.name not in entries:
            raise self._shader_error(
                f"has no compute entry point {info.name!r}, which the payload's fmap names; it has: {list_names(entries)}"
            )
        reflected = self.reflected = self.reflect({})
        self.launch = None
        if reflected.kernel is not None:
            self.launch = reflected.kernel.launch
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
        return read_samplings(self.module)

    @cached_property
    def words_with_atomic_fences(self) -> bytes:
        """The SPIR-V with atomic instructions in place of fences."""
        return with_atomic_fences(self.module)

    def lengths_read(self) -> set[int]:
        """Return the numbers of the buffers whose run-time length the shader uses."""
        places = read_lengths(self.module)
        numbers = set()
        for number, param in enumerate(self.interface.params):
            if param.kind == "buffer" and param.at in places:
                numbers.add(number)
        return numbers

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
            if param.kind != "image":
                continue
            resource = self.images.get(param.at)
            if resource is None or resource.kind == "sampler":
                continue
            for field in ("type", "format", "sample"):
                given = getattr(param, field)
                needed = getattr(resource, field)
                if given != needed and given and (needed or field != "format"):
                    at = _place_text(resource.at)
                    raise self._shader_error(
                        f"has an image of the {field} {needed!r} at {at}, {resource.name!r}, but the payload's fmap gives {given!r}"
                    )
            params[number] = param.replace(
                type=resource.type,
                format=param.format or resource.format,
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
            if param.kind != "scalar" or self._is_unused(param):
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

    def _is_unused(self, param: Param) -> bool:
        """Whether the kernel does not use an argument: clspv gives it no place."""
        return self.launch is not None and param.at is None

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
        self._compare_resources(reflected)
        push = 0
        for each in self.interface.blocks:
            if each.at == "push":
                push = each.size
        if reflected.push_size > push:
            raise self._shader_error(
                f"has {reflected.push_size} bytes of push constants, but the payload's fmap gives {push}"
            )
        block = None
        if info.interface is not None:
            block = info.interface.block
        if block is not None and reflected.block is not None and block != reflected.block:
            raise self._shader_error(
                f"is built for blocks of {reflected.block} threads, but the payload's fmap gives {block}"
            )

    def _compare_resources(self, reflected: ReflectedShader) -> None:
        kinds: dict[object, str] = {}
        sizes: dict[object, int] = {}
        for param in self.interface.params:
            if param.kind == "scalar":
                continue
            kind = param.kind
            if {kinds.get(param.at), kind} == {"image", "sampler"}:
                kind = "combined"
            kinds[param.at] = kind
            sizes[param.at] = bytes_of(param.type)
        for block in self.interface.blocks:
            kinds[block.at] = "uniform"
            sizes[block.at] = block.size
        if self.launch is not None:
            kinds |= dict.fromkeys(self.launch.samplers, "sampler")
            for place, (kind, data) in self.launch.data.items():
                kinds[place] = kind
                sizes[place] = len(data)
        for resource in reflected.resources:
            given = kinds.get(resource.at, "nothing")
            if self.launch is not None and given == "uniform" and resource.kind == "buffer":
                continue  # clspv has blocks of scalars in storage buffers too
            at = _place_text(resource.at)
            if given != resource.kind:
                has = _KIND_TEXTS.get(resource.kind, f"a {resource.kind}")
                gives = _KIND_TEXTS.get(given, given).removeprefix("an ")
                raise self._shader_error(
                    f"has {has} at {at}, {resource.name!r}, but the payload's fmap has {gives} there"
                )
            if given == "uniform" and sizes[resource.at] < resource.size:
                raise self._shader_error(
                    f"has a uniform of {resource.size} bytes at {at}, {resource.name!r}, but the payload's fmap gives {sizes[resource.at]}"
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
    if isinstance(at, tuple):
        return "(set {}, binding {})".format(*at)
    return str(at)


def bytes_of(type_: str) -> int:
    """Return the bytes of a uniform of type "uint8" or "uint8xN"; 0 for other types."""
    if type_ == "uint8":
        return 1
    base, _, count = type_.rpartition("x")
    if base != "uint8":
        return 0
    return int(count)


def _unpack(name: str, value: bytes | memoryview) -> tuple[int, bytes]:
    flag = int.from_bytes(value[:4], "little")
    number = int.from_bytes(value[4:12], "little")
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
    if reflected.kernel is not None:
        if known is None:
            raise FormatError(
                f"the vulkan function {name!r} is a kernel of clspv, but the payload's fmap has no interface for it; compile the SPIR-V "
                "with devmod",
                kind="vulkan",
                function=name,
            )
        return known.replace(block=reflected.block)
    if known is None:
        known = Interface([_undeclared_param(each) for each in info.arg_types])
    params = list(known.params)
    blocks = list(known.blocks)
    buffers = scalars = 0
    for number, param in enumerate(params):
        if param.at is None and param.kind == "scalar":
            _check_scalar(name, number, param.type or info.arg_types[number])
            params[number] = param.replace(at=(len(blocks), _SCALAR * scalars))
            scalars += 1
        elif param.at is None:
            params[number] = param.replace(at=(0, buffers))
        buffers += param.kind != "scalar"
    if scalars:
        at: Any = "push"
        if flag & _USES_UNIFORM:
            at = (0, buffers)
        blocks.append(Block(at, _SCALAR * scalars))
    extra = known.extra
    constants = [constant.to_dict() for constant in reflected.constants]
    if constants:
        extra = {"constants": constants, **extra}
    return known.replace(params=params, blocks=blocks, block=reflected.block, extra=extra)


def _undeclared_param(arg_type: str) -> Param:
    if arg_type == "handle":
        return Param("", "buffer")
    return Param("", "scalar", arg_type)


def _check_scalar(name: str, number: int, type_: str) -> None:
    """Raise FormatError for an argument without a place that TVM's rule has no place for."""
    if "x" in type_.replace("complex", "") or type_ == "complex128":
        raise FormatError(
            f"the payload of the vulkan function {name!r} gives no place for argument {number + 1} of type {type_}. Without a "
            f"place, expected a single number of at most {_SCALAR} bytes; compile the function with an interface",
            kind="vulkan",
            function=name,
        )
