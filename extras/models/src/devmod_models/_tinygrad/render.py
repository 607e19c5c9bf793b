"""The text of kernels by tinygrad's renderers, one for each kind. They open no vendor's compiler.
`main` serves in other processes.
"""

from __future__ import annotations

import pickle
from base64 import b64decode
from dataclasses import replace
from functools import cache, partial
from inspect import signature
from typing import Any

from tinygrad import codegen
from tinygrad.codegen import do_to_program, gpudims
from tinygrad.codegen.decomp import dtype as words
from tinygrad.codegen.opt import Opt, OptOps, heuristic, tc
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.helpers import Target
from tinygrad.renderer import Estimates, Renderer, cstyle, wgsl
from tinygrad.schedule import indexing
from tinygrad.uop import ops, weak
from tinygrad.uop.ops import Ops, PatternMatcher, RewriteContext, UOp, UPat, ssimplify

from devmod.errors import ArgumentError, describe_error
from devmod.worker import answer_items
from devmod_models._patched import patched
from devmod_models._tinygrad.attention import Attention
from devmod_models._tinygrad.convolutions import Convolution
from devmod_models._tinygrad.layers import LayerInfo, layer_kernel
from devmod_models._tinygrad.products import NAME, Product, product_of
from devmod_models._tinygrad.record import expression, identifier, settings
from devmod_models._tinygrad.tiles import NAME as TILES
from devmod_models._tinygrad.tiles import Size, Tiles, language_of

#: The start of a load with a condition for clspv, and that of a volatile one.
GUARDED = "loaded = *(("
#: tinygrad's architecture for OpenCL C: the extensions of all texts.
OPENCL_C = "cl_khr_fp16,cl_khr_fp64"
#: The optimizations of tinygrad's heuristic, also where a kernel of fixed lengths is written by
#: hand.
HEURISTIC = "HEURISTIC"


class _Own(cstyle.CStyleLanguage):  # type: ignore[misc]
    """The class behind each renderer: the kernel has the name that `render` gives, and parameters
    that it only reads are constant.
    """

    def _render(self, uops: Any) -> Any:
        self.written = {each.src[0].buf_uop for each in uops if each.op is Ops.STORE}
        _, lines, buffers = super()._render(uops)
        self.parameters = [
            [text, uop.arg.slot, uop.addrspace is AddrSpace.ALU and identifier(uop.expr)]
            for text, (uop, _) in buffers
        ]
        return self.name, lines, buffers

    def render_kernel(
        self, function_name: str, kernel: Any, bufs: Any, uops: Any, prefix: Any = None
    ) -> Any:
        self.prefix = prefix or []  # of one source, once
        return super().render_kernel(function_name, kernel, bufs, uops)

    def _render_dtype(self, *arguments: Any, mutable: bool = True, **keywords: Any) -> Any:
        text: str = super()._render_dtype(*arguments, mutable=mutable, **keywords)
        if not mutable and keywords.get("addrspace") is AddrSpace.GLOBAL:
            return f"const {text}"
        return text

    def render_access(self, u: Any) -> str:
        """Return a load or a store. A cast to a pointer to vectors keeps `const`: devmod takes a
        cast without it for a write.
        """
        text: str = super().render_access(u)
        is_read = u.addrspace is AddrSpace.GLOBAL and u.buf_uop not in self.written
        if is_read and text.startswith("*(("):
            return f"*((const {text[3:]}"
        return text


