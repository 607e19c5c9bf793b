"""A small kernel for each kind, which `devmod.doctor` runs on each device, and `devmod.verify` on
one where a candidate has failed.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any
from zlib import decompress

from pluggy import HookimplMarker

from devmod import FunctionInfo, Interface, Module, Param
from devmod import device as find_device
from devmod._plugins.devices import device_label, probe
from devmod._plugins.registry import local_kinds
from devmod.backend import GRID_TAGS, create_own, load_stored
from devmod.errors import DevmodError, ToolchainNotFoundError, describe_error
from devmod.worker import answer_items, answers

#: For a kernel on one device, in seconds.
_TIMEOUT = 30
#: Of each kind with a text form, the format and a kernel that writes 1 to the first element.
_TEXTS = {
    "cuda": (
        "ptx",
        ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry f(.param .u64 f_x)\n"
        "{ .reg .b64 %a<3>; ld.param.u64 %a1, [f_x]; cvta.to.global.u64 %a2, %a1; st.global.f32 [%a2], 0f3F800000; ret; }\n",
    ),
    "rocm": ("hip", 'extern "C" __global__ void f(float *x) { x[0] = 1; }'),
    "metal": ("metal", "kernel void f(device float *x [[buffer(0)]]) { x[0] = 1; }"),
    "opencl": ("cl", "__kernel void f(__global float *x) { x[0] = 1; }"),
    "webgpu": (
        "wgsl",
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn f() { x[0] = 1; }",
    ),
}
#: Of the others, the bytes of a module that `devmod.compile` wrote: GLSL for vulkan, and C for v65
#: of hexagon.
_MODULES = {
    "vulkan": (
        "eNpdUUlLw1AQnjRd1GqtOx4Ul6NSxA1BcDlIFAoevHgLMXnFYFpDErX1pIJ3FxSvaq2g/0LwP3kRnJmONDqP4c03yzfz5j2H/vH5Y+muXrbcyvWtvqbdv+15h/bBllMtVF"
        "tmrWWevkf7gbIczojZtZh9enXR8K3AKofXl/WKVVaP1fqBW3Eae0elkgrqUc1XryXv0IrmZhuWbaswfApOnqzoBuCFO91qmoaDfSY8QHmApuiJyQzoGmShDfrF1wMJ0PDO"
        "Qppvo7hTLISRU5hfmKF4DnTOo1g3pPAAVgDQi8mfx7oE8zRzflXHQ/4PBEnoQF7T2N42ihum7ftmGNU8ZXpuRZmOGyg7co8VIHfyD3eKWQB2UdMY02XmqsSSgg20UpwD7D"
        "Okjrg2ObMpk7F8yhv/hydiOM07ARhG7UOmDOfruDlgexDtdrzHUEfQpv6ER6V3imP0coBO3gfAsuCk+AbQygoH7WxKcKfMQZg4uxidrRJfTuLtUt8t9SRDiPP8T81+UxL/"
        "/ZtpfFVe9tQT00WcNiP7IqE3fiHqxXsds3O8g9bcpCvYoU9m+0b2JdQfuWNmlQ=="
    ),
    "hexagon": (
        "eNqNUs2KE0EQrp4Zs5rIsviHiod40lOzZvcgIpiF1dMcdL0K0sn0JEN2fpjpYAILsrAPsIt4liwhvsDi2YsX30Hw4iMoHsTY1V3DjuscLPhSXV3fdFV9qeMi3Z+Fb2fh0R"
        "u3yw4P9xeZyEVcHB3MExHL2WQ+ipJg0RuHocznaprJ9+FuKtRGZyH6fVkUx/mrT+6v14/9J4wxKM2FOZTRpsa2AyDNuQ0rcBda0IQG5Up8JXiE09esjZiFZyJm8hlDMIOL"
        "Okacq+T3GMIxuK/jg1UwdTHv1OQRDaq/800Fdd+XvT3TeaixBtSb7df2eUl3yegOcRP9eXtufXBMb06NBhCS777bge5PFz52H2K9K5rY0n6N5h/quGn+B4Dvv5fpJun2tP"
        "Lg1lUkyokYpAmwCzj1VpP5UTKS+YO272+3Ox1+j+uxeTBNimkMfJCM+VAUQ6BfvFc5cCUnykQijvrAc7mbpy8zEQRRMtBcW4MLpfKoN1ayAN5P41gm+qNiqF9Qogf/bUYj"
        "0gfnRrQrO+ORDjjRj+UyRR7Oj7hV0dQjf5k0c0gfxPUzPMQN0tMhfRHumb7QbtO5AeVu2r0sbY38HeK4UO6Y3T+vUlevBKyTR96J5p1onr/6b91HlpOV98i7VtPfczqvU/"
        "yZWQ2qPMQL+Hu+L+x0/arv/QFtuXkt"
    ),
}


@HookimplMarker("devmod")
def devmod_doctor(kind: str) -> list[tuple[str, str, str]]:
    """Return whether a small kernel runs on each device of the kind."""
    if kind not in _TEXTS and kind not in _MODULES:
        return []
    try:
        devices = {device_label(each): each.name for each in probe(kind)}
    except DevmodError:  # the row of the devices has it
        return []
    if not devices:
        return []
    problems = device_problems([*devices])
    rows = [
        ("kernel", "problem", f"{label} ({devices[label]}) does not run a small kernel: {text}")
        for label, text in problems.items()
    ]
    return rows or [("kernel", "ok", "a small kernel runs")]


def device_problems(labels: Sequence[str]) -> dict[str, str]:
    """Return why a small kernel does not run, for each device that does not run it. Each is tried
    in another process.

    Parameters
    ----------
    labels
        The devices, such as "opencl:1".
    """
    in_process = local_kinds()
    results = answers(
        __name__,
        labels,
        device_problem,
        _TIMEOUT,
        here=lambda label: label.partition(":")[0] in in_process,
    )
    problems = {}
    for label, (answer, end) in zip(labels, results, strict=True):
        if end is not None:
            problems[label] = f"its launch {end}"
        elif answer:
            problems[label] = answer
    return problems


def main(request: dict[str, Any]) -> None:
    """Run in the new process: answer with the problem of each device."""
    answer_items(request, device_problem)


def device_problem(label: str) -> str:
    """Build and run a small kernel on a device. Return what fails; "" if nothing does, or if the
    kind has no such kernel.
    """
    try:
        device = find_device(label)
        module = _small_module(device.kind)
        if module is None:
            return ""
        array = device.zeros((64,), "float32")
        function = module.get_function("f").on(device)
        if function.info.launch_param_tags:
            function(array, threads=1, block=1)
        else:
            function(array)
        value = array.numpy()[0].item()
    except Exception as error:  # noqa: BLE001 - a driver may raise anything
        if isinstance(error, ToolchainNotFoundError) and label.startswith("rocm:"):
            return ""  # the machine runs binaries, and has no compiler for the source
        if isinstance(error, DevmodError):
            return str(error)
        return describe_error(error)
    if value != 1:
        return f"it wrote {value!r}, and not 1"
    return ""


def _small_module(kind: str) -> Module | None:
    if kind in _MODULES:
        return load_stored(kind, decompress(b64decode(_MODULES[kind])))
    if kind not in _TEXTS:
        return None
    fmt, text = _TEXTS[kind]
    data: Any = text.encode()
    at: Any = None
    block = None
    if kind == "webgpu":
        data = {"f": data}
        at = (0, 0)
        block = (1, 1, 1)
    elif kind == "metal":
        data = {"f": data}
        at = 0
    interface = Interface([Param("x", "buffer", "float32", "rw", at=at)], block=block)
    info = FunctionInfo("f", ["handle"], GRID_TAGS, (), interface)
    return create_own(kind, data, fmt, {"f": info})
