"""Read the OpenCL kernels of a SPIR-V module: their arguments, as a driver takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from devmod_readers.reflection import MAX_ARGUMENTS
from devmod_readers.spirv._module import Dims, SpirvModule, error

#: The execution model of kernels.
KERNEL = 6
_INT = 21
_FLOAT = 22
_VECTOR = 23
_IMAGE = 25
_SAMPLER = 26
_ARRAY = 28
_STRUCT = 30
_POINTER = 32
_FUNCTION = 33
_CONSTANT = 43
#: The storage classes of the pointers of a kernel.
_UNIFORM_CONSTANT = 0
_WORKGROUP = 4
_CROSS_WORKGROUP = 5
_BY_VALUE = 7
_SPACES = {_UNIFORM_CONSTANT: "CONSTANT", _WORKGROUP: "LOCAL", _CROSS_WORKGROUP: "GLOBAL"}
_LOCAL_SIZE = 17
_IMPORT = 1
#: Decorations.
_BUILT_IN = 11
_LINKAGE = 41
_DIMENSIONS = {0: "1d", 1: "2d", 2: "3d", 5: "1d_buffer"}
_ACCESS = ("r", "w", "rw")
_MOST_BYTES = 1 << 62
#: The bytes and the alignment of a type.
_Size = tuple[int, int]


class KernelArgument(NamedTuple):
    """An argument of a kernel.

    Parameters
    ----------
    space
        "GLOBAL", "CONSTANT" or "LOCAL" for a pointer, else "PRIVATE".
    type
        The type of an image or of a sampler, as OpenCL C has it; "" for others.
    access
        The access of an image, "r", "w" or "rw"; "" for others.
    size
        The bytes of a value; 0 if it is no value, or if its size is unknown.
    """

    space: str
    type: str = ""
    access: str = ""
    size: int = 0


class SpirvKernel(NamedTuple):
    """The arguments of a kernel, and its fixed block of threads, or None."""

    arguments: tuple[KernelArgument, ...]
    block: Dims | None


def read_kernels(module: SpirvModule) -> dict[str, SpirvKernel]:
    """Return the kernels of a module by name.

    Raises
    ------
    FormatError
        The module is damaged, or has no kernel. The text continues a sentence that begins with the
        module.
    """
    kernels: dict[str, SpirvKernel] = {}
    sizes = _sizes(module)
    for entry in module.entries:
        if entry.model != KERNEL:
            continue
        opcode, operands = module.types[module.function_types[entry.function]]
        if opcode != _FUNCTION:
            raise error(f"is damaged: the kernel {entry.name!r} has no function type")
        if len(operands) - 1 > MAX_ARGUMENTS:
            raise error(f"has the kernel {entry.name!r} with more than {MAX_ARGUMENTS} arguments")
        block = None
        size = module.modes.get(entry.function, {}).get(_LOCAL_SIZE)
        if size is not None:
            if len(size) != 3:
                raise error(
                    f"is damaged: the size of the kernel {entry.name!r} has {len(size)} numbers; expected 3"
                )
            block = size[0], size[1], size[2]
        arguments = tuple(_argument(module, sizes, type_) for type_ in operands[1:])
        kernels[entry.name] = SpirvKernel(arguments, block)
    if not kernels:
        raise error("has no OpenCL kernel")
    return kernels


def read_imports(module: SpirvModule) -> list[str]:
    """Return the names of the functions that a module imports, in order. No driver has to define
    them.
    """
    names = []
    for number, decorations in module.decorations.items():
        if number not in module.function_types or _BUILT_IN in decorations:
            continue
        linkage = decorations.get(_LINKAGE, ())
        if linkage[-1:] != (_IMPORT,):
            continue
        data = b"".join(word.to_bytes(4, "little") for word in linkage[:-1])
        names.append(data.partition(b"\0")[0].decode("utf-8", "replace"))
    return names


def _argument(module: SpirvModule, sizes: Mapping[int, _Size], type_: int) -> KernelArgument:
    opcode, operands = module.types[type_]
    if opcode == _POINTER:
        storage, target = operands[:2]
        if storage == _BY_VALUE:
            return KernelArgument("PRIVATE", size=sizes[target][0])
        if storage not in _SPACES:
            raise error(
                f"has a kernel with a pointer of the storage class {storage}, which OpenCL does not pass"
            )
        return KernelArgument(_SPACES[storage])
    if opcode == _IMAGE:
        shape = _DIMENSIONS.get(operands[1], "")
        if operands[3]:
            shape += "_array"
        access = "r"
        if len(operands) > 7 and operands[7] < len(_ACCESS):
            access = _ACCESS[operands[7]]
        return KernelArgument("GLOBAL", f"image{shape}_t", access)
    if opcode == _SAMPLER:
        return KernelArgument("PRIVATE", "sampler_t")
    return KernelArgument("PRIVATE", size=sizes[type_][0])


def _sizes(module: SpirvModule) -> dict[int, _Size]:
    """Return the bytes and the alignment of the values of each type in OpenCL's layout; zeros if
    they are unknown.

    Except for pointers, a type is behind those that it contains, so each is computed once.
    """
    sizes: dict[int, _Size] = defaultdict(lambda: (0, 0))
    for number, (opcode, _) in module.types.items():
        if opcode == _POINTER:
            sizes[number] = 8, 8
    for number, (opcode, operands) in module.types.items():
        size, align = sizes[number]
        if opcode in (_INT, _FLOAT):
            size = align = operands[0] // 8
        elif opcode == _VECTOR:
            lanes = 4 if operands[1] == 3 else operands[1]
            size = align = sizes[operands[0]][0] * lanes
        elif opcode == _ARRAY:
            size, align = sizes[operands[0]]
            kind, length = module.constants[operands[1]]
            if kind == _CONSTANT:
                size *= length[1]
            else:
                size = 0
        elif opcode == _STRUCT:
            size, align = _struct_size([sizes[member] for member in operands])
        sizes[number] = min(size, _MOST_BYTES), min(align, _MOST_BYTES)
    return sizes


def _struct_size(members: list[_Size]) -> _Size:
    """Return the bytes and the alignment of a struct; zeros if the size of a member is unknown."""
    if not all(size for size, _ in members):
        return 0, 0
    size = 0
    for member_size, member_align in members:
        size = -(-size // member_align) * member_align + member_size
    align = max((member_align for _, member_align in members), default=1)
    return -(-size // align) * align, align