class _WGSL(wgsl.WGSLRenderer, _Own):  # type: ignore[misc]
    """WGSL. Types of less than 4 bytes are packed in words, which are atomic only where the kernel
    writes them.
    """

    infinity = "inf()"
    # Not every compiler of WGSL has the bits of an f16.
    extra_matcher = (
        PatternMatcher(
            [
                (
                    UPat.var("a", dtypes.half) != UPat.var("a"),
                    lambda a: wgsl.is_nan(a.cast(dtypes.float32)),
                )
            ]
        )
        + wgsl.wgsl_matcher
    )

    def buf_map(self, u: Any) -> str:
        if u.op is Ops.PARAM and u not in self.written and wgsl.is_packed(u):
            return "u32"
        text: str = super().buf_map(u)
        return text

    def render_cast(self, u: Any, val: str) -> str:
        """Return a cast. Small integers are words in WGSL, so they wrap by the bits that they have.
        A constant may be the mask of all bits.
        """
        text: str = super().render_cast(u, val)
        rest = 32 - 8 * u.dtype.itemsize
        if rest <= 0 or not dtypes.is_int(u.dtype) or u.src[0].op is Ops.CONST:
            return text
        if dtypes.is_unsigned(u.dtype):
            return f"({text}&{(1 << 32 >> rest) - 1}u)"
        return f"(({text}<<{rest}u)>>{rest}u)"

    def render_load(self, x: str, u: Any) -> str:
        if u.buf_uop.op is Ops.PARAM and u.buf_uop not in self.written:
            return x
        text: str = super().render_load(x, u)
        return text

    def render_kernel(
        self, function_name: str, kernel: Any, bufs: Any, uops: Any, prefix: Any = None
    ) -> Any:
        text = super().render_kernel(function_name, kernel, bufs, uops)
        for name, (uop, _) in bufs:
            if uop not in self.written:
                text = text.replace(f",read_write>{name}:", f",read>{name}:")
        # tinygrad's is a uniform.
        infinity = "fn inf() -> f32 { let bits = 0x7f800000u; return bitcast<f32>(bits); }\n"
        return text.replace("@group(0) @binding(0)\nvar<uniform> INFINITY : f32;\n", infinity)


VOLATILE = f"{GUARDED}volatile "


def _guarded_load(ctx: Any, load: UOp, place: UOp, other: UOp, condition: UOp) -> str | None:
    """Return a load with a condition, without a branch: it reads the first element if the condition
    is false. clspv compiles some branches to invalid SPIR-V.
    """
    if place.addrspace is not AddrSpace.GLOBAL:
        return None
    buffer, index = place.src[:2]
    type_ = ctx.render_type(load)
    access = "const __global"
    if place.buf_uop in ctx.written:
        access = "__global"
    address = f"{ctx[buffer]}+({ctx[condition]}?{ctx[index]}:0)"
    value = f"{type_} {GUARDED}{access} {type_}*)({address}))"
    return f"({{ {value}; {ctx[condition]}?loaded:{ctx[other]}; }})"


class _Vulkan(cstyle.OpenCLRenderer):  # type: ignore[misc]
    """OpenCL C for clspv."""

    string_rewrite = (
        PatternMatcher(
            [
                (
                    UPat(
                        Ops.LOAD,
                        src=(UPat.var("place"), UPat.var("other"), UPat.var("condition")),
                        name="load",
                    ),
                    _guarded_load,
                )
            ]
        )
        + cstyle.OpenCLRenderer.string_rewrite
    )


def _renderer(base: type[Renderer], *missing: Ops, **limits: Any) -> Any:
    """Return the class of a renderer whose constructor opens no compiler. tinygrad computes
    operators that are `missing` by others.

    It writes divisions as tinygrad's for the CPU does: a product with the reciprocal is rounded
    twice, and a number between two integers becomes another one.
    """
    operators = {**base.code_for_op, Ops.FDIV: lambda a, b, dtype: f"({a}/{b})"}
    for each in missing:
        del operators[each]
    own = {"__init__": Renderer.__init__, "prefix": (), "code_for_op": operators}
    return type(base.__name__, (base, _Own), {**own, **limits})


