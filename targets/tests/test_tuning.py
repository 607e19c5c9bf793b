"""Variants of tuned functions: `tune`, `constraints`, `sizes`, `grid` and `block` of
`devmod.compile` and of a manifest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each_case import check_each

import devmod
from devmod import Interface
from devmod._cli import main
from devmod.backend import tuning_of, variant_interface
from devmod_targets.build import read_manifest
from devmod_targets.build.build import build_manifest, input_files
from devmod_targets.build.plan import plan_of

CL = """
kernel void scale(global float *x, int n) {
  int first = get_global_id(0) * TILE;
  for (int t = 0; t < TILE; t++)
    if (first + t < n) x[first + t] *= 2;
}
"""
CU = """
extern "C" __global__ void scale(float *x, int n) {
  int first = (blockIdx.x * blockDim.x + threadIdx.x) * TILE;
  for (int t = 0; t < TILE; t++)
    if (first + t < n) x[first + t] *= 2;
}
"""
MSL = """
#include <metal_stdlib>
using namespace metal;
constant int TILE [[function_constant(0)]];
kernel void scale(device float *x [[buffer(0)]], constant int &n [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  for (int t = 0; t < TILE; t++)
    if (int(i) * TILE + t < n) x[int(i) * TILE + t] *= 2;
}
"""
WGSL = """
override BLOCK: u32 = 32;
override TILE: i32 = 1;
struct P { n: i32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<uniform> p: P;
var<workgroup> s: array<f32, BLOCK>;
@compute @workgroup_size(BLOCK) fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
  s[0] = 2.0;
  for (var t = 0; t < TILE; t++) {
    let i = i32(id.x) * TILE + t;
    if (i < p.n) { x[i] *= s[0]; }
  }
}
"""
GLSL = """#version 450
layout(local_size_x_id = 0, local_size_x = 64) in;
layout(constant_id = 0) const uint BLOCK = 64;
layout(constant_id = 1) const int TILE = 1;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(push_constant) uniform P { int n; };
shared float s[BLOCK];
void main() {
  s[0] = 2;
  for (int t = 0; t < TILE; t++) {
    uint i = gl_GlobalInvocationID.x * TILE + t;
    if (i < n) x[i] *= s[0];
  }
}
"""
MACROS = (
    GLSL.replace("layout(constant_id = 0) const uint BLOCK = 64;\n", "")
    .replace("layout(constant_id = 1) const int TILE = 1;\n", "")
    .replace("local_size_x_id = 0, local_size_x = 64", "local_size_x = BLOCK")
)
TUNE: dict[str, Any] = {
    "tune": {"BLOCK": [64, 128], "TILE": [1, 2, 4]},
    "constraints": ["BLOCK * TILE <= 256"],
    "sizes": ["n"],
    "grid": "ceildiv(n, BLOCK * TILE)",
    "block": "BLOCK",
}
VALUES = [(64, 1), (64, 2), (64, 4), (128, 1), (128, 2)]
#: Sources whose receiver sets the constants: the target and the arguments of a compile.
SPECIALIZED: dict[str, tuple[str, dict[str, Any]]] = {
    "opencl": (CL, {}),
    "cuda -format=cuda": (CU, {}),
    "rocm -format=hip": (CU, {}),
    "webgpu": (WGSL, {}),
    "vulkan": (GLSL, {"language": "GLSL", "name": "scale"}),
}


def compiled(source: str, target: str, **arguments: Any) -> devmod.Module:
    return devmod.compile(source, target, **TUNE | arguments)


def interface_of(module: devmod.Module, name: str = "scale") -> Interface:
    interface = module.functions[name].interface
    assert interface is not None
    return interface


@pytest.mark.parametrize("target", SPECIALIZED)
def test_one_payload_has_all_variants_that_its_receiver_sets(target: str) -> None:
    source, arguments = SPECIALIZED[target]
    module = compiled(source, target, **arguments)
    interface = interface_of(module)
    assert interface.needs == ("tuned",)
    tuning = tuning_of(interface)
    assert tuning is not None
    assert (tuning.constants, tuning.sizes, tuning.specialized) == (("BLOCK", "TILE"), ("n",), True)
    found = [tuple(each.constants.values()) for each in tuning.variants]
    assert found == VALUES
    for variant in tuning.variants:
        block, tile = variant.constants.values()
        assert isinstance(block, int)
        assert isinstance(tile, int)
        assert variant.block_of() == (block,)
        assert variant.grid_of({"n": 1000}) == (-(-1000 // (block * tile)),)
        own = variant_interface(interface, variant)
        assert own.block in (None, (block, 1, 1))
        assert own.extra.get("workgroup_memory", 4 * block) == 4 * block
        assert own.needs == ()
    again = devmod.loads(devmod.dumps(module))
    assert again.functions == module.functions


def test_the_first_variant_is_the_payload_of_a_source() -> None:
    module = compiled(CL, "opencl")
    assert module.inspect_source().startswith("#define BLOCK 64\n#define TILE 1\n")
    again = compiled(
        CL, "opencl", tune={"TILE": [0.5, True, 2, "(1 + 1)"]}, constraints=[], grid=None, block=64
    )
    assert again.inspect_source().startswith("#define TILE 0.5f\n")
    assert interface_of(again).default_block == (64, 1, 1)


def test_a_variant_whose_kernel_is_different_has_an_interface() -> None:
    source = CL.replace("kernel", "__attribute__((reqd_work_group_size(BLOCK, 1, 1))) kernel")
    interface = interface_of(compiled(source, "opencl"))
    tuning = tuning_of(interface)
    assert tuning is not None
    blocks = [variant_interface(interface, each).block for each in tuning.variants]
    assert blocks == [(block, 1, 1) for block, _ in VALUES]
    assert [each.interface is None for each in tuning.variants] == [True] * 3 + [False] * 2
    with pytest.raises(devmod.CompileError) as caught:
        compiled(source, "opencl", block="BLOCK * 2")
    assert str(caught.value) == (
        "block= of 'scale' is (128, 1, 1), and the source fixes blocks of (64, 1, 1) threads. Leave block= out"
    )
    assert caught.value.__notes__ == ["The variant was BLOCK=64, TILE=1"]


def test_other_payloads_are_candidates() -> None:
    module = compiled(MACROS, "vulkan", language="GLSL", name="scale", block=None)
    found = []
    for each in module.imports:
        interface = interface_of(each)
        tuning = tuning_of(interface)
        assert tuning is not None
        assert not tuning.specialized
        found += [tuple(variant.constants.values()) for variant in tuning.variants]
        assert interface.block == (found[-1][0], 1, 1)
    assert (len(module.imports), found) == (5, VALUES)
    again = devmod.loads(devmod.dumps(module))
    assert [interface_of(each) for each in again.imports] == [
        interface_of(each) for each in module.imports
    ]


def test_equal_payloads_are_one_candidate() -> None:
    source = MACROS.replace("local_size_x = BLOCK", "local_size_x = 64").replace("s[BLOCK]", "s[1]")
    arguments: dict[str, Any] = {"language": "GLSL", "name": "scale", "block": None}
    grid = "ceildiv(n, 64 * TILE) + BLOCK * 0"
    module = compiled(source, "vulkan", grid=grid, **arguments)
    found = []
    for each in module.imports:
        tuning = tuning_of(interface_of(each))
        assert tuning is not None
        found.append([tuple(variant.constants.values()) for variant in tuning.variants])
    assert found == [[(64, 1), (128, 1)], [(64, 2), (128, 2)], [(64, 4)]]

    tune = {"BLOCK": [1, 2]}
    defines = {"TILE": 1}
    module = compiled(
        source, "vulkan", tune=tune, constraints=(), defines=defines, grid="BLOCK", **arguments
    )
    assert module.kind == "vulkan"
    with pytest.raises(devmod.CompileError) as caught:
        compiled(
            source, "vulkan", tune=tune, constraints=(), defines=defines, grid="n", **arguments
        )
    assert str(caught.value) == (
        "tune= has no effect: the payloads of all variants are equal. Use 'BLOCK' in the source"
    )


def test_two_files_of_one_function_join() -> None:
    one = compiled(CL, "opencl", tune={"BLOCK": [64], "TILE": [1]})
    other = compiled(CL, "opencl", tune={"BLOCK": [256], "TILE": [1]})
    joined = devmod.loads(devmod.dumps(devmod.bundle(one, other)))
    values = []
    for each in joined.imports:
        tuning = tuning_of(interface_of(each))
        assert tuning is not None
        values += [variant.constants["BLOCK"] for variant in tuning.variants]
    assert values == [64, 256]


def test_several_functions_have_expressions_of_their_own() -> None:
    source = CL + "kernel void other(global float *y, int m) { if (m > 0) y[0] = TILE; }"
    module = compiled(
        source,
        "opencl",
        sizes=["n", "m"],
        grid={"scale": "n"},
        block={"scale": "BLOCK", "other": 32},
    )
    scale, other = interface_of(module), interface_of(module, "other")
    assert scale.extra["tune"]["grid"] == ["n"]
    assert scale.extra["tune"]["sizes"] == ["n"]
    assert scale.default_block is None
    assert "grid" not in other.extra["tune"]
    assert other.extra["tune"]["sizes"] == ["m"]
    assert other.default_block == (32, 1, 1)
    with pytest.raises(devmod.CompileError) as caught:
        compiled(source, "opencl", grid={"scal": "n"})
    assert str(caught.value) == (
        "grid= has 'scal', and the source has no such function; it has: 'scale', 'other'. Did you mean 'scale'?"
    )


NOT_TUNED = "is for a tuned function: pass tune= too"
LISTS = "tune=: expected constants with lists of values, such as {'BLOCK': [64]}, got"
#: Changes of the arguments, and the error.
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"tune": None}, f"constraints= {NOT_TUNED}"),
    ({"tune": None, "constraints": ()}, f"sizes= {NOT_TUNED}"),
    ({"tune": [1]}, "tune=: expected a map of constants to lists of values, got [1]"),
    ({"tune": {"a b": [1]}}, f"{LISTS} {{'a b': [1]}}"),
    ({"tune": {"TILE": 2}}, f"{LISTS} {{'TILE': 2}}"),
    (
        {"tune": {"BLOCK": [64], "TILE": [1, True]}},
        "tune= of 'scale' is invalid: two variants have the values (64, True)",
    ),
    (
        {"tune": {"BLOCK": [64], "TILE": []}},
        "tune= has 0 variants that meet constraints=; expected 1 to 1,024",
    ),
    (
        {"tune": {"BLOCK": [1], "TILE": [1], "X": [1, 2]}},
        "tune= has 'X', which neither the source nor grid= and block= use",
    ),
    (
        {"tune": {"BLOCK": list(range(1, 1026)), "TILE": [1]}, "constraints": ()},
        "tune= has 1,025 variants that meet constraints=; expected 1 to 1,024",
    ),
    (
        {"tune": {"BLOCK": list(range(1001)), "TILE": list(range(1000))}},
        "tune= has 1,001,000 variants that meet constraints=; expected 1 to 1,024",
    ),
    (
        {"constraints": ["BLOCK > 128"]},
        "tune= has 0 variants that meet constraints=; expected 1 to 1,024",
    ),
    ({"constraints": "B"}, "constraints=: expected a list of strings, got 'B'"),
    (
        {"constraints": ["BLOCK"]},
        "constraints=: 'BLOCK' is no comparison; expected one such as 'columns % 4 == 0'",
    ),
    (
        {"constraints": ["WIDTH < 3"]},
        "constraints=: 'WIDTH < 3' has the unknown name 'WIDTH'; the constants are 'BLOCK', 'TILE'",
    ),
    (
        {"constraints": ["BLOCK % (TILE - 1) == 0"]},
        "constraints=: 'BLOCK % (TILE - 1) == 0' has no value for BLOCK=64, TILE=1: BLOCK % (TILE - 1) divides by zero",
    ),
    (
        {"sizes": ["x"]},
        "sizes= has 'x', which is no integer argument of the source's functions",
    ),
    (
        {"grid": "k"},
        "tune= of 'scale' is invalid: the grid of a tuned function: unknown name 'k'; expected one of 'BLOCK', 'TILE', 'n'",
    ),
    (
        {"block": ["BLOCK", "n"]},
        "tune= of 'scale' is invalid: the block of a tuned function: unknown name 'n'; expected one of 'BLOCK', 'TILE'",
    ),
    ({"grid": ["n"] * 4}, "grid=: expected one to three expressions, got 4"),
    ({"grid": 2.5}, "grid=: expected an integer or an expression, got 2.5"),
    ({"block": "TILE - 1"}, "block= of 'scale' is invalid: the block is 0; expected at least 1"),
    (
        {"block": None},
        "block= of 'scale' is missing: grid= counts blocks. Pass it, such as block='BLOCK'",
    ),
    (
        {"defines": {"TILE": 2}},
        "the constant 'TILE' is in tune= and in defines=; expected one of them",
    ),
    (
        {"tune": {"BLOCK": [64], "TILE": ["\n"]}, "constraints": ()},
        "tune= is invalid: the constant 'TILE' of the opencl source cannot be '\\n': expected an int, a float, a bool, or the text of a define",
    ),
]


def test_a_mistake_is_an_error() -> None:
    def check(case: tuple[dict[str, Any], str]) -> None:
        with pytest.raises(devmod.CompileError) as caught:
            compiled(CL, "opencl", **case[0])
        assert str(caught.value) == case[1]

    check_each(MISTAKES, check)
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(CL, "opencl", defines={"TILE": 1}, block="BLOCK")
    assert str(caught.value) == (
        "block= of 'scale' is an expression of constants, which only a tuned function has: pass tune= too, or numbers"
    )


def test_a_variant_that_does_not_compile_is_named() -> None:
    source = CL.replace("#define", "") + "#if TILE == 4\n#error too large\n#endif\n"
    with pytest.raises(devmod.CompileError) as caught:
        compiled(source, "opencl")
    assert caught.value.__notes__ == ["The variant was BLOCK=64, TILE=4"]
    assert "too large" in caught.value.log


def test_the_receiver_must_be_able_to_set_a_constant() -> None:
    with pytest.raises(devmod.CompileError) as caught:
        compiled("#undef TILE\n#define TILE 3\n" + CL, "opencl")
    assert str(caught.value) == (
        "tune= is invalid: the opencl source defines 'TILE' unconditionally, so it cannot be specialized; write #ifndef TILE around its #define"
    )
    guarded = compiled("#ifndef TILE\n#define TILE 3\n#endif\n" + CL, "opencl")
    assert guarded.kind == "opencl"


def test_a_variant_may_not_take_other_arguments() -> None:
    source = CL.replace("int n)", "int n\n#if TILE == 2\n, int m\n#endif\n)")
    with pytest.raises(devmod.CompileError) as caught:
        compiled(source, "opencl")
    assert str(caught.value) == (
        "tune= is invalid: the function 'scale' of a variant takes other arguments than that of the first variant"
    )
    assert caught.value.__notes__ == ["The variant was BLOCK=64, TILE=2"]


def test_a_function_of_a_shader_without_the_constants_is_not_tuned() -> None:
    source = WGSL + "@compute @workgroup_size(1) fn other() { x[0] = f32(p.n); }"
    module = compiled(source, "webgpu", block={"scale": "BLOCK"})
    assert tuning_of(interface_of(module)) is not None
    other = interface_of(module, "other")
    assert ("tune" in other.extra, other.needs) == (False, ())


def test_constants_of_a_pipeline_have_types() -> None:
    for tune, message in (
        (
            {"BLOCK": [64], "TILE": [1, 0.5]},
            "tune=: the constant 'TILE' has the type int32, and cannot be 0.5",
        ),
        (
            {"BLOCK": [64, -1], "TILE": [1]},
            "tune=: the constant 'BLOCK' has the type uint32, and cannot be -1",
        ),
        (
            {"BLOCK": [64], "TILE": [1], "WIDTH": [1]},
            "tune= has 'WIDTH', and the webgpu function 'scale' has the constants 'BLOCK', 'TILE'. Declare all of tune= in the shader, or none",
        ),
    ):
        with pytest.raises(devmod.CompileError) as caught:
            compiled(WGSL, "webgpu", tune=tune, constraints=())
        assert str(caught.value) == message


def test_the_command_has_the_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "scale.cl"
    source.write_text(CL)
    command = ["compile", str(source), "-q", "-t", "opencl", "-o", str(tmp_path / "k.devmod")]
    tune = ["--tune", "BLOCK=64,128", "--tune", "TILE=1,2,4", "--constraint", "BLOCK * TILE <= 256"]
    launch = ["--size", "n", "--grid", "ceildiv(n, BLOCK * TILE)", "--block", "BLOCK"]
    assert main([*command, *tune, *launch]) == 0
    assert devmod.load(tmp_path / "k.devmod").functions == compiled(CL, "opencl").functions

    for arguments, message in (
        (tune, "--tune has 'BLOCK', which neither the source nor --grid and --block use"),
        (
            ["--tune", "BLOCK"],
            "--tune BLOCK: expected a constant and its values, such as BLOCK=64,128",
        ),
        (
            ["--grid", "n,"],
            "--grid n,: expected blocks in x, y, z, such as 'ceildiv(n, BLOCK)' or blur='n,m'",
        ),
        (["--tune", "TILE=true,x,0.5", *launch[2:4], "--block", "64"], ""),
    ):
        assert main([*command, *arguments]) != 0, arguments
        assert message in capsys.readouterr().err


# -- a manifest

MANIFEST = """
targets = ["opencl", "vulkan", "webgpu"]

[kernels.scale]
sources = ["scale.cl", "scale.comp", "scale.wgsl"]
tune = { BLOCK = [64, 128], TILE = [1, 2, 4] }
constraints = ["BLOCK * TILE <= 256"]
sizes = ["n"]
grid = "ceildiv(n, BLOCK * TILE)"

[kernels.scale.target.opencl]
block = "BLOCK"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("cl", CL), ("comp", MACROS), ("wgsl", WGSL)):
        (tmp_path / f"scale.{name}").write_text(text)
    (tmp_path / "devmod.toml").write_text(MANIFEST)
    return tmp_path


