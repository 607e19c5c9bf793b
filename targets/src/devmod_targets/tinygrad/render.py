"""The text of kernels by tinygrad's renderers, one for each kind. No vendor's compiler is opened. `main` serves in other processes."""

from __future__ import annotations

import pickle
from base64 import b64decode
from typing import Any

from tinygrad.codegen import do_to_program
from tinygrad.codegen.opt import tc
from tinygrad.device import Compiler
from tinygrad.dtype import AddrSpace
from tinygrad.helpers import Target
from tinygrad.renderer import Renderer, cstyle, wgsl
from tinygrad.uop.ops import Ops

from devmod.errors import describe_error
from devmod.worker import answer_items
from devmod_targets.tinygrad.record import expression, settings


class _Own(cstyle.CStyleLanguage):
    """The class behind each renderer: a given name of the kernel, parameters that are only read, and the prefix by itself."""

    name, prefix = "", ()

    def _render(self, uops: Any) -> Any:
        self.written = {each.src[0].buf_uop for each in uops if each.op is Ops.STORE}
        _, lines, buffers = super()._render(uops)
        self.parameters = [(text, uop.arg.slot, uop.addrspace is AddrSpace.ALU and uop.expr) for text, (uop, _) in buffers]
        return self.name, lines, buffers

    def render_kernel(self, function_name: str, kernel: Any, bufs: Any, uops: Any, prefix: Any = None) -> str:
        self.prefix = tuple(prefix or ())
        return super().render_kernel(function_name, kernel, bufs, uops)

    def _render_dtype(self, *arguments: Any, mutable: bool = True, **keywords: Any) -> str:
        is_read = not mutable and keywords.get("addrspace") is AddrSpace.GLOBAL
        return ("const " if is_read else "") + super()._render_dtype(*arguments, mutable=mutable, **keywords)

    def render_access(self, u: Any) -> str:
        """Return a load or a store. The cast of a pointer to one of vectors keeps `const`, or it would be a write for devmod."""
        text = super().render_access(u)
        is_read = u.addrspace is AddrSpace.GLOBAL and u.buf_uop not in self.written
        return f"*((const {text[3:]}" if is_read and text.startswith("*((") else text


def _plain(self: Any, target: Target) -> None:
    Renderer.__init__(self, target)
    self.compiler = Compiler()


class _OpenCL(cstyle.OpenCLRenderer, _Own):
    __init__ = _plain
    local_max = (256, 256, 64)


class _Metal(cstyle.MetalRenderer, _Own):
    __init__ = _plain
    local_max = (256, 256, 64)


class _Cuda(cstyle.CUDARenderer, _Own):
    def __init__(self, target: Target) -> None:
        _plain(self, target)
        self.tensor_cores = tc.get_cuda(target.arch)


class _Rocm(cstyle.CUDARenderer, _Own):
    """CUDA C++, which devmod compiles for AMD: HIP's text of tinygrad calls ROCm's device library."""

    __init__ = _plain
    shared_max = 65536


class _WebGPU(wgsl.WGSLRenderer, _Own):
    __init__ = _plain
    infinity = "inf()"
    shared_max = 16384

    def buf_map(self, u: Any) -> str:
        return "u32" if u.op is Ops.PARAM and u not in self.written and wgsl.is_packed(u) else super().buf_map(u)

    def render_load(self, x: str, u: Any) -> str:
        return x if u.buf_uop.op is Ops.PARAM and u.buf_uop not in self.written else super().render_load(x, u)

    def render_kernel(self, function_name: str, kernel: Any, bufs: Any, uops: Any, prefix: Any = None) -> str:
        text = super().render_kernel(function_name, kernel, bufs, uops)
        for name, (uop, _) in bufs:
            if uop not in self.written:
                text = text.replace(f"var<storage,read_write>{name}:", f"var<storage,read>{name}:")
        infinity = "fn inf() -> f32 { let bits = 0x7f800000u; return bitcast<f32>(bits); }\n"
        return text.replace("@group(0) @binding(0)\nvar<uniform> INFINITY : f32;\n", infinity)


#: For each kind: the renderer, and the architecture of a target without one.
KINDS: dict[str, tuple[type[Renderer], str]] = {
    "opencl": (_OpenCL, "cl_khr_fp16,cl_khr_fp64"),
    "webgpu": (_WebGPU, "shader-f16"),
    "cuda": (_Cuda, "sm_80"),
    "rocm": (_Rocm, "sm_80"),
    "metal": (_Metal, ""),
}


def render(item: list[str]) -> dict[str, Any]:
    """Return the text and the launch of a kernel, or {"error": text}.

    Parameters
    ----------
    item
        The kind, tinygrad's architecture, the kernel's name, and its tree as pickled bytes in base64, which `record` made.
    """
    kind, arch, name, tree = item
    renderer: Any = KINDS[kind][0](Target(kind.upper(), arch=arch))
    renderer.name = name
    try:
        program = do_to_program(pickle.loads(b64decode(tree)), renderer)  # noqa: S301 - this program pickled it
        info = program.arg
        text = next(each.arg for each in program.src if each.op is Ops.SOURCE)
        return {
            "text": text,
            "prefix": renderer.prefix,
            "parameters": renderer.parameters,
            "grid": [expression(each) for each in info.global_size],
            "block": list(info.local_size or (1, 1, 1)),
        }
    except Exception as error:  # noqa: BLE001 - tinygrad has assertions for what it cannot render
        return {"error": describe_error(error)}


def main(request: dict[str, Any]) -> None:
    """Render kernels in the new process."""
    with settings():
        answer_items(request, render)