#: For each kind: the renderer, and tinygrad's architecture for a target without one. tinygrad's HIP
#: calls ROCm's device library, so rocm gets OpenCL C. OpenCL's and Metal's devices have at least
#: this block, and Vulkan's this block and grid. Vulkan has no precision of sin beyond π, and clspv
#: compiles that of double to wrong code.
KINDS: dict[str, tuple[Any, str]] = {
    "opencl": (_renderer(cstyle.OpenCLRenderer, local_max=(256, 256, 64)), OPENCL_C),
    "vulkan": (
        _renderer(
            _Vulkan,
            Ops.SIN,
            global_max=(65535, 65535, 65535),
            local_max=(128, 128, 64),
            shared_max=16384,
        ),
        OPENCL_C,
    ),
    "webgpu": (_renderer(_WGSL, shared_max=16384), "shader-f16"),
    "cuda": (_renderer(cstyle.CUDARenderer), "sm_80"),
    "rocm": (
        _renderer(cstyle.OpenCLRenderer, local_max=(256, 256, 64), shared_max=65536),
        OPENCL_C,
    ),
    "metal": (_renderer(cstyle.MetalRenderer, local_max=(256, 256, 64)), ""),
}
#: The renderer for cuda without NVRTC.
_CUDA_IN_OPENCL_C = _renderer(
    cstyle.OpenCLRenderer,
    global_max=cstyle.CUDARenderer.global_max,
    local_max=cstyle.CUDARenderer.local_max,
    shared_max=cstyle.CUDARenderer.shared_max,
)


_own_grouped_dims = gpudims.get_grouped_dims
_own_words = words.l2i


def _words(op: Ops, dtype: Any, *operands: UOp) -> Any:
    """Return the words of tinygrad's 64-bit integers where a kind lacks them. Its own cast a float
    beyond 32 bits to the lower word, which WGSL clamps.
    """
    wide = (dtypes.int64, dtypes.uint64)
    if op is not Ops.CAST or dtype not in wide or operands[0].dtype not in dtypes.floats:
        return _own_words(op, dtype, *operands)
    number = operands[0].cast(dtypes.float32)
    word = words.l2i_dt[dtype]
    is_negative = number < 0
    magnitude = is_negative.where(-number, number).trunc()
    high = (magnitude * 2.0**-32).trunc()
    low = magnitude - high * 2.0**32
    pair = [each.cast(dtypes.uint32).bitcast(word) for each in (low, high)]
    negative = _own_words(Ops.NEG, word, *pair)
    return tuple(is_negative.where(a, b) for a, b in zip(negative, pair, strict=True))


class _GridError(Exception):
    """A kind has no grid that is as large."""


