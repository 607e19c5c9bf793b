"""Read what clspv writes about the kernels of an OpenCL C source into its SPIR-V for Vulkan: the
instructions of NonSemantic.ClspvReflection.

Each argument of a kernel has a place of its own. The caller of a launch also sets specialization
constants, some push constants, samplers and constant data, which OpenCL C has no arguments for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from devmod import Block, Param
from devmod_readers.c_numbers import C_NUMBERS, bytes_type, number_type
from devmod_readers.spirv._module import (
    Dims,
    Ids,
    Place,
    SpirvModule,
    error,
    starts,
)

#: Instructions, by their numbers.
_KERNEL = 1
_ARGUMENT_INFO = 2
_CONSTANT_DATA = {21: "buffer", 22: "uniform"}
_LITERAL_SAMPLER = 23
_REQUIRED_SIZE = 24
_LOCAL = 11
#: The constants that a launch sets: the block's size, the global offset, and the number of
#: dimensions. Each instruction has as many ids.
_IDS = {12: ("block", 3), 13: ("offset", 3), 14: ("work_dim", 1)}
#: Arguments with a binding of their own, and those that are numbers in a block.
_BUFFER = 3
_BOUND = {_BUFFER: "buffer", 8: "image", 9: "image", 10: "sampler"}
_IN_BUFFER = (5, 6)
_IN_PUSH_CONSTANTS = 7
#: The numbers in push constants that depend on the launch alone.
_PUSHED = {
    15: "zero",  # devmod has no global offset
    16: "block",
    17: "threads",
    18: "zero",
    19: "grid",
    20: "zero",
}
#: What devmod does not support: the instructions, and the end of a sentence that begins with the
#: kernel.
_UNSUPPORTED = {
    4: "has an array of constants in a uniform buffer; compile it without -constant-args-ubo",
    25: "uses the size of subgroups (get_max_sub_group_size), which devmod does not pass",
    41: "reads a 3-D image with a sampler that is an argument, which devmod does not support; declare the sampler in the source",
    **dict.fromkeys(
        (26, 27, 36, 37), "takes addresses; compile it without -physical-storage-buffers"
    ),
    **dict.fromkeys(
        (28, 29),
        "uses variables of the program, which devmod does not allocate; make them arguments",
    ),
    **dict.fromkeys(
        range(30, 34),
        "asks for the channels of an image (get_image_channel_order, get_image_channel_data_type), which devmod does not pass",
    ),
    **dict.fromkeys(
        (34, 35),
        "takes an image over a buffer (image1d_buffer_t), which devmod does not support; use a buffer",
    ),
    **dict.fromkeys(
        (38, 39, 40),
        "calls printf, which has no output on Vulkan; write the values to an array",
    ),
}
#: The words of atomic instructions that have an order of memory, by opcode.
_ORDERS = {**dict.fromkeys((227, 229, *range(232, 243)), (5,)), 228: (3,), 230: (5, 6)}
_CONST = 1
_NUMBERS = {**C_NUMBERS, "half": "float16", "double": "float64"}


class LaunchConstants(NamedTuple):
    """What the caller of a launch sets for a kernel that clspv has compiled.

    Attributes
    ----------
    constants
        What each specialization constant of the module is by its id: "block" or "offset" and the
        axis, "work_dim" and 0, "local" and 0 for a length.
    local
        For each argument of local memory by name: the id of its length, and the bytes of an
        element.
    pushed
        For each of the numbers in push constants: its offset, its bytes, and what it is: "zero",
        "block", "threads" or "grid".
    samplers
        The mask of each sampler of the source, by its (set, binding).
    data
        The bytes of each block of constants, by its (set, binding), and whether it is a "buffer" or
        a "uniform".
    """

    constants: dict[int, tuple[str, int]]
    local: Mapping[str, tuple[int, int]]
    pushed: list[tuple[int, int, str]]
    samplers: dict[Place, int]
    data: dict[Place, tuple[str, bytes]]


class ClspvKernel(NamedTuple):
    """A kernel that clspv has compiled.

    Attributes
    ----------
    params
        Its arguments, in the order of the source. Those that it does not use are missing.
    blocks
        The blocks of memory with its scalars.
    block
        The block of threads that it requires; None if the caller chooses it.
    launch
        What the caller of a launch sets.
    """

    params: Sequence[Param]
    blocks: Sequence[Block]
    block: Dims | None
    launch: LaunchConstants


class _Info(NamedTuple):
    """The name of an argument, the type of its number or of the elements at its address ("" for
    others), and the access of its memory.
    """

    name: str
    type: str
    access: str


def read_clspv(module: SpirvModule) -> dict[str, ClspvKernel]:
    """Return the kernels of a module by the names of their entry points; none if clspv has not
    compiled it.

    Raises
    ------
    FormatError
        The module is damaged, or has a kernel that devmod cannot launch. The text continues a
        sentence that begins with the module.
    """
    if not module.reflection:
        return {}
    reader = _Reader(module)
    for number, code, operands in module.reflection:
        reader.add(number, code, operands)
    return {name: reader.kernel(number) for number, name in reader.kernels.items()}


def relax_atomics(module: SpirvModule) -> None:
    """Change the words of a module: its atomic instructions order no other memory, as those of
    OpenCL C 1.2.

    clspv gives them an order. Mesa's CPU device waits for the block there, and loses threads of a
    loop.
    """
    words = module.words
    zero = 0
    for number, (opcode, operands) in module.constants.items():
        if opcode == 43 and operands[1:] == (0,) and module.types[operands[0]] == (21, (32, 0)):
            zero = number
    if not zero:
        return
    for at in starts(words):
        for index in _ORDERS.get(words[at] & 0xFFFF, ()):
            words[at + index] = zero


class _Reader:
    """The instructions of a module: those of kernels, and those of the module itself."""

    def __init__(self, module: SpirvModule) -> None:
        self._module = module
        self.kernels: dict[int, str] = {}
        #: The operands of the descriptions of arguments.
        self._infos: dict[int, Ids] = {}
        self._required: dict[int, Dims] = {}
        #: The instructions of each kernel's arguments: (order, code, numbers, description).
        self._arguments: dict[int, list[tuple[int, int, Ids, _Info]]] = {}
        #: What the launches of all kernels set.
        self._launch = LaunchConstants({}, {}, [], {}, {})

    def add(self, number: int, code: int, operands: Ids) -> None:
        """Add an instruction by its number and its operands."""
        if code == _KERNEL:
            self.kernels[number] = self._text(operands, 1)
            self._arguments[number] = []
        elif code == _ARGUMENT_INFO:
            self._infos[number] = operands
        elif code == _REQUIRED_SIZE:
            x, y, z = self._numbers(operands[1:], 3)
            self._required[self._kernel_of(operands)] = x, y, z
        elif code in (*_BOUND, *_IN_BUFFER, _IN_PUSH_CONSTANTS, _LOCAL):
            self._add_argument(code, operands)
        elif code in _UNSUPPORTED:
            subject = "a kernel"
            if operands and operands[0] in self.kernels:
                subject = f"the kernel {self.kernels[operands[0]]!r}"
            raise error(f"has {subject}, which {_UNSUPPORTED[code]}")
        else:
            self._add_to_launch(code, operands)

    def _add_argument(self, code: int, operands: Ids) -> None:
        # An argument in a buffer has a place of four numbers, one in push constants two.
        count = 3
        if code in _IN_BUFFER:
            count = 5
        order, *numbers = self._numbers(operands[1:], count)
        kernel = self._kernel_of(operands)
        described: Ids = ()
        if len(operands) > count + 1:
            described = self._infos.get(operands[count + 1], ())
        info = self._info(self.kernels[kernel], order, described)
        self._arguments[kernel].append((order, code, tuple(numbers), info))

    def _info(self, kernel: str, order: int, described: Ids) -> _Info:
        """Return the description of an argument, by the operands of its instruction."""
        name = ""
        if described:
            name = self._text(described, 0)
        if not name:
            raise error(
                f"has no names of arguments: compile it by clspv with -cl-kernel-arg-info (the kernel {kernel!r}, argument {order + 1})"
            )
        if len(described) < 5:
            raise error(
                f"has the kernel {kernel!r} of clspv without the types of its arguments, such as {name!r}; compile it by clspv with "
                "-cl-kernel-arg-info, or compile the OpenCL C with devmod"
            )
        dtype = number_type(self._text(described, 1).rstrip("* "), _NUMBERS)
        (qualifiers,) = self._numbers(described[4:], 1)
        access = "rw"
        if qualifiers & _CONST:
            access = "r"
        return _Info(name, dtype, access)

    def _add_to_launch(self, code: int, operands: Ids) -> None:
        launch = self._launch
        if code in _IDS:
            name, count = _IDS[code]
            for axis, id_ in enumerate(self._numbers(operands, count)):
                launch.constants[id_] = name, axis
        elif code in _PUSHED:
            offset, size = self._numbers(operands, 2)
            launch.pushed.append((offset, size, _PUSHED[code]))
        elif code == _LITERAL_SAMPLER:
            set_, binding, mask = self._numbers(operands, 3)
            launch.samplers[set_, binding] = mask
        elif code in _CONSTANT_DATA:
            set_, binding = self._numbers(operands, 2)
            try:
                data = bytes.fromhex(self._text(operands, 2))
            except ValueError:
                raise error("is damaged: a block of clspv's constants is not hexadecimal") from None
            launch.data[set_, binding] = _CONSTANT_DATA[code], data

    # -- one kernel

    def kernel(self, number: int) -> ClspvKernel:
        """Return a kernel by the number of its instruction."""
        params: list[Param] = []
        #: The bytes of each block.
        sizes: dict[Any, int] = {}
        local: dict[str, tuple[int, int]] = {}
        arguments = sorted(self._arguments[number], key=lambda each: each[0])
        for _, code, numbers, info in arguments:
            if code == _LOCAL:
                self._launch.constants[numbers[0]] = "local", 0
                local[info.name] = numbers[0], max(numbers[1], 1)
                params.append(Param(info.name, "local", info.type))
            elif code in _BOUND:
                access = ""
                if code == _BUFFER:
                    access = info.access
                at = (numbers[0], numbers[1])
                params.append(Param(info.name, _BOUND[code], info.type, access, at))
            else:
                *place, offset, size = numbers
                block = tuple(place) or "push"
                sizes[block] = max(sizes.get(block, 0), offset + size)
                at = ([*sizes].index(block), offset)
                # Structs, and unknown types.
                type_ = info.type or bytes_type(size)
                align = int(not info.type and size > 1)
                params.append(Param(info.name, "scalar", type_, at=at, align=align))
        for offset, size, _ in self._launch.pushed:
            sizes["push"] = max(sizes.get("push", 0), offset + size)
        blocks = [Block(at, -(-size // 4) * 4) for at, size in sizes.items()]
        launch = self._launch._replace(local=local)
        return ClspvKernel(params, blocks, self._required.get(number), launch)

    # -- operands

    def _kernel_of(self, operands: Ids) -> int:
        if operands[0] not in self.kernels:
            raise error("is damaged: an argument of clspv has no kernel")
        return operands[0]

    def _text(self, operands: Ids, index: int) -> str:
        if index >= len(operands) or operands[index] not in self._module.names:
            raise error("is damaged: an instruction of clspv has no text")
        return self._module.names[operands[index]]

    def _numbers(self, operands: Ids, count: int) -> Ids:
        """Return the values of the first operands, which are constants of 32 bits."""
        numbers: list[int] = []
        for operand in operands[:count]:
            opcode, constant = self._module.constants[operand]
            if opcode == 43 and len(constant) == 2:
                numbers.append(constant[1])
            elif opcode == 46:
                numbers.append(0)
        if len(numbers) != count:
            raise error("is damaged: an instruction of clspv has no valid number")
        return tuple(numbers)
