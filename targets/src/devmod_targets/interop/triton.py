"""Kernels of Triton: those that it has compiled, and JIT functions, which it compiles here. `load` imports no Triton.

The signature comes from the source of the kernel, the block from the number of warps, and the size of the dynamic shared memory from the
metadata. Triton's launcher passes pointers to scratch memory after the arguments; the kernel's image has their number.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

import devmod
from devmod import Param, Target
from devmod.backend import COOPERATIVE_TAG, PROGRAMMATIC_TAG, array_bytes, parse_dtype
from devmod.errors import ArgumentError, FormatError, list_names
from devmod_readers.nvidia import read_cubin, read_ptx
from devmod_targets.authoring import Payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod_readers.nvidia import KernelEntry


__all__ = ["compile", "load"]

#: For each backend of Triton: the kind, the format of its binary, the text in which devmod reads sizes, and Triton's names of texts.
_BACKENDS = {
    "cuda": ("cuda", "cubin", {"ptx": "ptx", "llir": "ll", "ttgir": "ttgir", "ttir": "ttir"}),
    "hip": ("rocm", "hsaco", {"amdgcn": "asm", "llir": "ll", "ttgir": "ttgir", "ttir": "ttir"}),
}
#: The pointers that Triton's launcher adds, in their order. Triton 3.2 and earlier have none, 3.3 has the first.
_HIDDEN = ("global_scratch", "profile_scratch")
#: The flags of a launch, by the field of the metadata.
_FLAGS = {"launch_cooperative_grid": COOPERATIVE_TAG, "launch_pdl": PROGRAMMATIC_TAG}


def load(kernel: Any, fmt: str = "") -> devmod.Module:
    """Return the module of a kernel that Triton compiled.

    The module has one function, with the kernel's name. A call passes the arguments of the Triton function without its constants. devmod
    adds the block, the shared memory and the hidden pointers. ``grid=`` counts blocks: the programs of Triton's grid, times ``num_ctas``.

    Parameters
    ----------
    kernel
        The result of ``triton.compile(…)``, of ``function.warmup(…)`` or of ``function[grid](…)``.
    fmt
        The format of the payload: "cubin" or "ptx", or "hsaco" for AMD. "": the binary that Triton made.

    Raises
    ------
    ArgumentError
        `kernel` is not a compiled kernel of Triton.
    FormatError
        The kernel has no such format or an argument that is not supported, or its image does not fit its signature.

    Notes
    -----
    Triton specializes a kernel for the arguments that it was compiled for: pointers and ints that are multiples of 16, and ints that are 1.
    The kernel is valid for such arguments alone.
    """
    return _module_of(payload_of(kernel, fmt))


def compile(  # noqa: A001 - what it does
    function: Any,
    signature: Mapping[str, Any],
    targets: str | Target | Iterable[str | Target],
    *,
    constants: Mapping[str, Any] | None = None,
    **options: Any,
) -> devmod.Module:
    """Compile a JIT function with Triton, and return its module. No driver is needed.

    Parameters
    ----------
    function
        A function with ``@triton.jit``. Of one with ``@triton.autotune``, the configurations are not used.
    signature
        The types of the arguments by name, in Triton's notation: ``{"x": "*fp32", "n": "i32"}``. ``"*fp32:16"`` promises a multiple of
        16, and ``"i32:1"`` the value 1, without which the kernel is called.
    targets
        One or more targets: "cuda -arch=sm_90" for a cubin, "cuda -arch=compute_90" for PTX, "rocm -arch=gfx942".
    constants
        The values of the arguments that are ``tl.constexpr``, and of others that are the same in each call.
    options
        Triton's options, such as ``num_warps=8``, ``num_stages=3`` or ``num_ctas=2``.

    Returns
    -------
    Module
        The module of the target; of several targets, or of several architectures, a bundle of them.

    Raises
    ------
    ToolchainNotFoundError
        Triton is not installed.
    CompileError
        An argument has neither a type nor a value, an option or a target is not supported, or Triton refuses the function.

    Examples
    --------
    >>> module = triton.compile(
    ...     add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, ["cuda -arch=sm_80,sm_90", "rocm -arch=gfx1100"],
    ...     constants={"BLOCK": 256}, num_warps=8,
    ... )  # doctest: +SKIP
    >>> module["add"](x, y, out, n, grid=(n + 255) // 256)  # doctest: +SKIP
    """
    from devmod_targets.triton.kernels import compile_kernel, payload_format

    several = [targets] if isinstance(targets, (str, Target)) else list(targets)
    modules = []
    for target in several:
        for variant in (Target.parse(target) if isinstance(target, str) else target).variants():
            fmt = payload_format(variant)
            kernel = compile_kernel(function, signature, constants or {}, options, variant)
            modules.append(_module_of(payload_of(kernel, fmt)))
    return modules[0] if len(modules) == 1 else devmod.bundle(*modules)


def payload_of(kernel: Any, fmt: str = "") -> Payload:
    """Return the payload of a kernel that Triton compiled. The parameters and the errors are those of `load`."""
    try:
        asm, metadata, source = dict(kernel.asm), kernel.metadata, kernel.src
        name, backend, signature = str(metadata.name), str(metadata.target.backend), dict(source.signature)
    except (AttributeError, TypeError, ValueError):
        raise ArgumentError(
            f"triton.load(kernel): expected a kernel that Triton compiled, such as triton.compile(…) or function.warmup(…), got "
            f"{type(kernel).__name__}",
            argument="kernel",
        ) from None
    if backend not in _BACKENDS:
        raise FormatError(f"the Triton kernel {name!r} is for the backend {backend!r}; devmod supports {list_names(_BACKENDS)}")
    kind, binary, texts = _BACKENDS[backend]
    fmt = fmt or binary
    if fmt != binary and (kind, fmt) != ("cuda", "ptx"):
        expected = "'cubin' or 'ptx'" if kind == "cuda" else repr(binary)
        raise FormatError(f"the Triton kernel {name!r} is for {kind}: expected fmt={expected}, got fmt={fmt!r}", kind=kind)
    if fmt not in asm:
        raise FormatError(f"the Triton kernel {name!r} has no {fmt!r}; it has: {list_names(asm)}", kind=kind, function=name)
    slots = expand_signature(name, signature, _constant_numbers(source), getattr(metadata, "tensordesc_meta", None))
    entry = _entry_of(name, asm) if kind == "cuda" else None
    slots += _hidden_slots(name, slots, entry, metadata)
    block = (int(metadata.num_warps) * _warp_size(metadata), 1, 1)
    if entry is not None:
        _check_entry(name, slots, entry, block)
    interface = devmod.Interface([slot.param for slot in slots], block=block, shared_memory=int(metadata.shared))
    tags = [tag for field, tag in _FLAGS.items() if getattr(metadata, field, False)]
    info = devmod.FunctionInfo(name, [slot.arg_type for slot in slots], tags, interface=interface)
    code = asm[fmt].encode() if isinstance(asm[fmt], str) else bytes(asm[fmt])
    listings = {texts[key]: text for key, text in asm.items() if key in texts and isinstance(text, str)}
    return Payload(kind, code, fmt, {name: info}, listings, _origin(kind, metadata, source))


def _module_of(payload: Payload) -> devmod.Module:
    module = devmod.create_with_fallback(payload.kind, payload.code, payload.fmt, payload.fmap, payload.source)
    # `create` has no parameter for the origin.
    module.__dict__["_devmod_origin"] = payload.origin
    return module


def _constant_numbers(source: Any) -> set[int]:
    """Return the numbers of the arguments that are constants. Triton has a path for each: (number,), or more for a part of a tuple."""
    keys = getattr(source, "constants", None) or {}
    return {key[0] if isinstance(key, tuple) else key for key in keys if not isinstance(key, tuple) or len(key) == 1}


def _entry_of(name: str, asm: Mapping[str, Any]) -> KernelEntry | None:
    """Return the record of the kernel in its PTX or its cubin; None if neither has one with parameters."""
    entries: Mapping[str, KernelEntry] = {}
    if "ptx" in asm:
        entries = read_ptx(asm["ptx"], {name})
    elif "cubin" in asm:
        entries = read_cubin(asm["cubin"], {name})
    entry = entries.get(name)
    return entry if entry is not None and entry.params is not None else None


def _hidden_slots(name: str, slots: Sequence[Slot], entry: KernelEntry | None, metadata: Any) -> list[Slot]:
    """Return the pointers to scratch memory. One without memory is null in each call; one with memory is an argument."""
    sizes = [getattr(metadata, f"{each}_size", None) for each in _HIDDEN]
    count = sum(size is not None for size in sizes)
    if entry is not None and entry.params is not None:
        count = len(entry.params) - len(slots)
        if not 0 <= count <= len(_HIDDEN):
            raise FormatError(
                f"the image of the Triton kernel {name!r} does not fit its signature: it has {len(entry.params)} parameters; expected "
                f"{len(slots)} arguments and at most {len(_HIDDEN)} scratch pointers",
                function=name,
            )
    result = []
    for hidden, size in zip(_HIDDEN[:count], sizes, strict=False):
        if size:
            result.append(Slot("handle", devmod.Param(hidden, "buffer", "uint8", "rw", size=int(size)), 8))
        else:
            result.append(Slot("uint64", devmod.Param(hidden, "scalar", "uint64", default=0), 8))
    return result


def _check_entry(name: str, slots: Sequence[Slot], entry: KernelEntry, block: tuple[int, int, int]) -> None:
    assert entry.params is not None
    for number, (slot, place) in enumerate(zip(slots, entry.params, strict=True)):
        if slot.size != place.size:
            raise FormatError(
                f"the image of the Triton kernel {name!r} does not fit its signature: parameter {number + 1} has {place.size} bytes, and "
                f"{slot.param.name!r} has {slot.size}",
                function=name,
            )
    if entry.block is not None and entry.block != block:
        raise FormatError(
            f"the image of the Triton kernel {name!r} does not fit its metadata: it requires blocks of {entry.block} threads, and the "
            f"metadata has {block}",
            function=name,
        )


def _warp_size(metadata: Any) -> int:
    return int(getattr(metadata, "warp_size", None) or metadata.target.warp_size)


def _origin(kind: str, metadata: Any, source: Any) -> devmod.Origin:
    arch = str(metadata.target.arch)
    options = [f"{field}={getattr(metadata, field)}" for field in ("num_warps", "num_ctas", "num_stages") if hasattr(metadata, field)]
    function = getattr(source, "fn", None)
    text = getattr(function, "src", None)
    sources = {str(source.name): sha256(text.encode()).hexdigest()} if isinstance(text, str) else {}
    version = getattr(metadata, "triton_version", "")
    return devmod.Origin(f"{kind} -arch={f'sm_{arch}' if kind == 'cuda' else arch}", f"triton {version}".strip(), options, sources)


# -- The types of Triton's arguments, as parameters of devmod.
#
# Triton writes a type as "fp32", a pointer as "*fp32", one to constant data as "*kfp32", a constant as "constexpr". A tuple is passed
# as its elements. A tensor descriptor, ``tensordesc<fp32[16, 32]>``, is passed as several arguments:
#
# - CUDA's tensor map of 128 bytes if the metadata describes it; else the pointer, the lengths, the strides (i64 each) and two flags;
# - then the lengths (i32 each) and the strides (i64 each).
#
# Source: triton/backends/driver.py and triton/backends/nvidia/driver.py, versions 3.2 to 3.9.


_SCALARS = {
    "i1": "bool", "u1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32", "fp64": "float64",
}  # fmt: skip
#: The elements of pointers that no scalar has. "": a type that devmod does not have, so any array is accepted.
_ELEMENTS = _SCALARS | {
    "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz", "fp8e4b15": "",
}  # fmt: skip
_DESCRIPTOR = re.compile(r"tensordesc(?:_im2col)?<([^\[>]{1,64})\[([^\]]{0,256})\]")
_INPUT_RANK = re.compile(r",input_rank=(\d{1,2})")
_MAX_RANK = 8
_MAX_ARGUMENTS = 4096


class Slot(NamedTuple):
    """One argument of the kernel: its type in the FunctionInfo, its parameter, and its bytes."""

    arg_type: str
    param: Param
    size: int


def expand_signature(name: str, signature: Mapping[Any, Any], constants: Collection[int], descriptors: Any) -> list[Slot]:
    """Return the arguments that a kernel takes, in its order.

    Parameters
    ----------
    name
        The kernel, for messages.
    signature
        From the name or the number of an argument to its type.
    constants
        The numbers of the arguments that are constants.
    descriptors
        The descriptions of the tensor maps in the metadata; empty or None if there are none.

    Raises
    ------
    FormatError
        A type is not supported.
    """
    result: list[Slot] = []
    for number, (key, kind) in enumerate(signature.items()):
        if number not in constants:
            label = key if isinstance(key, str) else f"arg_{key}"
            result += _slots(name, label, kind, bool(descriptors), 0)
        if len(result) > _MAX_ARGUMENTS:
            raise FormatError(f"the Triton kernel {name!r} has more than {_MAX_ARGUMENTS} arguments", function=name)
    return result


def _slots(name: str, label: str, kind: Any, has_maps: bool, depth: int) -> Iterator[Slot]:
    if isinstance(kind, (tuple, list)) and depth < 8:
        for number, each in enumerate(kind):
            yield from _slots(name, f"{label}_{number}", each, has_maps, depth + 1)
    elif not isinstance(kind, str):
        raise _unsupported(name, label, kind)
    elif kind.startswith("tensordesc"):
        yield from _descriptor(name, label, kind, has_maps)
    elif kind.startswith("*"):
        yield _pointer(name, label, kind)
    elif kind == "nvTmaDesc":
        yield _tensor_map(label)
    elif kind != "constexpr":
        if kind not in _SCALARS:
            raise _unsupported(name, label, kind)
        yield _scalar(label, _SCALARS[kind])


def _pointer(name: str, label: str, kind: str) -> Slot:
    element = kind[1:]
    access = ""
    if element not in _ELEMENTS and element.startswith("k"):
        element, access = element[1:], "r"
    if element.startswith("*"):
        return Slot("handle", Param(label, "buffer", "uint64", access), 8)
    if element not in _ELEMENTS:
        raise _unsupported(name, label, kind)
    return Slot("handle", Param(label, "buffer", _ELEMENTS[element], access), 8)


def _scalar(label: str, dtype: str) -> Slot:
    return Slot(dtype, Param(label, "scalar", dtype), array_bytes(parse_dtype(dtype)))


def _tensor_map(label: str) -> Slot:
    return Slot("uint8x128", Param(label, "scalar", "uint8x128", align=64), 128)


def _descriptor(name: str, label: str, kind: str, has_map: bool) -> Iterator[Slot]:
    match = _DESCRIPTOR.match(kind)
    rank = _INPUT_RANK.search(kind)
    count = int(rank[1]) if rank else match[2].count(",") + 1 if match else 0
    if match is None or not 1 <= count <= _MAX_RANK:
        raise _unsupported(name, label, kind)
    axes = range(count)
    if has_map:
        yield _tensor_map(label)
    else:
        yield _pointer(name, label, f"*{match[1]}")
        yield from (_scalar(f"{label}_base_shape_{axis}", "int64") for axis in axes)
        yield from (_scalar(f"{label}_base_stride_{axis}", "int64") for axis in axes)
        yield _scalar(f"{label}_pads_with_nan", "bool")
        yield _scalar(f"{label}_rounds_to_tf32", "bool")
    yield from (_scalar(f"{label}_shape_{axis}", "int32") for axis in axes)
    yield from (_scalar(f"{label}_stride_{axis}", "int64") for axis in axes)


def _unsupported(name: str, label: str, kind: object) -> FormatError:
    return FormatError(f"the Triton kernel {name!r} has the argument {label!r} of type {kind!r}, which is not supported", function=name)
