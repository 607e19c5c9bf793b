"""Compare the declared signature of a kernel with its image."""

from __future__ import annotations

from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_readers.nvidia._entry import KernelEntry

_POINTER_BYTES = 8
#: TVM's extra tag of a tensor map (`FunctionInfo.arg_extra_tags`), which is passed by value.
TENSOR_MAP_TAG = 1
TENSOR_MAP_BYTES = 128


def check_declared(info: FunctionInfo, entry: KernelEntry) -> None:
    """Check that a function has the number and the sizes of the parameters of its kernel.

    Raises
    ------
    FormatError
        It has not. The text has both signatures.
    """
    if entry.params is None:
        return
    sizes = [_size(info, number) for number in range(len(info.arg_types))]
    actual = [place.size for place in entry.params]
    # A reference to a texture has no bytes in the parameter block.
    if len(sizes) == len(actual) and all(one == other or not other for one, other in zip(sizes, actual, strict=True)):
        return
    declared = ", ".join(f"{name} ({size} bytes)" for name, size in zip(info.arg_types, sizes, strict=True))
    image = ", ".join(f".{place.type} ({place.size} bytes)" if place.type else f"{place.size} bytes" for place in entry.params)
    raise FormatError(
        f"the declared arguments of the cuda kernel {info.name!r} are not those of its image: expected {len(actual)} arguments "
        f"({image or 'none'}), got {len(sizes)} ({declared or 'none'})",
        kind="cuda",
        function=info.name,
    )


def _size(info: FunctionInfo, number: int) -> int:
    """Return the bytes of an argument in the parameter block."""
    if info.arg_extra_tags[number : number + 1] == (TENSOR_MAP_TAG,):
        return TENSOR_MAP_BYTES
    param = info.interface.params[number] if info.interface is not None else None
    arg_type = info.arg_types[number]
    if param.kind == "buffer" if param is not None else arg_type == "handle":
        return _POINTER_BYTES
    return array_bytes(parse_dtype((param.type if param is not None else "") or arg_type))
