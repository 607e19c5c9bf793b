"""Kernels of Triton: those that it has compiled, and JIT functions, which it compiles here. `load`
imports no Triton.

The signature comes from the source of the kernel, the block from the number of warps, and the size
of the dynamic shared memory from the metadata. Triton's launcher passes pointers to scratch memory
after the arguments; the kernel's binary has their number. `serve` is of `devmod_runtime.triton`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any

import devmod
from devmod import Target
from devmod.backend import COOPERATIVE_TAG, PROGRAMMATIC_TAG, Payload, module_of
from devmod.errors import (
    ArgumentError,
    CompileError,
    FormatError,
    ToolchainNotFoundError,
    list_names,
    not_installed,
)
from devmod_readers.nvidia import KernelEntry, read_cubin, read_ptx
from devmod_targets._arguments import Arguments
from devmod_targets.authoring import CompileRequest
from devmod_targets.triton.signature import Slot, expand_signature

__all__ = ["compile", "load"]

#: For each backend of Triton: the kind, the format of its binary, the text in which devmod reads
#: sizes, and Triton's names of texts.
_BACKENDS = {
    "cuda": ("cuda", "cubin", {"ptx": "ptx", "llir": "ll", "ttgir": "ttgir", "ttir": "ttir"}),
    "hip": ("rocm", "hsaco", {"amdgcn": "asm", "llir": "ll", "ttgir": "ttgir", "ttir": "ttir"}),
}
#: The pointers that Triton's launcher adds, in their order. Triton 3.2 and earlier have none, 3.3
#: has the first.
_HIDDEN = ("global_scratch", "profile_scratch")
#: The flags of a launch, by the field of the metadata.
_FLAGS = {"launch_cooperative_grid": COOPERATIVE_TAG, "launch_pdl": PROGRAMMATIC_TAG}


def load(kernel: Any, fmt: str = "") -> devmod.Module:
    """Return the module of a kernel that Triton compiled.

    The module has one function, with the kernel's name. A call passes the arguments of the Triton
    function without its constants. devmod adds the block, the shared memory and the hidden
    pointers. ``grid=`` counts blocks: the programs of Triton's grid, times ``num_ctas``.

    Parameters
    ----------
    kernel
        The result of ``triton.compile(…)``, of ``function.warmup(…)`` or of ``function[grid](…)``.
    fmt
        The format of the payload: "cubin" or "ptx", or "hsaco" for AMD. "": the binary that Triton
        made.

    Raises
    ------
    ArgumentError
        `kernel` is not a compiled kernel of Triton.
    FormatError
        The kernel has no such format or an argument that is not supported, or its binary does not
        fit its signature.

    Notes
    -----
    Triton specializes a kernel for the arguments that it was compiled for: pointers and ints that
    are multiples of 16, and ints that are 1. The kernel is valid for such arguments alone.
    """
    return module_of(payload_of(kernel, fmt))


def compile(  # noqa: A001 - what it does
    function: Any,
    signature: Mapping[str, Any],
    targets: str | Target | Iterable[str | Target],
    *,
    constants: Mapping[str, Any] | None = None,
    grid: int | str | Sequence[int | str] | None = None,
    sizes: Sequence[str] = (),
    **options: Any,
) -> devmod.Module:
    """Compile a JIT function with Triton, and return its module. No driver is needed.

    Parameters
    ----------
    function
        A function with ``@triton.jit``. The configurations of ``@triton.autotune`` are its
        variants, unless `constants` or `options` set one of their constants.
    signature
        The types of the arguments by name, in Triton's notation: ``{"x": "*fp32", "n": "i32"}``.
        ``"*fp32:16"`` promises a multiple of 16, and ``"i32:1"`` the value 1, without which the
        kernel is called.
    targets
        One or more targets: "cuda -arch=sm_90" for a cubin, "cuda -arch=compute_90" for PTX, "rocm
        -arch=gfx942".
    constants
        The values of the arguments that are ``tl.constexpr``, and of others that are the same in
        each call.
    grid
        The grid of the calls of an autotuned function, which then give none, as for
        `devmod.compile`: ``"ceildiv(n, BLOCK)"``.
    sizes
        The integer arguments that decide which variant is the best. Default: those of the
        autotuner's ``key``.
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
        An argument has neither a type nor a value, an option or a target is not supported, or
        Triton refuses the function.

    Examples
    --------
    >>> module = triton.compile(
    ...     add,
    ...     {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"},
    ...     ["cuda -arch=sm_80,sm_90", "rocm -arch=gfx1100"],
    ...     constants={"BLOCK": 256},
    ...     num_warps=8,
    ... )  # doctest: +SKIP
    >>> module["add"](x, y, out, n, grid=(n + 255) // 256)  # doctest: +SKIP
    """
    from devmod_targets._interfaces import with_grid
    from devmod_targets.triton.kernels import compile_kernel, configurations_of, payload_format
    from devmod_targets.tuning import TRITON_OPTIONS, join_variants

    given = {**(constants or {}), **options}

    def payload(target: Target, values: Mapping[str, Any]) -> Payload:
        own = dict(constants or {})
        own_options = dict(options)
        for name, value in values.items():
            if name in TRITON_OPTIONS:
                own_options[name] = value
            else:
                own[name] = value
        fmt = payload_format(target)
        result = payload_of(compile_kernel(function, signature, own, own_options, target), fmt)
        if grid is None:
            return result
        return result.replace(fmap=with_grid(result.fmap, grid))

    def payloads(target: Target) -> list[Payload]:
        variants, keys = configurations_of(function, target.kind)
        if not variants or not given.keys().isdisjoint(variants[0]):
            if grid is not None or sizes:
                raise CompileError(
                    "grid= and sizes= are for a function with variants: those of @triton.autotune, whose constants the call does not give",
                    kind=target.kind,
                )
            return [payload(target, {})]
        request = CompileRequest("", target, language="Triton")
        own = Arguments(sizes=sizes, grid=grid)
        return join_variants(request, own, lambda values: payload(target, values), variants, keys)

    several = [targets] if isinstance(targets, (str, Target)) else list(targets)
    modules: list[devmod.Module] = []
    for target in several:
        if isinstance(target, str):
            target = Target.parse(target)
        for variant in target.variants():
            modules += map(module_of, payloads(variant))
    if len(modules) == 1:
        return modules[0]
    return devmod.bundle(*modules)


def __getattr__(name: str) -> Any:
    """Return `serve` of devmod-runtime, which a build box does not have."""
    if name != "serve":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module("devmod_runtime.triton").serve
    except ModuleNotFoundError as error:
        if error.name != "devmod_runtime":
            raise
        raise ToolchainNotFoundError(
            f"devmod.interop.triton.serve cannot be used here: {not_installed('devmod-runtime', 'devmod-runtime')}"
        ) from None


def payload_of(kernel: Any, fmt: str = "") -> Payload:
    """Return the payload of a kernel that Triton compiled. The parameters and the errors are those
    of `load`.
    """
    try:
        asm = dict(kernel.asm)
        metadata = kernel.metadata
        source = kernel.src
        name = str(metadata.name)
        backend = str(metadata.target.backend)
        signature = dict(source.signature)
    except (AttributeError, TypeError, ValueError):
        raise ArgumentError(
            f"triton.load(kernel): expected a kernel that Triton compiled, such as triton.compile(…) or function.warmup(…), got "
            f"{type(kernel).__name__}",
            argument="kernel",
        ) from None
    if backend not in _BACKENDS:
        raise FormatError(
            f"the Triton kernel {name!r} is for the backend {backend!r}; devmod supports {list_names(_BACKENDS)}"
        )
    kind, binary, texts = _BACKENDS[backend]
    fmt = fmt or binary
    _check_format(name, kind, binary, fmt, asm)
    tensors = getattr(metadata, "tensordesc_meta", None)
    slots = expand_signature(name, signature, _constant_numbers(source), tensors)
    entry = None
    if kind == "cuda":
        entry = _entry_of(name, asm)
    slots += _hidden_slots(name, slots, entry, metadata)
    warp_size = int(getattr(metadata, "warp_size", None) or metadata.target.warp_size)
    block = (int(metadata.num_warps) * warp_size, 1, 1)
    if entry is not None:
        _check_entry(name, slots, entry, block)

    interface = devmod.Interface(
        [slot.param for slot in slots], block=block, shared_memory=int(metadata.shared)
    )
    tags = [tag for field, tag in _FLAGS.items() if getattr(metadata, field, False)]
    info = devmod.FunctionInfo(name, [slot.arg_type for slot in slots], tags, interface=interface)
    code = asm[fmt]
    if isinstance(code, str):
        code = code.encode()
    listings = {}
    for key, text in asm.items():
        if key in texts and isinstance(text, str):
            listings[texts[key]] = text
    origin = _origin(kind, metadata, source)
    return Payload(kind, bytes(code), fmt, {name: info}, listings, origin)


def _check_format(name: str, kind: str, binary: str, fmt: str, asm: Mapping[str, Any]) -> None:
    """Raise FormatError if a kernel has no such format. `binary` is that of the kind."""
    if fmt != binary and (kind, fmt) != ("cuda", "ptx"):
        expected = "'cubin' or 'ptx'" if kind == "cuda" else repr(binary)
        raise FormatError(
            f"the Triton kernel {name!r} is for {kind}: expected fmt={expected}, got fmt={fmt!r}",
            kind=kind,
        )
    if fmt not in asm:
        raise FormatError(
            f"the Triton kernel {name!r} has no {fmt!r}; it has: {list_names(asm)}",
            kind=kind,
            function=name,
        )


def _constant_numbers(source: Any) -> set[int]:
    """Return the numbers of the arguments that are constants. Triton has a path for each:
    (number,), or more for a part of a tuple.
    """
    result = set()
    for key in getattr(source, "constants", None) or {}:
        if not isinstance(key, tuple):
            result.add(key)
        elif len(key) == 1:
            result.add(key[0])
    return result


def _entry_of(name: str, asm: Mapping[str, Any]) -> KernelEntry | None:
    """Return the record of the kernel in its PTX or its cubin; None if neither has one with
    parameters.
    """
    if "ptx" in asm:
        entry = read_ptx(asm["ptx"]).get(name)
    elif "cubin" in asm:
        entry = read_cubin(asm["cubin"]).get(name)
    else:
        return None
    if entry is None or entry.params is None:
        return None
    return entry


def _hidden_slots(
    name: str, slots: Sequence[Slot], entry: KernelEntry | None, metadata: Any
) -> list[Slot]:
    """Return the pointers to scratch memory. One without memory is null in each call; one with
    memory is an argument.
    """
    sizes = [getattr(metadata, f"{each}_size", None) for each in _HIDDEN]
    count = sum(size is not None for size in sizes)
    if entry is not None and entry.params is not None:
        count = len(entry.params) - len(slots)
        if not 0 <= count <= len(_HIDDEN):
            raise FormatError(
                f"the binary of the Triton kernel {name!r} does not fit its signature: it has {len(entry.params)} parameters; expected "
                f"{len(slots)} arguments and at most {len(_HIDDEN)} scratch pointers",
                function=name,
            )
    result = []
    for hidden, size in zip(_HIDDEN[:count], sizes, strict=False):
        if size:
            memory = devmod.Param(hidden, "buffer", "uint8", "rw", size=int(size))
            result.append(Slot("handle", memory, 8))
        else:
            null = devmod.Param(hidden, "scalar", "uint64", default=0)
            result.append(Slot("uint64", null, 8))
    return result


def _check_entry(
    name: str, slots: Sequence[Slot], entry: KernelEntry, block: tuple[int, int, int]
) -> None:
    assert entry.params is not None
    for number, (slot, place) in enumerate(zip(slots, entry.params, strict=True)):
        if slot.size != place.size:
            raise FormatError(
                f"the binary of the Triton kernel {name!r} does not fit its signature: parameter {number + 1} has {place.size} bytes, and "
                f"{slot.param.name!r} has {slot.size}",
                function=name,
            )
    if entry.block is not None and entry.block != block:
        raise FormatError(
            f"the binary of the Triton kernel {name!r} does not fit its metadata: it requires blocks of {entry.block} threads, and the "
            f"metadata has {block}",
            function=name,
        )


def _origin(kind: str, metadata: Any, source: Any) -> devmod.Origin:
    arch = str(metadata.target.arch)
    if kind == "cuda":
        arch = f"sm_{arch}"
    options = []
    for field in ("num_warps", "num_ctas", "num_stages"):
        if hasattr(metadata, field):
            options.append(f"{field}={getattr(metadata, field)}")
    text = getattr(getattr(source, "fn", None), "src", None)
    sources = {}
    if isinstance(text, str):
        sources[str(source.name)] = sha256(text.encode()).hexdigest()
    version = getattr(metadata, "triton_version", "")
    toolchain = f"triton {version}".strip()
    return devmod.Origin(f"{kind} -arch={arch}", toolchain, options, sources)
