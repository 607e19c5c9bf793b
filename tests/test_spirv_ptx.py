"""Compute shaders in PTX: on the simulated GPU they have the results of lavapipe."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device

import devmod
from devmod.backend import find_spec
from devmod.errors import CompileError, FormatError
from devmod_readers.reflection import ReflectedFunction
from devmod_simulators import SanitizeError, sanitize
from devmod_simulators.ptx import Launch, Machine, parameter_block, run_ptx
from devmod_targets.authoring import merge_declared
from devmod_targets.spirv_ptx import translate

pytestmark = pytest.mark.skipif(
    not shutil.which("glslangValidator"), reason="glslangValidator is not installed"
)
ROOT = Path(__file__).parents[1]
CASES = Path(__file__).with_name("spirv_ptx_cases.glsl")
ELEMENTS = 256
THREADS = 256


def cases() -> dict[str, tuple[float, str]]:
    """Return the shaders of the file by their names, with the relative tolerance of floats."""
    found = {}
    parts = re.split(r"^//@ (\w+) ?(\S*)\n", CASES.read_text(), flags=re.MULTILINE)
    for name, tolerance, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        found[name] = (
            float(tolerance or 1e-6),
            f"#version 450\n#extension GL_KHR_shader_subgroup_arithmetic : enable\n{text}",
        )
    return found


def spirv_of(text: str, folder: Path, *options: str) -> bytes:
    """Return a shader as glslang compiles it, with its lines."""
    source = folder / "k.comp"
    source.write_text(text)
    command = [
        "glslangValidator",
        "-V",
        "--target-env",
        "vulkan1.2",
        *options,
        "-o",
        str(folder / "k.spv"),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout
    return (folder / "k.spv").read_bytes()


def values_of(dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return numbers without symmetry."""
    if dtype.subdtype is not None:
        inner, lanes = dtype.subdtype
        return values_of(inner, (*shape, *lanes), rng)
    if dtype.names is not None:
        result = np.zeros(shape, dtype)
        for name in dtype.names:
            result[name] = values_of(dtype[name], shape, rng)
        return result
    if dtype.kind == "f":
        return rng.normal(0.2, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def arguments_of(kernel: ReflectedFunction) -> dict[str, Any]:
    """Return arrays and numbers for a kernel."""
    rng = np.random.default_rng(7)
    arguments: dict[str, Any] = {}
    for param in kernel.params:
        dtype = param.dtype or np.dtype(np.float32)
        if param.kind == "buffer":
            arguments[param.name] = values_of(dtype, (ELEMENTS,), rng)
        elif dtype == np.int32:
            arguments[param.name] = np.int32(200)
        else:
            arguments[param.name] = values_of(dtype, (), rng)
    return arguments


def run_simulated(
    spirv: bytes, arguments: dict[str, Any], grid: tuple[int, ...], constants: Any = None
) -> None:
    """Run the translation of a shader on the simulated GPU."""
    translation = translate(spirv, constants)
    (kernel,) = translation.functions.values()
    values: list[Any] = []
    for param in kernel.params:
        value = arguments[param.name]
        if param.kind == "buffer":
            values.append(value)
        else:
            values.append(np.asarray(value).tobytes())
        if param.pack:
            assert param.dtype is not None
            values.append(value.nbytes // param.dtype.itemsize)
    assert kernel.block is not None
    run_ptx(translation.ptx, kernel.symbol, grid, kernel.block, values)


def check_same(expected: dict[str, Any], actual: dict[str, Any], tolerance: float) -> None:
    """Compare all arrays."""
    for name, array in expected.items():
        one, other = np.asarray(array), np.asarray(actual[name])
        if one.dtype.names is not None:
            for field in one.dtype.names:
                check_same({field: one[field]}, {field: other[field]}, tolerance)
        elif one.dtype.kind == "f":
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(other, one, err_msg=name)


@pytest.mark.parametrize("name", [name for name in cases() if name != "addresses"])
def test_a_shader_has_the_results_of_vulkan(name: str, tmp_path: Path) -> None:
    first_device("vulkan")
    tolerance, text = cases()[name]
    spirv = spirv_of(text, tmp_path, "-g")
    constants = {3: 7, 4: 1.25, 5: False, 6: 64} if name == "specialization" else None
    (kernel,) = translate(spirv, constants).functions.values()
    assert kernel.block is not None
    grid: tuple[int, ...] = (max(THREADS // int(np.prod(kernel.block)), 1),)
    if name == "built_ins":
        grid = (2, 3, 2)
    elif name in ("specialization", "layouts"):
        grid = (1,)
    arguments = arguments_of(kernel)
    simulated = {key: np.copy(value) for key, value in arguments.items()}
    run_simulated(spirv, simulated, grid, constants)

    module = devmod.compile(tmp_path / "k.spv", "vulkan")
    function = module["k"]
    if constants:
        function = function.specialize(FACTOR=7, SHIFT=1.25, NEGATE=False, local_size_x=64)
    function(**arguments, grid=grid)
    check_same(arguments, simulated, tolerance)


SUBGROUPS = """#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_clustered : require
#extension GL_KHR_shader_subgroup_quad : require
layout(local_size_x = 80) in;
layout(binding = 0) buffer A { int a[]; };
layout(binding = 1) buffer D { double d[]; };
layout(binding = 2) buffer Y { int y[]; };
layout(binding = 3) buffer Z { double z[]; };
void main() {
    uint i = gl_LocalInvocationIndex, lane = gl_SubgroupInvocationID;
    int r[32];
    int k = 0;
    int p = a[i];
    if (i % 3 != 0) {
        r[k++] = subgroupAdd(p); r[k++] = subgroupInclusiveAdd(p); r[k++] = subgroupExclusiveMax(p);
        r[k++] = subgroupMin(p); r[k++] = subgroupAnd(p) ^ subgroupOr(p) ^ subgroupXor(p);
        r[k++] = subgroupClusteredAdd(p, 8); r[k++] = int(subgroupElect());
        r[k++] = subgroupBroadcastFirst(p); r[k++] = int(subgroupBallot(p > 0).x);
        r[k++] = int(subgroupBallotBitCount(subgroupBallot(p > 0))) + 100 * int(subgroupBallotInclusiveBitCount(uvec4(0xf0f0f0f0u, 0, 0, 0)));
        r[k++] = int(subgroupBallotFindLSB(subgroupBallot(p < 0))) + 100 * int(subgroupBallotFindMSB(subgroupBallot(p < 0)));
        r[k++] = int(subgroupAll(p > -2000000000)) + 2 * int(subgroupAny(p > 2000000000)) + 4 * int(subgroupAllEqual(p)) + 8 * int(subgroupAllEqual(i % 3 > 0));
        r[k++] = int(subgroupMul(p | 1)) + int(subgroupExclusiveAdd(1));
        for (int j = 0; j < k; j++) y[i * 32 + j] = r[j];
        z[i] = subgroupMax(d[i]) + subgroupInclusiveAdd(d[i]);
    }
    k = 20;
    int up = subgroupShuffleUp(p, 2);
    y[i * 32 + k++] = subgroupBroadcast(p, 5);
    y[i * 32 + k++] = subgroupShuffleXor(p, 3);
    y[i * 32 + k++] = subgroupShuffle(p, (lane * 5 + 1) % 16);
    y[i * 32 + k++] = lane >= 2 ? up : 1;
    y[i * 32 + k++] = subgroupQuadSwapHorizontal(p) ^ subgroupQuadBroadcast(p, 2);
    y[i * 32 + k++] = int(gl_SubgroupSize + 100 * gl_NumSubgroups + 10000 * gl_SubgroupID);
    y[i * 32 + k++] = int(gl_SubgroupLtMask.x + gl_SubgroupGeMask.x * 3u + gl_SubgroupEqMask.x);
    y[i * 32 + k++] = int(subgroupInverseBallot(uvec4(0x5u, 0, 0, 0))) + 2 * int(subgroupBallotBitExtract(uvec4(0x90u, 0, 0, 0), 4));
}
"""


def highest_bit(value: int) -> int:
    return value.bit_length() - 1


def test_subgroups_are_warps(tmp_path: Path) -> None:
    """A driver of Vulkan has a width of its own, so the results are Python's."""
    rng = np.random.default_rng(5)
    a = rng.integers(-(2**31), 2**31, 80, dtype=np.int32)
    d = rng.normal(size=80)
    y = np.zeros(80 * 32, np.int32)
    z = np.zeros(80)
    run_simulated(spirv_of(SUBGROUPS, tmp_path), {"a": a, "d": d, "y": y, "z": z}, (1,))
    found = y.reshape(80, 32)

    def wrapped(value: Any) -> int:
        return int(np.uint32(int(value) & 0xFFFFFFFF).view(np.int32))

    for i in range(80):
        start = i // 32 * 32
        lanes = range(start, min(start + 32, 80))
        some = [j for j in lanes if j % 3]
        before = [j for j in some if j < i]
        values = [int(a[j]) for j in some]
        if i % 3:
            positive = sum(1 << j - start for j in some if a[j] > 0)
            negative = sum(1 << j - start for j in some if a[j] < 0)
            product = 1
            for value in values:
                product = wrapped(product * (value | 1))
            bits = [int(np.bitwise_and.reduce(a[some])), int(np.bitwise_or.reduce(a[some]))]
            expected = [
                sum(values),
                sum(int(a[j]) for j in [*before, i]),
                max([-(2**31), *(int(a[j]) for j in before)]),
                min(values),
                bits[0] ^ bits[1] ^ int(np.bitwise_xor.reduce(a[some])),
                sum(int(a[j]) for j in some if j // 8 == i // 8),
                i == some[0],
                values[0],
                positive,
                positive.bit_count() + 100 * (0xF0F0F0F0 & (2 << i - start) - 1).bit_count(),
                highest_bit(negative & -negative) + 100 * highest_bit(negative),
                all(value > -2000000000 for value in values)
                + 2 * any(value > 2000000000 for value in values)
                + 8,
                product + len(before),
            ]
            assert [*found[i, : len(expected)]] == [wrapped(value) for value in expected], i
            total = max(d[some]) + sum(d[j] for j in [*before, i])
            assert z[i] == pytest.approx(total)
        lane = i - start
        others = [
            a[start + 5],
            a[i ^ 3],
            a[start + (lane * 5 + 1) % 16],
            a[i - 2] if lane > 1 else 1,
            int(a[i ^ 1]) ^ int(a[i & ~3 | 2]),
            32 + 300 + 10000 * (i // 32),
            (1 << lane) - 1 + 3 * (0x100000000 - (1 << lane)) + (1 << lane),
            (0x5 >> lane & 1) + 2,
        ]
        assert [*found[i, 20:28]] == [wrapped(value) for value in others], i


def checked(text: str, folder: Path, grid: tuple[int, ...] = (1,), **arguments: Any) -> list[str]:
    """Return what the sanitizer reports of a shader: each report's kind, line and detail."""
    translation = translate(spirv_of(text, folder, "-g"), location="k.comp")
    spec = find_spec("cuda")
    assert spec is not None
    functions = merge_declared(spec, translation.functions, None)
    module = devmod.create("cuda", translation.ptx.encode(), "ptx", functions)
    try:
        with sanitize():
            module["main"].on(devmod.device("cuda"))(**arguments, grid=grid)
    except SanitizeError as error:
        return [each["text"].replace(f"{folder}/", "") for each in error.reports]
    return []


BUFFER = "layout(binding = 0) buffer X { float x[]; };\n"
MAIN = "void main() { uint i = gl_GlobalInvocationID.x;"
HEAD = "#version 450\nlayout(local_size_x = 64) in;\n" + BUFFER + "shared float s[64];\n"
#: Bodies of shaders, and parts of the only report; none without a fault.
FAULTS = {
    "if (i > 3) own = x[i];\nx[i] = own * 2;": "uninitialised (stored result): k.comp:7  x[i] = own * 2;",
    "own = 1;\nif (i > 3) own = x[i];\nx[i] = own;": "",
    "float some[4];\nsome[i % 4] = 1;\nx[i] = some[(i + 1) % 4] + 1;": "uninitialised (stored result): k.comp:8  x[i] = some[(i + 1) % 4] + 1;",
    "if (i > 40) return;\nbarrier();\nx[i] = 1;": "waits here while 41 threads wait at k.comp:7  barrier();",
    "if (gl_WorkGroupID.x > 40) return;\nbarrier();\nx[i] = 1;": "",
    "s[i] = x[i];\nx[i] = s[63 - i];": "race (read and write): k.comp:7  x[i] = s[63 - i];",
    "s[i] = x[i];\nbarrier();\nx[i] = s[63 - i];": "",
    "x[i] = s[i] * s[i];": "uninitialised (stored result): k.comp:6  x[i] = s[i] * s[i];",
    "x[i + 1u] = 1;": "out of bounds (write): k.comp:6  x[i + 1u] = 1;",
    "x[min(i + 1, x.length() - 1)] += 0 * s[(s[i] = 1, i)];": "race (",
    "vec3 v = vec3(x[i], 1, 2);\nv[i % 3] = 5;\nx[i] = v.x + v.z;": "",
}


@pytest.mark.parametrize("body", FAULTS)
def test_the_sanitizer_reports_lines_of_the_shader(body: str, tmp_path: Path) -> None:
    text = f"{HEAD}void main() {{ uint i = gl_LocalInvocationID.x; float own;\n{body}\n}}\n"
    reports = checked(text, tmp_path, x=np.arange(64, dtype=np.float32))
    assert [FAULTS[body] in each for each in reports] == [True] * bool(FAULTS[body]), reports


#: Shaders without a translation, and the error behind "the shader 'main' has no translation to
#: PTX: ".
REFUSED = {
    "layout(binding = 1, r32f) uniform image2D picture;\nvoid main() {\n    imageStore(picture, ivec2(0), vec4(1));\n}": "OpLoad at k.comp:6 (imageStore(picture, ivec2(0), vec4(1));): it uses 'picture', an image, which the translation does not support",
    "layout(binding = 1) uniform sampler2D picture;\nvoid main() { x[0] = 1; }": "its interface: it declares 'picture', an image or a sampler, which the translation does not support",
    "#extension GL_ARB_shader_clock : require\n#extension GL_ARB_gpu_shader_int64 : require\nvoid main() { x[0] = float(clockARB()); }": "OpReadClockKHR at k.comp:6 (void main() { x[0] = float(clockARB()); }): it has no translation",
    f"void main() {{ float some[5000] = float[]({', '.join(['1.0'] * 5000)}); x[0] = some[1]; }}": f"OpVariable at k.comp:4 (void main() {{ float some[5000] = float[]({'1.0, ' * 11}1.0,): it has a value of more than 4096 numbers",
}

#: Twenty functions, each of which calls the next one twice, and structs of two of the one before.
CALLS = "void f0() { x[0] += 1; }\n" + "".join(
    f"void f{n + 1}() {{ f{n}(); f{n}(); }}\n" for n in range(20)
)
STRUCTS = "struct S0 { float a; };\n" + "".join(
    f"struct S{n + 1} {{ S{n} a; S{n} b; }};\n" for n in range(14)
)
DEEP = f"void main() {{ S14 s; x[0] = s{'.a' * 15}; }}"
REFUSED[f"{CALLS}void main() {{ f20(); }}"] = (
    "OpFunctionCall at k.comp:7 (void f3() { f2(); f2(); }): the kernel has more than 200000 lines of PTX with its functions inlined"
)
REFUSED[f"{STRUCTS}{DEEP}"] = (
    f"OpVariable at k.comp:19 ({DEEP}): it has a value of more than 4096 numbers"
)


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_construct_without_a_translation_is_named(text: str, tmp_path: Path) -> None:
    spirv = spirv_of(f"#version 450\nlayout(local_size_x = 1) in;\n{BUFFER}{text}", tmp_path, "-g")
    with pytest.raises(CompileError) as caught:
        translate(spirv)
    shown = str(caught.value).replace(f"{tmp_path}/", "")
    assert shown == f"the shader 'main' has no translation to PTX: {REFUSED[text]}"


def test_damaged_words(tmp_path: Path) -> None:
    spirv = spirv_of(f"#version 450\n{BUFFER}void main() {{ x[1] = x[0] + 1; }}", tmp_path)
    add = (129 | 5 << 16).to_bytes(4, "little")
    shuffle = (79 | 5 << 16).to_bytes(4, "little")
    with pytest.raises(CompileError, match="OpStore: it stores 0 numbers in a place of 1"):
        translate(spirv.replace(add, shuffle))
    with pytest.raises(FormatError, match="is truncated: it has 9 bytes"):
        translate(spirv[:9], location="k.spv")


def test_lines_of_a_file_without_a_text_are_those_of_the_source(tmp_path: Path) -> None:
    text = f"#version 450\n{BUFFER}void main() {{ x[1] = 1; }}\n"
    (tmp_path / "k.comp").write_text(text)
    module: Any = devmod.compile(tmp_path / "k.comp", "vulkan", options=["-g"])
    (packed,) = module.code.values()
    spirv = bytes(packed[12:])
    assert '.file 1 "source.comp"' in translate(spirv).ptx
    found = translate(spirv, location="own.comp", source=text).ptx
    assert '.file 1 "own.comp"' in found
    assert "//| own.comp:\n//| #version 450\n" in found


def test_remainders_have_the_sign_of_the_divisor(tmp_path: Path) -> None:
    """lavapipe has that of the dividend, and GLSL leaves it open."""
    text = f"#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer A {{ int a[]; }};\nlayout(push_constant) uniform P {{ int d; }};\n{MAIN} a[i] %= d; }}"
    spirv = spirv_of(text, tmp_path)
    for divisor in (7, -7):
        a = np.arange(-32, 32, dtype=np.int32)
        expected = a % divisor
        run_simulated(spirv, {"a": a, "d": np.int32(divisor)}, (1,))
        assert (a == expected).all()


FLOATS = np.random.default_rng(3).normal(0.3, 1, 4096).astype(np.float32)
PICTURE = np.random.default_rng(4).integers(0, 2**32, 20 * 12, np.uint32)
SIZES = {"width": np.int32(20), "height": np.int32(12)}
#: The arguments of the examples, and the grid.
EXAMPLES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "sum": ({"x": FLOATS[:700], "partial": np.zeros(3, np.float32), "n": np.int32(690)}, (3,)),
    "softmax": ({"x": FLOATS[:180], "y": FLOATS[:180] * 0, "columns": np.int32(60)}, (3,)),
    "matmul_tiled": (
        {
            "a": FLOATS[: 20 * 17],
            "b": FLOATS[40 : 40 + 17 * 13],
            "c": np.zeros(20 * 13, np.float32),
            "m": np.int32(20),
            "n": np.int32(13),
            "k": np.int32(17),
        },
        (1, 2),
    ),
    "mandelbrot": (
        {
            "escape": np.zeros(20 * 12, np.float32),
            **SIZES,
            "left": np.float32(-2),
            "top": np.float32(-1),
            "pixel": np.float32(0.13),
            "steps": np.int32(40),
        },
        (2, 2),
    ),
    "blur_rows": (
        {
            "picture": PICTURE,
            "between": np.zeros((20 * 12, 4), np.float32),
            "weights": FLOATS[:7],
            "radius": np.int32(3),
            **SIZES,
        },
        (2, 12),
    ),
    "blur_columns": (
        {
            "between": FLOATS[: 20 * 12 * 4].reshape(-1, 4) ** 2 * 40,
            "blurred": PICTURE * 0,
            "weights": np.abs(FLOATS[:7]) / 9,
            "radius": np.int32(3),
            **SIZES,
        },
        (2, 12),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_have_the_results_of_vulkan(name: str) -> None:
    first_device("vulkan")
    source = ROOT / "examples" / "vulkan" / f"{name}.comp"
    module: Any = devmod.compile(source, "vulkan", options=["-g", "-O0"])
    arguments, grid = EXAMPLES[name]
    simulated = {key: np.copy(value) for key, value in arguments.items()}
    expected = {key: np.copy(value) for key, value in arguments.items()}
    module[name](**expected, grid=grid)
    run_simulated(bytes(module.code[name][12:]), simulated, grid)
    check_same(expected, simulated, 2e-5)
    assert any((expected[key] != arguments[key]).any() for key in arguments)


def test_addresses_of_buffers(tmp_path: Path) -> None:
    """The struct at an address has the address of another one."""
    _, text = cases()["addresses"]
    (kernel,) = translate(spirv_of(text, tmp_path)).functions.values()
    assert [param.type for param in kernel.params] == ["float32x4", "handle"]
    translation = translate(spirv_of(text, tmp_path))
    machine = Machine()
    module = machine.load(translation.ptx)
    node, y = machine.allocate(48), machine.allocate(64)
    content = np.array([1, 2, 3, 4], np.float32).tobytes() + np.array([y], np.uint64).tobytes()
    machine.write(
        node, np.frombuffer(content + np.array([5, 6, 7, 0, 0, 0], np.int32).tobytes(), np.uint8)
    )
    block = parameter_block(module.program("main"), [y, np.uint64(node)])
    machine.launch(module, "main", Launch((1, 1, 1), (4, 1, 1), block))
    rows = machine.read(y, np.zeros((4, 4), np.float32))
    assert rows[1:, 0].tolist() == [6, 7, 5]
    assert machine.read(node + 24, np.zeros(1, np.int32)) == 77


def test_values_that_change_places_in_a_loop(tmp_path: Path) -> None:
    """The optimizer makes each of them an OpPhi of the other."""
    text = f"#version 450\nlayout(local_size_x = 64) in;\n{BUFFER}layout(push_constant) uniform P {{ int n; }};\n{MAIN} float a = x[i], b = i; for (int j = 0; j < n; j++) {{ float t = a; a = b; b = t; }} x[i] = a - 2 * b; }}"
    (tmp_path / "k.comp").write_text(text)
    module: Any = devmod.compile(tmp_path / "k.comp", "vulkan")
    (packed,) = module.code.values()
    x = np.arange(3, 67, dtype=np.float32)
    i = np.arange(64, dtype=np.float32)
    expected = i - 2 * x
    run_simulated(bytes(packed[12:]), {"x": x, "n": np.int32(5)}, (1,))
    assert (x == expected).all()


FLOAT_ATOMICS = """#version 450
#extension GL_EXT_shader_atomic_float : require
#extension GL_EXT_shader_atomic_float2 : require
#extension GL_EXT_shader_atomic_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer D { double d[]; };
layout(binding = 2) buffer L { int64_t l[]; };
shared float total;
void main() {
    uint i = gl_LocalInvocationID.x;
    if (i == 0) total = 0;
    barrier();
    atomicAdd(total, x[i]);
    atomicMin(x[100], x[i]);
    atomicMax(x[101], x[i]);
    atomicAdd(d[80], d[i]);
    atomicAdd(l[80], l[i]);
    atomicMax(l[81], l[i]);
    atomicXor(l[82], l[i]);
    atomicExchange(x[200 + i], x[i]);
    atomicStore(l[84], 7l, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
    barrier();
    if (i == 0) {
        x[102] = total;
        l[83] = atomicLoad(l[80], gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquire);
    }
}
"""


def test_atomic_operations_of_floats_and_of_64_bits(tmp_path: Path) -> None:
    """lavapipe lacks some of them."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=300).astype(np.float32)
    x[100:102] = 0
    d = rng.normal(size=100)
    numbers = rng.integers(-(2**40), 2**40, 100)
    old = x.copy(), d.copy(), numbers.copy()
    run_simulated(spirv_of(FLOAT_ATOMICS, tmp_path), {"x": x, "d": d, "l": numbers}, (1,))
    assert x[100] == min(0, old[0][:64].min())
    assert x[101] == max(0, old[0][:64].max())
    assert x[102] == pytest.approx(old[0][:64].sum(), rel=1e-4)
    assert (x[200:264] == old[0][:64]).all()
    assert d[80] == pytest.approx(old[1][80] + old[1][:64].sum())
    assert numbers[80] == numbers[83] == old[2][80] + old[2][:64].sum()
    assert numbers[81] == max(old[2][81], old[2][:64].max())
    assert numbers[82] == old[2][82] ^ np.bitwise_xor.reduce(old[2][:64])
    assert numbers[84] == 7


#: A pointer that is chosen, one that is an OpPhi, one behind another; OpCopyMemory.
POINTERS = """
OpCapability Shader
OpCapability VariablePointers
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %x %id
OpExecutionMode %main LocalSize 4 1 1
OpName %x "x"
OpDecorate %id BuiltIn GlobalInvocationId
OpDecorate %x DescriptorSet 0
OpDecorate %x Binding 0
OpDecorate %array ArrayStride 4
OpDecorate %pointer ArrayStride 4
OpMemberDecorate %block 0 Offset 0
OpDecorate %block Block
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%float = OpTypeFloat 32
%bool = OpTypeBool
%uint3 = OpTypeVector %uint 3
%in = OpTypePointer Input %uint3
%array = OpTypeRuntimeArray %float
%block = OpTypeStruct %array
%whole = OpTypePointer StorageBuffer %block
%pointer = OpTypePointer StorageBuffer %float
%0 = OpConstant %uint 0
%1 = OpConstant %uint 1
%2 = OpConstant %uint 2
%8 = OpConstant %uint 8
%16 = OpConstant %uint 16
%ten = OpConstant %float 10
%id = OpVariable %in Input
%x = OpVariable %whole StorageBuffer
%main = OpFunction %void None %function
%start = OpLabel
%ids = OpLoad %uint3 %id
%i = OpCompositeExtract %uint %ids 0
%odd = OpBitwiseAnd %uint %i %1
%isodd = OpIEqual %bool %odd %1
%own = OpAccessChain %pointer %x %0 %i
%first = OpAccessChain %pointer %x %0 %8
%chosen = OpSelect %pointer %isodd %own %first
%value = OpLoad %float %chosen
OpSelectionMerge %end None
OpBranchConditional %isodd %then %end
%then = OpLabel
%next = OpPtrAccessChain %pointer %first %2
OpBranch %end
%end = OpLabel
%read = OpPhi %pointer %own %start %next %then
%more = OpLoad %float %read
%scaled = OpFMul %float %more %ten
%sum = OpFAdd %float %value %scaled
%place = OpIAdd %uint %i %16
%target = OpAccessChain %pointer %x %0 %place
OpStore %target %sum
%copy = OpPtrAccessChain %pointer %target %8
OpCopyMemory %copy %own
OpReturn
OpFunctionEnd
"""


@pytest.mark.skipif(not shutil.which("spirv-as"), reason="spirv-tools is not installed")
def test_pointers_are_values(tmp_path: Path) -> None:
    (tmp_path / "k.spvasm").write_text(POINTERS)
    command = ["spirv-as", "--target-env", "vulkan1.1", "k.spvasm", "-o", "k.spv"]
    subprocess.run(command, cwd=tmp_path, check=True)
    x = np.arange(1, 41, dtype=np.float32)
    run_simulated((tmp_path / "k.spv").read_bytes(), {"x": x}, (1,))
    assert x[16:20].tolist() == [9 + 10, 2 + 110, 9 + 30, 4 + 110]
    assert x[24:28].tolist() == [1, 2, 3, 4]


def test_nvidia_assembles_the_text(tmp_path: Path) -> None:
    """The simulated GPU accepts more than PTX has."""
    if not [*distributions(name="nvidia-nvjitlink")]:
        pytest.skip("needs the wheel nvidia-nvjitlink")
    texts = {name: text for name, (_, text) in cases().items()}
    for text in (*texts.values(), SUBGROUPS, FLOAT_ATOMICS):
        constants = {6: 64} if text == texts["specialization"] else None
        translation = translate(spirv_of(text, tmp_path, "-g"), constants)
        spec = find_spec("cuda")
        assert spec is not None
        functions = merge_declared(spec, translation.functions, None)
        (tmp_path / "k.ptx").write_text(translation.ptx)
        module = devmod.compile(tmp_path / "k.ptx", "cuda -arch=sm_90", fmap=functions)
        assert set(module.function_names) == {"main"}, text
