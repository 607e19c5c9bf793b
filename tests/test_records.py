"""One record reaches Vulkan's push constants, WebGPU's uniform block and OpenCL's struct, on the
devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import raised

import devmod

GLSL = """
#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { float x[]; };
layout(push_constant) uniform Push { int n; float a; vec3 v; } p;
void main() { uint i = gl_GlobalInvocationID.x; if (i < uint(p.n)) x[i] = x[i] * p.a + p.v.z; }
"""
WGSL = """
struct Push { n: i32, a: f32, v: vec3f }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<uniform> p: Push;
@compute @workgroup_size(64) fn k(@builtin(global_invocation_id) i: vec3u) { if (i.x < u32(p.n)) { x[i.x] = x[i.x] * p.a + p.v.z; } }
"""
OPENCL = """
typedef struct { int n; float a; float3 v; } Push;
kernel void k(global float *x, Push p) { size_t i = get_global_id(0); if (i < p.n) x[i] = x[i] * p.a + p.v.z; }
"""
SOURCES = {"vulkan": GLSL, "webgpu": WGSL, "opencl": OPENCL}
VALUES = {"n": 3, "a": 2.0, "v": (0, 0, 1)}
RECORD = np.array((3, 2, (0, 0, 1)), [("n", "i4"), ("a", "f4"), ("v", "f4", 3)])


@pytest.mark.row("R34")
@pytest.mark.parametrize("kind", SOURCES)
def test_one_record_reaches_each_candidate(kind: str) -> None:
    device = first_device(kind)
    bundle = devmod.bundle(
        *(devmod.compile(source, each, name="k") for each, source in SOURCES.items())
    )
    loaded: Any = devmod.loads(devmod.dumps(bundle), prefer=(kind,))
    f = loaded["k"]
    array = device.from_numpy(np.arange(4, dtype=np.float32))
    for _ in range(2):
        for arguments in ({"p": VALUES}, {"p": RECORD}, {"p": tuple(VALUES.values())}, VALUES):
            x = np.arange(4, dtype=np.float32)
            f(x, **arguments, threads=4)
            assert x.tolist() == [1, 3, 5, 3]
            array.copy_from(np.arange(4, dtype=np.float32))
            f(x=array, **arguments, threads=4)
            assert array.numpy().tolist() == [1, 3, 5, 3]
    f.bind(array, p=RECORD, threads=4)()
    device.synchronize()
    assert array.numpy().tolist() == [3, 7, 11, 3]
    error = raised(devmod.ArgumentError, f, array, p=VALUES | {"n": 0.5}, threads=4)
    assert str(error).startswith(f"the {kind} function 'k'")
    assert "0.5 is a float, and int32 takes an int" in str(
        error
    ) or "0.5 is not a whole number" in str(error)
    assert error.argument == "n"


@pytest.mark.row("R34")
def test_the_signature_of_a_bundle_has_the_records_of_all_candidates(tmp_path: Any) -> None:
    modules = [devmod.compile(source, each, name="k") for each, source in SOURCES.items()]
    signature = "k(x: float32* rw, n: int32, a: float32, v: float32x3) record p"
    assert devmod.bundle(*modules)._signature_of("k") == signature
    other = devmod.compile(GLSL.replace("p.", "q.").replace("} p;", "} q;"), "vulkan", name="k")
    assert devmod.bundle(other, *modules)._signature_of("k") == signature.removesuffix(" record p")


@pytest.mark.parametrize("place", ["push_constant", "binding = 1"])
def test_structs_matrices_and_arrays_in_a_block_of_vulkan(place: str) -> None:
    """A uniform block of such members is one argument, and push constants are a record: both take
    one value.
    """
    device = first_device("vulkan")
    source = f"""
#version 450
layout(local_size_x = 1) in;
struct View {{ float scale; vec3 at; }};
layout(binding = 0) buffer X {{ float x[]; }};
layout({place}) uniform Push {{ int n; View view; mat2 turn; int table[3]; }} p;
void main() {{ x[0] = p.n; x[1] = p.view.scale; x[2] = p.view.at.z; x[3] = p.turn[0][1]; x[4] = p.turn[1][0]; x[5] = p.table[2]; }}
"""
    f = devmod.compile(source, "vulkan", name="k")["k"]
    values = {
        "n": 1,
        "view": {"scale": 2, "at": (0, 0, 3)},
        "turn": [[0, 4], [5, 0]],
        "table": [0, 0, 6],
    }
    for x in (np.zeros(6, "f4"), device.zeros(6, "float32")):
        for _ in range(2):
            f(x, p=values, grid=1)
            assert np.asarray(x if isinstance(x, np.ndarray) else x.numpy()).tolist() == [
                1,
                2,
                3,
                4,
                5,
                6,
            ]


#: Two views of one buffer, as ggml's shaders have them: a variant uses one.
VIEWS = """
#version 450
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer A {{ {type} {name}[]; }};
layout(binding = 1) writeonly buffer D {{ uint data_d[]; }};
layout(push_constant) uniform Parameters {{ uint at; }} parameters;
void main() {{ data_d[0] = {name}[parameters.at]{lane}; }}
"""


@pytest.mark.parametrize(
    ("type_", "name", "lane"), [("uint", "data_a", ""), ("uvec2", "data_a_packed64", ".y")]
)
def test_a_call_with_aliases_reaches_each_variant(type_: str, name: str, lane: str) -> None:
    first_device("vulkan")
    aliases = {"data_a": ["data_a_packed64"], "p": ["parameters"]}
    module = devmod.compile(
        VIEWS.format(type=type_, name=name, lane=lane), "vulkan", name="k", aliases=aliases
    )
    f, result = devmod.loads(devmod.dumps(module))["k"], np.zeros(1, np.uint32)
    f(data_a=np.arange(8, dtype=np.uint32), data_d=result, p={"at": 1}, grid=1)
    assert result[0] == (3 if lane else 1)