def test_a_manifest_has_variants(project: Path) -> None:
    result = build_manifest(project, workers=1, cache=project / "cache")
    result.raise_for_failures()
    found: dict[str, list[tuple[Any, ...]]] = {}
    for each in devmod.load(result.output).imports:
        tuning = tuning_of(interface_of(each))
        assert tuning is not None
        for variant in tuning.variants:
            found.setdefault(each.kind, []).append(tuple(variant.constants.values()))
    assert found == {"opencl": VALUES, "vulkan": VALUES, "webgpu": VALUES}

    data = Path(result.output).read_bytes()
    Path(result.output).unlink()
    again = build_manifest(project, workers=1, cache=project / "cache")
    assert {each.status for each in again.results} == {"cached"}
    assert Path(again.output).read_bytes() == data


def test_an_error_of_a_build_names_the_variant(project: Path) -> None:
    (project / "scale.cl").write_text(CL + "#if TILE == 4\n#error too large\n#endif\n")
    result = build_manifest(project, targets=["opencl"], workers=1, cache=False)
    (failure,) = result.failures
    assert failure.message.endswith("\nThe variant was BLOCK=64, TILE=4")


def test_the_files_of_records_are_inputs(project: Path) -> None:
    manifest = project / "devmod.toml"
    manifest.write_text('tune_records = ["own/records.json"]\n' + MANIFEST)
    with pytest.raises(devmod.FormatError, match=r"'own/records\.json' does not exist"):
        read_manifest(manifest)
    (project / "own").mkdir()
    records = project / "own/records.json"
    records.write_text(json.dumps({"devmod_tuning": 1, "records": []}))
    assert str(records) in input_files(plan_of(read_manifest(manifest)))
