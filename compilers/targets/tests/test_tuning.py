"""Variants of tuned functions: `tune`, `constraints`, `sizes`, `grid` and `block` of
`devmod.compile` and of a manifest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from each_case import check_errors
from tuned_maps import variant_values

import devmod
from devmod.backend import tuning_of, variant_interface
from devmod_targets.build.build import build_manifest
from devmod_workbench._cli import main

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
TUNE = {
    "tune": {"BLOCK": [64, 128], "TILE": [1, 2, 4]},
    "constraints": ["BLOCK * TILE <= 256"],
    "sizes": ["n"],
    "grid": "ceildiv(n, BLOCK * TILE)",
    "block": "BLOCK",
}
VALUES = [(64, 1), (64, 2), (64, 4), (128, 1), (128, 2)]
TWO = CL + "kernel void other(global float *y, int m) { if (m > 0) y[0] = TILE; }"
#: Sources whose receiver sets the constants: the target and the arguments of a compile.
SPECIALIZED = {
    "opencl": {"source": CL},
    "cuda -format=cuda": {"source": CU},
    "rocm -format=hip": {"source": CU},
    "webgpu": {"source": WGSL},
    "vulkan": {"source": GLSL, "language": "GLSL", "name": "scale"},
}
#: A source whose receiver cannot.
MACROS = {
    "source": GLSL.replace("layout(constant_id = 0) const uint BLOCK = 64;\n", "")
    .replace("layout(constant_id = 1) const int TILE = 1;\n", "")
    .replace("local_size_x_id = 0, local_size_x = 64", "local_size_x = BLOCK"),
    "target": "vulkan",
    "language": "GLSL",
    "name": "scale",
    "block": None,
}


#: Macros of which BLOCK is not in the source.
EQUAL = MACROS | {
    "source": MACROS["source"]
    .replace("local_size_x = BLOCK", "local_size_x = 64")
    .replace("s[BLOCK]", "s[1]")
}
ONE_TILE = {"tune": {"BLOCK": [1, 2]}, "constraints": (), "defines": {"TILE": 1}}


def compiled(source: str = CL, target: str = "opencl", **arguments: Any) -> devmod.Module:
    return devmod.compile(source, target, **TUNE | arguments)


def interface_of(module: devmod.Module, name: str = "scale") -> Any:
    return module.functions[name].interface


@pytest.mark.parametrize("target", SPECIALIZED)
def test_one_payload_has_all_variants_that_its_receiver_sets(target: str) -> None:
    module = compiled(target=target, **SPECIALIZED[target])
    interface = interface_of(module)
    tuning = tuning_of(interface)
    assert (interface.needs, tuning.specialized) == (("tuned",), True)
    assert (tuning.constants, tuning.sizes) == (("BLOCK", "TILE"), ("n",))
    assert variant_values(module, "scale") == VALUES
    for variant in tuning.variants:
        block, tile = variant.constants.values()
        assert variant.block_of() == (block,)
        assert variant.grid_of({"n": 1000}) == (-(-1000 // (block * tile)),)
        own = variant_interface(interface, variant)
        assert own.block in (None, (block, 1, 1))
        assert own.extra.get("workgroup_memory", 4 * block) == 4 * block
    assert devmod.loads(devmod.dumps(module)).functions == module.functions


def test_the_first_variant_is_the_payload_of_a_source() -> None:
    assert compiled().inspect_source().startswith("#define BLOCK 64\n#define TILE 1\n")
    tune = {"TILE": [0.5, True, 2, "(1 + 1)"]}
    again = compiled(tune=tune, constraints=[], grid=None, block=64)
    assert again.inspect_source().startswith("#define TILE 0.5f\n")
    assert interface_of(again).default_block == (64, 1, 1)


FIXED = CL.replace("kernel", "__attribute__((reqd_work_group_size(BLOCK, 1, 1))) kernel")


def test_a_variant_whose_kernel_is_different_has_an_interface() -> None:
    interface = interface_of(compiled(FIXED))
    tuning = tuning_of(interface)
    blocks = [variant_interface(interface, each).block for each in tuning.variants]
    assert blocks == [(block, 1, 1) for block, _ in VALUES]
    assert [each.interface is None for each in tuning.variants] == [True] * 3 + [False] * 2


def test_other_payloads_are_candidates_and_equal_ones_are_one() -> None:
    module = devmod.loads(devmod.dumps(compiled(**MACROS)))
    assert variant_values(module, "scale") == VALUES
    for each, (block, _) in zip(module.imports, VALUES, strict=True):
        interface = interface_of(each)
        assert (interface.block, tuning_of(interface).specialized) == ((block, 1, 1), False)

    module = compiled(**EQUAL, grid="ceildiv(n, 64 * TILE) + BLOCK * 0")
    found = [variant_values(each, "scale") for each in module.imports]
    assert found == [[(64, 1), (128, 1)], [(64, 2), (128, 2)], [(64, 4)]]
    module = compiled(**EQUAL | ONE_TILE, grid="BLOCK")
    assert (module.kind, variant_values(module, "scale")) == ("vulkan", [(1,), (2,)])


def test_several_functions_have_expressions_of_their_own() -> None:
    module = compiled(
        TWO,
        sizes=["n", "m"],
        grid={"scale": "n"},
        block={"scale": "BLOCK", "other": 32},
    )
    scale, other = interface_of(module), interface_of(module, "other")
    assert (scale.extra["tune"]["grid"], scale.extra["tune"]["sizes"]) == (["n"], ["n"])
    assert (other.extra["tune"].get("grid"), other.extra["tune"]["sizes"]) == (None, ["m"])
    assert (scale.default_block, other.default_block) == (None, (32, 1, 1))

    source = WGSL + "@compute @workgroup_size(1) fn other() { x[0] = f32(p.n); }"
    module = compiled(source, "webgpu", block={"scale": "BLOCK"})
    assert tuning_of(interface_of(module)) is not None
    other = interface_of(module, "other")
    assert (tuning_of(other), other.needs) == (None, ()), "its shader has none of the constants"


WEB = {"source": WGSL, "target": "webgpu"}
NOT_TUNED = "is for a tuned function: pass tune= too"
LISTS = "tune=: expected constants with lists of values, such as {'BLOCK': [64]}, got"
TOO_MANY = "variants that meet constraints=; expected 1 to 1,024"
FIRST = "\nThe variant was BLOCK=64, TILE=1"
INVALID = "tune= of 'scale' is invalid:"


def tune(*tiles: Any, **others: Any) -> dict[str, Any]:
    """Return the arguments of variants with other values."""
    return {"tune": {"BLOCK": [64], "TILE": list(tiles)} | others, "constraints": ()}


#: Errors and their notes, and the changes of the arguments.
MISTAKES = {
    f"constraints= {NOT_TUNED}": {"tune": None},
    f"sizes= {NOT_TUNED}": {"tune": None, "constraints": ()},
    "tune=: expected a map of constants to lists of values, got [1]": {"tune": [1]},
    f"{LISTS} {{'a b': [1]}}": {"tune": {"a b": [1]}},
    f"{LISTS} {{'TILE': 2}}": {"tune": {"TILE": 2}},
    f"{INVALID} two variants have the values (64, True)": tune(1, True),
    "tune= has 'X', which neither the source nor grid= and block= use": tune(1, X=[1, 2]),
    f"tune= has 1,025 {TOO_MANY}": tune(*range(1025)),
    f"tune= has 1,001,000 {TOO_MANY}": tune(*range(1000), BLOCK=list(range(1001))),
    f"tune= has 0 {TOO_MANY}": {"constraints": ["BLOCK > 128"]},
    "constraints=: expected a list of strings, got 'B'": {"constraints": "B"},
    "constraints=: 'BLOCK' is no comparison; expected one such as 'columns % 4 == 0'": {
        "constraints": ["BLOCK"]
    },
    "constraints=: 'WIDTH < 3' has the unknown name 'WIDTH'; the constants are 'BLOCK', 'TILE'": {
        "constraints": ["WIDTH < 3"]
    },
    "constraints=: 'BLOCK % (TILE - 1) == 0' has no value for BLOCK=64, TILE=1: BLOCK % (TILE - 1) divides by zero": {
        "constraints": ["BLOCK % (TILE - 1) == 0"]
    },
    "sizes= has 'x', which is no integer argument of the source's functions": {"sizes": ["x"]},
    f"{INVALID} the grid of a tuned function: unknown name 'k'; expected one of 'BLOCK', 'TILE', 'n'": {
        "grid": "k"
    },
    f"{INVALID} the block of a tuned function: unknown name 'n'; expected one of 'BLOCK', 'TILE'": {
        "block": ["BLOCK", "n"]
    },
    f"grid=: expected one to three expressions, got 4{FIRST}": {"grid": ["n"] * 4},
    f"grid=: expected an integer or an expression, got 2.5{FIRST}": {"grid": 2.5},
    f"grid= has 'scal', and the source has no such function; it has: 'scale', 'other'. Did you mean 'scale'?{FIRST}": {
        "source": TWO,
        "grid": {"scal": "n"},
    },
    f"block= of 'scale' is invalid: the block is 0; expected at least 1{FIRST}": {
        "block": "TILE - 1"
    },
    f"block= of 'scale' is missing: grid= counts blocks. Pass it, such as block='BLOCK'{FIRST}": {
        "block": None
    },
    "block= of 'scale' is (128, 1, 1), and the source fixes blocks of (64, 1, 1) threads. Leave block= out\n"
    "The variant was BLOCK=64, TILE=1": {"source": FIXED, "block": "BLOCK * 2"},
    "block= of 'scale' is an expression of constants, which only a tuned function has: pass tune= too, or numbers": {
        **dict.fromkeys(TUNE),
        "defines": {"TILE": 1},
        "block": "BLOCK",
    },
    "the constant 'TILE' is in tune= and in defines=; expected one of them": {
        "defines": {"TILE": 2}
    },
    "tune= is invalid: the constant 'TILE' of the opencl source cannot be '\\n': expected an int, a float, a bool, or the text of a "
    "define\nThe variant was BLOCK=64, TILE=\n": tune("\n"),
    "tune= is invalid: the opencl source defines 'TILE' unconditionally, so it cannot be specialized; write #ifndef TILE around its #define": {
        "source": "#undef TILE\n#define TILE 3\n" + CL
    },
    "tune= is invalid: the function 'scale' of a variant takes other arguments than that of the first variant\n"
    "The variant was BLOCK=64, TILE=2": {
        "source": CL.replace("int n)", "int n\n#if TILE == 2\n, int m\n#endif\n)")
    },
    "tune= has no effect: the payloads of all variants are equal. Use 'BLOCK' in the source": {
        **EQUAL,
        **ONE_TILE,
        "grid": "n",
    },
    "tune=: the constant 'TILE' has the type int32, and cannot be 0.5\nThe variant was BLOCK=64, TILE=0.5": tune(
        1, 0.5
    )
    | WEB,
    "tune=: the constant 'BLOCK' has the type uint32, and cannot be -1\nThe variant was BLOCK=-1, TILE=1": tune(
        1, BLOCK=[64, -1]
    )
    | WEB,
    "tune= has 'WIDTH', and the webgpu function 'scale' has the constants 'BLOCK', 'TILE'. Declare all of tune= in the shader, or none": tune(
        1, WIDTH=[1]
    )
    | WEB,
}


def test_a_mistake_is_an_error() -> None:
    check_errors(MISTAKES, lambda changes: compiled(**changes))


def test_a_constant_that_the_receiver_may_set_is_no_mistake() -> None:
    assert compiled("#ifndef TILE\n#define TILE 3\n#endif\n" + CL).kind == "opencl"


def test_the_command_has_the_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "scale.cl"
    source.write_text(CL)
    path = tmp_path / "k.devmod"
    command = ["compile", str(source), "-q", "-t", "opencl", "-o", str(path)]
    tune = ["--tune", "BLOCK=64,128", "--tune", "TILE=1,2,4", "--constraint", "BLOCK * TILE <= 256"]
    launch = ["--size", "n", "--grid", "ceildiv(n, BLOCK * TILE)", "--block", "BLOCK"]
    assert main([*command, *tune, *launch]) == 0
    assert devmod.load(path).functions == compiled().functions

    mistakes = {
        "--tune has 'BLOCK', which neither the source nor --grid and --block use": tune,
        "--tune BLOCK: expected a constant and its values, such as BLOCK=64,128": [
            *tune[:1],
            "BLOCK",
        ],
        "--grid n,: expected blocks in x, y, z, such as 'ceildiv(n, BLOCK)' or blur='n,m'": [
            "--grid",
            "n,",
        ],
    }
    for message, arguments in mistakes.items():
        assert main([*command, *arguments]) != 0
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


def test_a_manifest_has_variants(tmp_path: Path) -> None:
    (tmp_path / "devmod.toml").write_text(MANIFEST)
    for name, text in {"cl": CL, "comp": MACROS["source"], "wgsl": WGSL}.items():
        (tmp_path / f"scale.{name}").write_text(text)

    def build() -> Any:
        return build_manifest(tmp_path, cache=tmp_path / "cache")

    result = build()
    output = Path(result.output)
    data = output.read_bytes()
    assert variant_values(devmod.load(output), "scale") == VALUES * 3

    output.unlink()
    again = build()
    assert {each.status for each in again.results} == {"cached"}
    assert output.read_bytes() == data

    (tmp_path / "scale.cl").write_text(CL + "#if TILE == 4\n#error too large\n#endif\n")
    (failure,) = build().failures
    assert "too large" in failure.message
    assert failure.message.endswith("\nThe variant was BLOCK=64, TILE=4")
