"""What `devmod.verify` finds in payloads: bytes that no device can use, and functions that a
payload declares and does not have. The check belongs to the kind, also to one of another wheel.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import devmod
from devmod import FunctionInfo, TargetSpec
from devmod.plugins import find_spec

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
from fuzzing import seeds  # noqa: E402

ARCH = ROOT / "core" / "tests" / "vectors" / "arch"
HEAD = ".version 7.0\n.target sm_50\n.address_size 64\n"
PTX = f"{HEAD}.visible .entry scale(.param .u64 x) {{ ret; }}\n"
WGSL = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn scale() { x[0] = 1; }"
GLSL = "#version 450\nlayout(binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1; }"
CL = "kernel void scale(global float *x) { x[0] = 1; }"
CUDA = 'extern "C" __global__ void scale(float *x) { x[0] = 1; }'


def compiled(target: str, source: str) -> Any:
    """Return the code of a kernel, or its one shader."""
    code = devmod.compile(source, target).code
    return next(iter(code.values())) if isinstance(code, Mapping) else code


#: Kind and format to a payload with the kernel `scale`, or `main`.
SOUND: dict[tuple[str, str], Callable[[], Any]] = {
    ("cuda", "ptx"): lambda: PTX.encode() + b"\0",
    ("cuda", "cubin"): (ARCH / "sm_90.cubin").read_bytes,
    ("cuda", "fatbin"): (ARCH / "mixed.fatbin").read_bytes,
    ("cuda", "cuda"): CUDA.encode,
    ("rocm", "hsaco"): (ROOT / "compilers/targets/tests/vectors/triton/add.hip.hsaco").read_bytes,
    ("rocm", "hip"): CUDA.encode,
    ("vulkan", "spv"): lambda: compiled("vulkan", GLSL),
    ("opencl", "cl"): CL.encode,
    ("opencl", "il"): lambda: compiled("opencl -format=il", CL),
    ("webgpu", "wgsl"): WGSL.encode,
    ("metal", "metal"): CL.encode,
    ("metal", "metallib"): lambda: seeds.metallib({"scale": None}),
    ("hexagon", "so"): lambda: compiled("hexagon -arch=v68", "void scale(float *x) { x[0] = 1; }"),
}


pytestmark = pytest.mark.row("R54")


@pytest.fixture(autouse=True)
def fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")


def verified(kind: str, fmt: str, code: Any, *symbols: str) -> devmod.Verification:
    """Return the verification of a payload whose functions have these symbols."""
    functions = {
        f"f{number}": FunctionInfo(each, ["handle"]) for number, each in enumerate(symbols)
    }
    spec = find_spec(kind)
    assert spec is not None
    shaders = dict.fromkeys(functions, code) if spec.shader_map else code
    return devmod.verify(devmod.create_with_fallback(kind, shaders, fmt, functions))


@pytest.mark.parametrize(("kind", "fmt"), SOUND)
def test_a_payload_has_the_functions_that_it_declares(kind: str, fmt: str) -> None:
    code, symbol = SOUND[kind, fmt](), {"spv": "main", "hsaco": "add"}.get(fmt, "scale")
    (payload,) = verified(kind, fmt, code, symbol).payloads
    assert (payload.damage, payload.problem, payload.checked) == ("", "", True)

    verification = verified(kind, fmt, code, symbol, "other")
    (payload,) = verification.payloads
    text = f"the {kind} payload of format {fmt!r} has no kernel 'other', which its fmap names; it has: {symbol!r}. Compile it again"
    if fmt in ("cl", "cuda", "hip", "metal"):
        text = f"the {kind} source of format {fmt!r} does not have the word 'other', and its fmap names such a kernel. Compile it again"
    assert (verification.ok, payload.problem) == (False, text)

    (payload,) = verified(kind, fmt, b"garbage", symbol).payloads
    assert payload.problem


@pytest.mark.parametrize(
    ("kind", "fmt", "code"),
    [
        (
            "opencl",
            "cl",
            b"#define K(name) kernel void sca##name(global float *x) { x[0] = 1; }\nK(le)",
        ),
        ("cuda", "cuda", b"template <class T> __global__ void k(T *x) {}"),
    ],
    ids=["token pasting", "a mangled name"],
)
def test_a_name_that_a_compiler_makes_is_no_problem(kind: str, fmt: str, code: bytes) -> None:
    (payload,) = verified(kind, fmt, code, "scale" if kind == "opencl" else "_Z1kIfEvPT_").payloads
    assert (payload.problem, payload.checked) == ("", True)


def test_a_container_of_code_objects_is_read() -> None:
    image, triple = SOUND["rocm", "hsaco"](), b"hipv4-amdgcn-amd-amdhsa--gfx90a"
    head = struct.pack(
        "<24sQQQQ", b"__CLANG_OFFLOAD_BUNDLE__", 1, 56 + len(triple), len(image), len(triple)
    )
    for symbol, expected in (("add", ""), ("other", "it has: 'add'. Compile it again")):
        (payload,) = verified("rocm", "hsaco", head + triple + image, symbol).payloads
        assert payload.checked
        assert payload.problem.endswith(expected)
        assert bool(payload.problem) == bool(expected)


def test_what_only_a_driver_reads_is_not_checked() -> None:
    verification = verified("opencl", "clbin", b"a vendor's binary", "scale")
    assert str(verification).splitlines()[:2] == [
        "payloads: 1 of 1 intact, 0 compared with a digest",
        "  intact, contents not checked: opencl/clbin",
    ]
    assert verification.to_dict()["payloads"][0]["checked"] is False


@pytest.fixture
def acme() -> Iterator[Callable[..., None]]:
    """Return what registers a kind of another wheel."""

    def register(**fields: Any) -> None:
        spec = TargetSpec(
            "acme", title="Acme", distribution="acme", formats=("a",), suffixes={}, **fields
        )
        devmod.register("devmod.targets", "acme", spec, replace=True)

    yield register
    devmod.register("devmod.targets", "acme", None, replace=True)


def check(fmt: str, data: Any, functions: Mapping[str, FunctionInfo]) -> bool:
    """The check of a kind of another wheel, whose binaries are the names of their kernels."""
    if bytes(data) == b"\0":
        raise ZeroDivisionError("a mistake")
    for name, info in functions.items():
        if info.name.encode() not in bytes(data).split():
            raise devmod.FormatError(f"no {info.name} for {name} in {fmt}", kind="acme")
    return True


def test_a_kind_of_another_wheel_has_a_check_of_its_own(acme: Callable[..., None]) -> None:
    acme()
    assert str(verified("acme", "a", b"g", "f")).splitlines()[1] == (
        "  intact, contents not checked: acme/a"
    )
    for each in (check, f"{__name__}:check"):
        acme(check=each)
        texts = [verified("acme", "a", code, "f").payloads[0][3:] for code in (b"g f", b"g", b"\0")]
        assert texts == [
            ("", True),
            ("no f for f0 in a", True),
            ("ZeroDivisionError: a mistake", True),
        ]
    acme(check=check, shader_map=True)
    module = devmod.create_with_fallback(
        "acme",
        {"one": b"f", "two": b"g"},
        "a",
        {"one": FunctionInfo("f", []), "g": FunctionInfo("two", [])},
    )
    (payload,) = devmod.verify(module).payloads
    assert payload.problem == "no two for g in a"


def test_contents_are_not_checked_without_the_wheel_of_the_check(
    acme: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "devmod_targets", None)
    acme(check="devmod_targets:check")
    assert verified("acme", "a", b"g", "f").payloads[0][3:] == ("", False)

    acme(check="acme_absent:check")
    problem = "ModuleNotFoundError: No module named 'acme_absent'"
    assert verified("acme", "a", b"g", "f").payloads[0][3:] == (problem, True)


def test_a_function_without_a_shader_is_a_problem() -> None:
    functions = {name: FunctionInfo(name, ["handle"]) for name in ("scale", "g")}
    module = devmod.create_with_fallback("webgpu", {"scale": WGSL.encode()}, "wgsl", functions)
    (payload,) = devmod.verify(module).payloads
    assert payload.problem == (
        "the webgpu module has no shader for its function 'g'; it has those of 'scale'"
    )
