"""Options of targets: one that has no effect is an error, and not ignored."""

from __future__ import annotations

import pytest
from each_case import check_texts, raised, refusal

import devmod
from devmod_targets.authoring import check_target_options

SOURCES = {
    "opencl": "kernel void k(global float *x) {}",
    "webgpu": "@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k() { x[0] = 1; }",
    "vulkan": "#version 450\nlayout(set = 0, binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1; }\n",
    "hexagon": "void k(float *x) {}",
    "rocm": "__global__ void k(float *x) {}",
}


def test_an_unknown_option_is_an_error() -> None:
    check_texts(
        {
            "the target 'opencl -device=gpu' has the option -device; expected '-format'": "opencl -device=gpu",
            "the target 'opencl -cl-std=CL2.0' has the option -cl-std; expected '-format'. For the compiler, give options=['-cl-std=CL2.0']": "opencl -cl-std=CL2.0",
            "the target 'webgpu -a=1' has the option -a; the kind has no options": "webgpu -a=1",
            "the target 'vulkan -target-env=vulkan1.3' has the option -target-env; expected '-arch'": "vulkan -target-env=vulkan1.3",
            "the target 'hexagon -arch=v68 -vtcm=4' has the option -vtcm; expected '-arch'": "hexagon -arch=v68 -vtcm=4",
            "the target 'rocm -arch=gfx90a -formt=hip' has the option -formt; expected '-arch', '-format'. Did you mean '-format'?": "rocm -arch=gfx90a -formt=hip",
        },
        lambda target: refusal(
            devmod.CompileError, devmod.compile, SOURCES[target.partition(" ")[0]], target
        ),
    )


def test_a_compiler_names_the_options_of_its_kind() -> None:
    target = devmod.Target.parse("npu -arch=a1 -tiles=4")
    check_target_options(target, ("arch", "tiles"))
    with pytest.raises(devmod.CompileError, match="names an architecture, and npu has none"):
        check_target_options(target, ("tiles",))
    error = raised(devmod.CompileError, check_target_options, target, ("arch",))
    assert (str(error), error.kind) == (
        "the target 'npu -arch=a1 -tiles=4' has the option -tiles; expected '-arch'",
        "npu",
    )


@pytest.mark.parametrize(
    ("target", "language", "hint"),
    [
        *(
            (f"cuda -arch={arch}", "CUDA C++", ". Did you mean 'sm_86'?")
            for arch in ("86", "8.6", "sm86")
        ),
        ("cuda -arch=sm_860", "CUDA C++", ""),
        ("rocm -arch=1100", "HIP", ". Did you mean 'gfx1100'?"),
        ("rocm -arch=90a", "HIP", ". Did you mean 'gfx90a'?"),
        ("rocm -arch=navi31", "HIP", ""),
        ("hexagon -arch=68", "C", ". Did you mean 'v68'?"),
    ],
)
def test_an_architecture_without_its_prefix_has_a_hint(
    target: str, language: str, hint: str
) -> None:
    with pytest.raises(devmod.CompileError, match="architecture") as raised:
        devmod.compile("void main() {}", target, language=language)
    assert str(raised.value).partition(". Did you mean")[1:] == hint.partition(". Did you mean")[1:]
