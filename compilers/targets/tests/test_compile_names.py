"""`devmod.compile(…, aliases=…)`: parameters with one name in all variants of a kernel; and
`subgroup=`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from each_case import check_texts, refusal

import devmod
from devmod_workbench._cli import main

#: Blocks at one binding, as ggml's shaders have them: a variant uses some of them.
VARIANT = """
#version 450
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer A {A_type data_a[];};
layout(binding = 0) readonly buffer A16 {uint16_t data_a_packed16[];};
layout(binding = 0) readonly buffer A32 {uint data_a_packed32[];};
layout(binding = 1) writeonly buffer D {uint data_d[];};
layout(push_constant) uniform Parameters { uint at; } parameters;
void main() { data_d[0] = uint(VIEW[parameters.at]); }
"""
ALIASES = {
    "data_a": ["data_a_packed16", "data_a_packed32"],
    "p": ["parameters"],
    "other": ["no_such_name"],
}
VIEWS = {"data_a": "uint8_t", "data_a_packed16": "uint8_t", "data_a_packed32": "uint8_t"}


def variant(view: str, **arguments: Any) -> devmod.Module:
    source = VARIANT.replace(
        "16bit_storage : require",
        "16bit_storage : require\n#extension GL_EXT_shader_8bit_storage : require",
    )
    for each in VIEWS:
        # glslang keeps a block that is not used; a preprocessor of the project drops it.
        if each != view:
            source = "\n".join(line for line in source.splitlines() if f" {each}[];" not in line)
    return devmod.compile(
        source,
        "vulkan",
        name=f"get_{view}",
        defines={"VIEW": view, "A_type": "uint8_t"},
        **arguments,
    )


def names(module: devmod.Module) -> list[str]:
    (info,) = module.functions.values()
    assert info.interface is not None
    return [param.name for param in info.interface.params]


def test_an_argument_has_one_name_in_each_variant() -> None:
    assert [names(variant(view)) for view in VIEWS] == [[view, "data_d", "at"] for view in VIEWS]
    for view in VIEWS:
        module = variant(view, aliases=ALIASES)
        assert names(module) == ["data_a", "data_d", "at"]
        (info,) = module.functions.values()
        assert info.interface is not None
        assert [block.name for block in info.interface.blocks] == ["p"]


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("opencl", "kernel void f(global float *from, int count) { from[0] = count; }"),
        (
            "cuda -arch=sm_90",
            'extern "C" __global__ void f(float *from, int count) { from[0] = count; }',
        ),
        (
            "rocm -arch=gfx90a",
            'extern "C" __global__ void f(float *from, int count) { from[0] = count; }',
        ),
        ("hexagon -arch=v68", "void f(float *from, int count) { from[0] = count; }"),
        (
            "metal",
            "kernel void f(device float *from [[buffer(0)]], constant int &count [[buffer(1)]]) { from[0] = count; }",
        ),
        (
            "webgpu",
            "@group(0) @binding(0) var<storage, read_write> from: array<f32>; @group(0) @binding(1) var<uniform> count: i32;"
            "@compute @workgroup_size(1) fn f() { from[0] = f32(count); }".replace("from", "from_"),
        ),
    ],
)
def test_the_parameters_of_each_kind_have_aliases(target: str, source: str) -> None:
    aliases = {"x": ["from", "from_"], "n": ["count"]}
    try:
        module = devmod.compile(source, target, aliases=aliases)
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))
    assert names(module) == ["x", "n"]
    assert names(devmod.loads(devmod.dumps(module))) == ["x", "n"]
    if target == "opencl":
        assert module.inspect_source() == source


TWO = "kernel void f(global float *a, global float *b, local float *s) { a[0] = b[0] + s[0]; }"


def test_defaults_have_the_names_of_aliases() -> None:
    module = devmod.compile(
        TWO, "opencl", aliases={"scratch": ["s"]}, local={"scratch": devmod.Local(4)}
    )
    assert names(module) == ["a", "b", "scratch"]


def test_wrong_aliases() -> None:
    check_texts(
        {
            "aliases= gives two parameters of the opencl function 'f' the name 'x': 'a' and 'b'. Only one of them can have it": {
                "x": ["a", "b"]
            },
            "aliases= gives two parameters of the opencl function 'f' the name 'a': 'a' and 'b'. Only one of them can have it": {
                "a": ["b"]
            },
            "aliases= has 'a' twice: for 'x' and for 'y'": {"x": ["a"], "y": ["a"]},
            "aliases= is a sequence of strings, not 'ab'": {"x": "ab"},
            "aliases= has 7; each is a string": {"x": [7]},
            "aliases= has the name ''; a name is a string of UTF-8 with characters": {"": ["a"]},
            "aliases= has an empty name for 'x': a parameter without a name has no alias": {
                "x": [""]
            },
            "aliases= is a map of a parameter's name to its names in the sources, not ['x']": ["x"],
        },
        lambda aliases: refusal(
            devmod.CompileError, devmod.compile, TWO, "opencl", aliases=aliases
        ),
    )


def test_two_blocks_have_no_common_alias() -> None:
    source = """#version 450
    layout(binding = 0) buffer X {int x[];};
    layout(binding = 1) uniform Q {int n;};
    layout(push_constant) uniform P {int m;} p;
    void main() { x[0] = n + p.m; }"""
    assert refusal(
        devmod.CompileError, devmod.compile, source, "vulkan", aliases={"both": ["p", "Q"]}
    ) == (
        "aliases= gives two blocks of the vulkan function 'main' the name 'both': 'Q' and 'p'. Only one of them can have it"
    )


def test_aliases_may_exchange_two_names() -> None:
    assert names(devmod.compile(TWO, "opencl", aliases={"a": ["b"], "b": ["a"]})) == ["b", "a", "s"]


def test_the_command_has_aliases_and_subgroups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "f.cl", tmp_path / "f.devmod"
    source.write_text(TWO)

    def run(*arguments: str) -> str:
        main(["compile", str(source), "-t", "opencl", "-o", str(output), *arguments])
        return capsys.readouterr().err

    assert run("--alias", "x=a,c", "--alias", "y=b", "--alias", "x=d") == ""
    assert names(devmod.load(output)) == ["x", "y", "s"]
    assert "--alias x=: expected names, such as data_a=data_a_packed16,data_a_packed32" in run(
        "--alias", "x="
    )
    assert (
        "--alias gives two parameters of the opencl function 'f' the name 'x': 'a' and 'b'"
        in run("--alias", "x=a,b")
    )
    assert "--subgroup 16 cannot be required of the opencl function 'f'" in run("--subgroup", "16")


GLSL = "#version 450\nlayout(local_size_x = 32) in; layout(binding = 0) buffer X { float x[]; }; void main() { x[0] = 1; }\n"
CUDA = 'extern "C" __global__ void f(float *x) { x[0] = 1; }'


def subgroup(module: devmod.Module) -> int | None:
    (info,) = module.functions.values()
    assert info.interface is not None
    return info.interface.subgroup


def test_a_subgroup_size_is_stored() -> None:
    module = devmod.compile(GLSL, "vulkan", name="f", subgroup=32)
    assert subgroup(devmod.loads(devmod.dumps(module))) == 32
    plain = devmod.compile(GLSL, "vulkan", name="f")
    assert subgroup(plain) is None
    assert module.code == plain.code  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("target", "size", "expected"),
    [("cuda -arch=sm_90", 32, None), ("rocm -arch=gfx90a", 64, 64), ("rocm -arch=gfx1100", 32, 32)],
)
def test_a_size_that_the_architecture_has(target: str, size: int, expected: int | None) -> None:
    try:
        assert subgroup(devmod.compile(CUDA, target, subgroup=size)) == expected
        with pytest.raises(devmod.CompileError) as caught:
            devmod.compile(CUDA, target, subgroup=16)
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))
    kind = target.partition(" ")[0]
    assert (
        str(caught.value)
        == f"subgroup=16 contradicts the source: the {kind} function 'f' runs with subgroups of {size} threads"
    )
    assert caught.value.argument == "subgroup"


def test_a_size_that_the_source_requires() -> None:
    source = "__attribute__((intel_reqd_sub_group_size(16))) kernel void f(global float *x) { x[0] = get_sub_group_size(); }"
    assert (
        subgroup(devmod.compile(source, "opencl", subgroup=16))
        == subgroup(devmod.compile(source, "opencl"))
        == 16
    )
    assert (
        refusal(devmod.CompileError, devmod.compile, source, "opencl", subgroup=32)
        == "subgroup=32 contradicts the source: the opencl function 'f' runs with subgroups of 16 threads"
    )


START = "cannot be required of the"


@pytest.mark.parametrize(
    ("target", "source", "text"),
    [
        (
            "opencl",
            "kernel void f(global float *x) { x[0] = 1; }",
            "opencl function 'f': OpenCL C requires a size by an attribute of the kernel: __attribute__((intel_reqd_sub_group_size(16)))",
        ),
        (
            "webgpu",
            "@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn f() { x[0] = 1; }",
            "webgpu function 'f': WebGPU cannot require a size: a device chooses one between its subgroupMinSize and subgroupMaxSize; "
            "read @builtin(subgroup_size) in the shader",
        ),
        (
            "metal",
            "kernel void f(device float *x [[buffer(0)]]) { x[0] = 1; }",
            "metal function 'f': Metal cannot require a size: read [[threads_per_simdgroup]] in the kernel",
        ),
        (
            "hexagon -arch=v68",
            "void f(float *x) { x[0] = 1; }",
            "hexagon function 'f': the source does not require one",
        ),
    ],
)
def test_a_kind_that_cannot_require_a_size(target: str, source: str, text: str) -> None:
    assert (
        refusal(devmod.CompileError, devmod.compile, source, target, subgroup=16)
        == f"subgroup=16 {START} {text}"
    )


@pytest.mark.parametrize("size", [0, 3, 256, -1, True, 32.0, "32"])
def test_a_wrong_size(size: Any) -> None:
    assert (
        refusal(devmod.CompileError, devmod.compile, GLSL, "vulkan", subgroup=size)
        == f"subgroup= is the number of threads in a subgroup, a power of two from 1 to 128, not {size!r}"
    )