def _grouped_dims(prefix: str, dims: Any, limits: Any, reverse: bool = False) -> Any:
    """Return tinygrad's indices of a grid. A symbolic dimension that is too large, which it cannot
    split, becomes two by its factor.
    """
    large = (isinstance(each, UOp) and limits and each.vmax > max(limits) for each in dims)
    at = next((place for place, is_large in enumerate(large) if is_large), None)
    if at is None:
        return _own_grouped_dims(prefix, dims, limits, reverse)
    factor = dims[at].const_factor()
    if factor == 1 or len(dims) == len(limits):
        raise _GridError(
            f"a grid of up to {dims[at].vmax} blocks in one dimension, of which it has {max(limits)}"
        )
    split = (*dims[:at], ssimplify(dims[at] // factor), factor, *dims[at + 1 :])
    indices = _grouped_dims(prefix, split, limits, reverse)
    return [*indices[:at], indices[at] * factor + indices[at + 1], *indices[at + 2 :]]


def render(item: list[Any]) -> list[dict[str, Any]]:
    """Return for each kind the text and the launch of a kernel, or {"error": text}.

    {"limit": text} is a limit of the kind. What the kinds have in common is computed once.

    Parameters
    ----------
    item
        The kernel's tree as pickled bytes in base64, which `record` made; and for each kind a list
        of its name, tinygrad's architecture, the kernel's name, and if they are not the heuristic's
        the optimizations, a text such as "UPCAST 0 8, LOCAL 1 16".
    """
    tree, kinds = item
    sink = pickle.loads(b64decode(tree))  # noqa: S301 - this program pickled it
    # tinygrad counts the operations of a kernel that has no estimates.
    sink = sink.replace(arg=replace(sink.arg, estimates=Estimates()))
    rewriter = _Rewriter(codegen.graph_rewrite)
    with (
        patched(codegen, "graph_rewrite", rewriter),
        patched(ops, "graph_rewrite", rewriter.simplify),
        patched(weak, "graph_rewrite", rewriter.simplify),
        patched(indexing, "graph_rewrite", rewriter.simplify),
        patched(gpudims, "get_grouped_dims", _grouped_dims),
        patched(words, "l2i", _words),
    ):
        return [_render_kind(sink, *each) for each in kinds]


def _render_kind(
    sink: Any, kind: str, arch: str, name: str, optimizations: str = ""
) -> dict[str, Any]:
    """Return the text and the launch of a kernel for one kind."""
    if isinstance(sink.arg, LayerInfo) and sink.arg.layer:
        if optimizations not in ("", HEURISTIC):
            return {"error": "a layer has no optimizations"}
        for_processors = kind == "opencl" and not optimizations
        is_opencl_c = arch == OPENCL_C
        return layer_kernel(
            sink.arg.layer, kind, name, for_processors=for_processors, is_opencl_c=is_opencl_c
        )
    made = KINDS[kind][0]
    tensor_cores = []
    if kind == "cuda":
        if arch == OPENCL_C:
            made = _CUDA_IN_OPENCL_C
        else:
            tensor_cores = tc.get_cuda(arch)
    renderer = made(Target(kind.upper(), arch=arch))
    renderer.name = name
    renderer.tensor_cores = tensor_cores
    is_opencl_c = arch == OPENCL_C
    if is_opencl_c and (rendered := _product(sink, kind, name, optimizations)):
        return rendered
    if rendered := _tiles(sink, kind, name, optimizations, is_opencl_c=is_opencl_c):
        return rendered
    optimized = heuristic.hand_coded_optimizations
    if optimizations not in ("", HEURISTIC):
        optimized = partial(_optimized, text=optimizations)
    try:
        with patched(heuristic, "hand_coded_optimizations", optimized):
            program = do_to_program(sink, renderer)
        grid = list(map(expression, program.arg.global_size))
    except _GridError as error:
        return {"limit": str(error)}
    except ArgumentError as error:
        return {"length": str(error)}
    except Exception as error:  # noqa: BLE001 - tinygrad has assertions for what it cannot render
        return {"error": describe_error(error)}
    text = next(each.arg for each in program.src if each.op is Ops.SOURCE)
    return {
        "grid": grid,
        "block": list(program.arg.local_size or (1, 1, 1)),
        "text": text,
        "prefix": renderer.prefix,
        "parameters": renderer.parameters,
    }


def _product(sink: UOp, kind: str, name: str, optimizations: str) -> dict[str, Any] | None:
    """Return a kernel that is written by hand, with its optimizations, or None if there is none, or
    others are wanted. They are for processors, and so opencl's alone if none are named: `_Plan`
    gives other devices kernels with HEURISTIC.
    """
    wanted, _, rows = optimizations.partition(" ")
    if wanted != NAME and (wanted or kind != "opencl"):
        return None
    try:
        product: Any = product_of(sink)
        if len(sink.src) > 1:
            product = Attention(sink)
        if product is None:
            return None
        rendered = _with_copies(product, kind, name, int(rows or 0))
    except ValueError:  # what follows it is not elementwise
        return None
    return {**rendered, "optimizations": optimizations or NAME}


def _tiles(
    sink: UOp, kind: str, name: str, optimizations: str, *, is_opencl_c: bool
) -> dict[str, Any] | None:
    """Return a kernel in tiles, or None if there is none, or others are wanted.

    tinygrad optimizes no loop along a length that a call chooses: without a search, its kernel has
    tiles. Of fixed lengths, the heuristic's kernels are faster on some devices.
    """
    wanted, *numbers = optimizations.split(" ")
    is_default = optimizations in ("", HEURISTIC)
    if kind == "metal" or not (is_default or wanted == TILES):
        return None
    try:
        tiles = Tiles(sink)
        if is_default and not (tiles.is_open and tiles.is_worth):
            return None
        size = tiles.size(kind)
        if numbers:
            size = Size(*map(int, numbers))
        return tiles.rendered(name, kind, language_of(kind, is_opencl_c=is_opencl_c), size)
    except ValueError:
        return None


def _with_copies(product: Any, kind: str, name: str, rows: int) -> dict[str, Any]:
    """Return the text and the launch of a product: on opencl with copies of its second factor, if
    it can have them. A thread of a GPU has no memory for these.
    """
    if kind == "opencl" and isinstance(product, Product) and product.has_columns:
        try:
            return Convolution(product).rendered(name, rows)
        except ValueError:
            pass
    rendered: dict[str, Any] = product.rendered(name, rows)
    return rendered


def _optimized(scheduler: Any, text: str) -> Any:
    """Return a kernel with the optimizations of a text. It replaces tinygrad's heuristic."""
    for each in text.split(", "):
        name, axis, amount = each.split(" ")
        optimize(scheduler, name, int(axis), int(amount))
    return scheduler


def optimize(scheduler: Any, name: str, axis: int, amount: int) -> None:
    """Apply an optimization to a kernel. Raise KernelOptError if it cannot have it.

    CLAMP is devmod's: a range becomes a multiple of `amount`, and has its last element several
    times, which changes no maximum.
    """
    if name != "CLAMP":
        scheduler.apply_opt(Opt(OptOps[name], axis, amount))
        return
    range_ = scheduler.rngs[axis]
    length = int(range_.vmax) + 1
    padded = UOp.range(-(-length // amount) * amount, *range_.arg, dtype=range_.dtype)
    scheduler.ast = scheduler.ast.substitute({range_: padded.minimum(length - 1)})


class _Rewriter:
    """tinygrad's `graph_rewrite` that keeps the results for one kernel. A rewrite whose rules use
    the renderer is one of its kind alone.
    """

    def __init__(self, rewrite: Any) -> None:
        self._rewrite = rewrite
        self._results: dict[tuple[Any, Any, Any], Any] = {}
        self._contexts: dict[Any, list[RewriteContext]] = {}

    def __call__(self, sink: UOp, rules: Any, *, ctx: Any = None, **options: Any) -> Any:
        """Return what the rules make of a tree."""
        # A tuple has the renderer.
        if isinstance(ctx, (Renderer, tuple)) and _uses_context(rules):
            return self._rewrite(sink, rules, ctx=ctx, **options)
        key = (sink, rules, options.get("name"))
        if key not in self._results:
            self._results[key] = self._rewrite(sink, rules, ctx=ctx, **options)
        return self._results[key]

    def simplify(self, tree: UOp, rules: Any, ctx: Any = None, **options: Any) -> Any:
        """Return what the rules make of a part of a tree. Rules alone make the same of a node each
        time: tinygrad simplifies the indices of unrolled loops again and again.
        """
        if ctx is not None:
            return self._rewrite(tree, rules, ctx, **options)
        # A rule may simplify in turn, so those that are in use are not in the list.
        contexts = self._contexts.setdefault(rules, [])
        context = RewriteContext(rules, None)
        if contexts:
            context = contexts.pop()
        result = context.unified_rewrite(tree)
        contexts.append(context)
        return result


@cache
def _uses_context(rules: Any) -> bool:
    """Return whether a rule has the parameter `ctx`."""
    return any("ctx" in signature(function).parameters for _, function in rules.patterns)


def main(request: dict[str, Any]) -> None:
    """Render kernels in the new process."""
    with settings():
        answer_items(request, render)
