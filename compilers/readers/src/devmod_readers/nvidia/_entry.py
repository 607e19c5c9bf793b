"""The records of the kernels that an image contains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError, count_text
from devmod_readers.parameters import follower_numbers, group_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import FunctionInfo, Param


Dims = tuple[int, int, int]

_POINTER_BYTES = 8
#: A parameter of local memory is an offset into dynamic shared memory.
_OFFSET_BYTES = 4
#: TVM's extra tag of a tensor map (`FunctionInfo.arg_extra_tags`), which is passed by value.
TENSOR_MAP_TAG = 1
TENSOR_MAP_BYTES = 128


class ParamPlace(NamedTuple):
    """The place of a parameter in the parameter block of a kernel.

    A cubin has the places for its architecture. PTX's rules give the same places, except that a
    parameter with an alignment over 16, and all after it, may be shifted: the block itself is
    aligned to less. A caller that passes pointers to arguments needs no places.

    Parameters
    ----------
    offset, size
        Its first byte and its bytes. Both are 0 for a texture or surface reference, which is not in
        the block.
    align
        Its alignment in bytes, which PTX declares; 0 if the image has none.
    type
        PTX's type such as "u64" or "b8" (an array of bytes: a struct); "" if the image has none.
    is_pointer
        Whether PTX marks it as a pointer (``.ptr``). Not all compilers do.
    """

    offset: int
    size: int
    align: int = 0
    type: str = ""
    is_pointer: bool = False


# Where to change: a field that is read of a kernel in PTX or in a cubin
#   also: `compilers/readers/src/devmod_readers/nvidia/_ptx.py`, and `_cubin.py` beside it;
#     `compilers/targets/src/devmod_targets/cuda/signatures/declared.py` (`with_entry`);
#     `plugins/devmod-cuda/src/devmod_cuda/_launch.py`, if a launch needs it
#   tests: `compilers/readers/tests/test_nvidia_readers.py`
class KernelEntry(NamedTuple):
    """A kernel of an image.

    Parameters
    ----------
    name
        The symbol, mangled for C++.
    params
        The places of its parameters in order; None if the image does not contain them.
    block
        The threads of a block that the kernel requires (``.reqntid``); None if any block may be
        launched.
    max_threads
        The most threads of a block (``.maxntid`` or ``__launch_bounds__``); 0 without a limit.
    cluster
        The blocks of a cluster that the kernel requires (``.reqnctapercluster``); None without a
        requirement.
    max_cluster
        The most blocks of a cluster (``.maxclusterrank``); 0 without a limit.
    explicit_cluster
        Whether each launch must have cluster dimensions: its own, or the required ones
        (``.explicitcluster``).
    dynamic_shared_memory
        Whether it uses shared memory whose size the launch defines (``extern __shared__``). Cubins
        do not contain this: False.
    blocks_are_clusters
        Whether the grid of a driver's launch counts clusters instead of blocks
        (``.blocksareclusters``).
    static_shared_memory
        The bytes of shared memory that its code declares; 0 if there are none, or if the image does
        not have the exact number.
    """

    name: str
    params: tuple[ParamPlace, ...] | None
    block: Dims | None = None
    max_threads: int = 0
    cluster: Dims | None = None
    max_cluster: int = 0
    explicit_cluster: bool = False
    blocks_are_clusters: bool = False
    dynamic_shared_memory: bool = False
    static_shared_memory: int = 0


# -- Compare the declared signature of a kernel with its image.


def check_declared(info: FunctionInfo, entry: KernelEntry) -> None:
    """Check that a function has the number and the sizes of the parameters of its kernel.

    Raises
    ------
    FormatError
        It has not. The text has both signatures.
    """
    if entry.params is None:
        return
    values: Sequence[Param] = ()
    if info.interface is not None:
        values = info.interface.values
    numbers = list(range(len(info.arg_types)))
    if values:
        # A texture object contains its sampler, so the argument of the sampler is no parameter.
        numbers = [number for number in numbers if values[number].kind != "sampler"]
    sizes = [_size(info, values, number) for number in numbers]
    followers = {*follower_numbers(info.interface)}
    behind = [place for place, number in enumerate(numbers) if number in followers]
    if _agree(sizes, behind, [place.size for place in entry.params]):
        return

    declared = []
    for number, size in zip(numbers, sizes, strict=True):
        declared.append(f"{info.arg_types[number]} ({count_text(size, 'byte')})")
    image = []
    for place in entry.params:
        size_of_place = count_text(place.size, "byte")
        image.append(f".{place.type} ({size_of_place})" if place.type else size_of_place)
    raise FormatError(
        f"the declared arguments of the cuda kernel {info.name!r} are not those of its image: expected {len(image)} arguments "
        f"({', '.join(image) or 'none'}), got {len(declared)} ({', '.join(declared) or 'none'})",
        kind="cuda",
        function=info.name,
    )


def _agree(sizes: Sequence[int], followers: Sequence[int], actual: Sequence[int]) -> bool:
    """Return whether arguments have the sizes of the parameters of an image."""
    groups = group_values([(size, size) for size in sizes], followers, actual)
    if len(groups) != len(actual):
        return False
    # A reference to a texture has no bytes in the parameter block.
    return all(not size or group.size == size for group, size in zip(groups, actual, strict=True))


def _size(info: FunctionInfo, values: Sequence[Param], number: int) -> int:
    """Return the bytes of an argument in the parameter block."""
    if info.arg_extra_tags[number : number + 1] == (TENSOR_MAP_TAG,):
        return TENSOR_MAP_BYTES
    arg_type = info.arg_types[number]
    if not values:
        if arg_type == "handle":
            return _POINTER_BYTES
        return array_bytes(parse_dtype(arg_type))
    param = values[number]
    if param.kind == "local":
        return _OFFSET_BYTES
    if param.kind in ("buffer", "image"):
        return _POINTER_BYTES
    return array_bytes(parse_dtype(param.type or arg_type))
