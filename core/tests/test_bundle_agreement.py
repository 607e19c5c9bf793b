"""The candidates of a bundle take the same arguments: which do, the error for those that do not,
and `mixed=True`.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_by
from each_case import error_of, raised, refusal
from stored import from_wire
from support import sample
from work import assert_linear, work

import devmod
from devmod import FunctionInfo, Interface, Local, Member, Param
from devmod._modules import agreement
from devmod_targets.authoring import CompileRequest, Payload
from devmod_targets.programs import make_program
from devmod_workbench._cli import main

pytestmark = [pytest.mark.row("R12"), pytest.mark.once]  # the values of interfaces


def module(
    kind: str, *params: Param, name: str = "f", interface: bool = True, **fields: Any
) -> devmod.Module:
    code, fmt, _ = sample(kind)
    types = ["handle"] * sum(len(param.values) for param in params)
    info = FunctionInfo("f", types, (), (), Interface(params, **fields) if interface else None)
    return devmod.create_with_fallback(
        kind, {"add": b"x"} if isinstance(code, dict) else b"x", fmt, {name: info}
    )


def buffer(name: str, dtype: str, access: str = "rw", **more: Any) -> Param:
    return Param(name, "buffer", dtype, access, **more)


def scalar(name: str, dtype: str, **more: Any) -> Param:
    return Param(name, "scalar", dtype, **more)


MEMBERS = (Member("a", "float32"), Member("n", "int32", 4))
PACK = ("ptr:handle", "count:uint64")
STRUCT = scalar("p", "uint8x8", align=4, members=MEMBERS)
PADDED = Param(
    "p", "uniform", "uint8x32", align=16, members=(Member("a", "float32"), Member("n", "int32", 16))
)
NESTED = (Member("v", "", 0, MEMBERS, 8), Member("w", "float32", 8, shape=(4,), strides=(4,)))


def agree(first: tuple[Param, ...], second: tuple[Param, ...]) -> bool:
    """Return whether the parameters of two candidates agree. The order of the candidates does not
    matter.
    """
    answers = set()
    for one, other in ((first, second), (second, first)):
        try:
            devmod.bundle(module("opencl", *one), module("vulkan", *other))
        except devmod.FormatError:
            answers.add(False)
        else:
            answers.add(True)
    (answer,) = answers
    return answer


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        # buffers: the base type
        (buffer("x", "float32"), buffer("x", "float32x4"), True),
        (buffer("x", "float32x3"), buffer("x", "float32x3"), True),
        (
            buffer("x", "float32x3"),
            buffer("x", "float32"),
            False,
        ),  # an element of three has the memory of four
        (buffer("x", "float32"), buffer("x", "float32", "r"), True),
        (buffer("x", "float32"), buffer("x", ""), True),
        (buffer("x", "uint8"), buffer("x", "uint32"), False),
        (buffer("x", "int32"), buffer("x", "uint32"), False),
        (buffer("x", "float32"), buffer("x", "float16"), False),
        (buffer("x", "uint8x8", align=4), buffer("x", "uint8x8", align=8), True),
        (buffer("x", "uint8x8", align=4), buffer("x", "uint8x16", align=4), False),
        (buffer("x", "uint8x8", align=4), buffer("x", "uint8x8"), False),
        # scalars: the class, and the number of lanes
        (scalar("n", "int32"), scalar("n", "uint64"), True),
        (scalar("n", "float32"), scalar("n", "float16"), True),
        (scalar("n", "bfloat16"), scalar("n", "float32"), True),
        (scalar("n", "int32"), scalar("n", "float32"), False),
        (scalar("n", "bool"), scalar("n", "bool"), True),
        (scalar("n", "bool"), scalar("n", "uint32"), False),
        (scalar("n", ""), scalar("n", "float32"), True),
        (scalar("n", "float32x3"), scalar("n", "float32x3"), True),
        (scalar("n", "float32x3"), scalar("n", "float32x4"), False),
        (scalar("n", "float32"), buffer("n", "float32"), False),
        # names
        (buffer("x", "float32"), buffer("y", "float32"), False),
        # local memory
        (Param("t", "local", "float32"), Param("t", "local", "int32"), True),
        (Param("t", "local"), buffer("t", ""), False),
        # images and samplers
        (Param("t", "image"), Param("t", "image", "2d", sample="float"), True),
        (
            Param("t", "image", "2d", sample="float"),
            Param("t", "image", "2d", "r", sample="float", format="r32float"),
            True,
        ),
        (
            Param("t", "image", "2d", sample="float", format="r32float"),
            Param("t", "image", "2d", sample="float", format="rgba8unorm"),
            False,
        ),
        (
            Param("t", "image", format="r32float"),
            Param("t", "image", "2d", "w", sample="float", format="rgba8unorm"),
            False,
        ),
        (
            Param("t", "image", "2d", sample="float", format="r32float"),
            Param("t", "image", "2d", "w", sample="float", format="r32float"),
            True,
        ),
        (
            Param("t", "image", "2d", sample="float"),
            Param("t", "image", "3d", sample="float"),
            False,
        ),
        (
            Param("t", "image", "2d", sample="float"),
            Param("t", "image", "2d", sample="uint"),
            False,
        ),
        (Param("t", "image"), Param("t", "sampler"), False),
        # addresses: a device array is a value for both
        (buffer("x", "float32"), scalar("x", "handle"), True),
        (scalar("x", "handle"), scalar("x", "handle", access="r"), True),
        (scalar("x", "handle"), scalar("x", "uint64"), False),
        (scalar("x", "handle"), Param("x", "image"), False),
        # one array for several values of a kernel
        (buffer("x", "float32", pack=PACK), buffer("x", "float32"), True),
        (buffer("x", "float32", pack=PACK), buffer("x", "float32x4", pack=PACK[:1]), True),
        (buffer("x", "float32", pack=PACK), buffer("x", "uint32"), False),
        # structs
        (STRUCT, PADDED, True),
        (STRUCT, scalar("p", "uint8x8", align=4), True),
        (STRUCT, scalar("p", "uint8x8", align=4, members=MEMBERS[:1]), False),
        (
            STRUCT,
            scalar("p", "uint8x8", align=4, members=(Member("b", "float32"), MEMBERS[1])),
            False,
        ),
        (
            STRUCT,
            scalar("p", "uint8x8", align=4, members=(Member("a", "int32"), MEMBERS[1])),
            False,
        ),
        (STRUCT, scalar("p", "int32"), False),
        (
            scalar("p", "uint8x24", align=4, members=NESTED),
            scalar("p", "uint8x24", align=4, members=NESTED),
            True,
        ),
        (
            scalar("p", "uint8x24", align=4, members=NESTED),
            scalar(
                "p",
                "uint8x8",
                align=4,
                members=(NESTED[0].replace(members=MEMBERS[:1], size=4), Member("w", "float32", 4)),
            ),
            False,
        ),
    ],
)
def test_one_parameter(first: Param, second: Param, answer: bool) -> None:
    assert agree((first,), (second,)) is answer


FLAT = (scalar("a", "float32"), scalar("n", "uint32"))
X = buffer("x", "float32")
IMAGE = Param("t", "image", "2d", "r", sample="float")


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ((X, STRUCT), (X, *FLAT), True),
        ((STRUCT, X), (X, FLAT[1], FLAT[0]), True),
        ((X, STRUCT), (X, STRUCT.replace(name="q")), True),
        ((X, STRUCT), (X, FLAT[0]), False),
        ((X, STRUCT), (X, FLAT[0], scalar("n", "float32")), False),
        # the members of a struct with the name of another parameter stay in it
        ((X.replace(name="a"), STRUCT), (X.replace(name="a"), FLAT[1]), False),
        # a struct of unknown members has no flattened form
        ((X, scalar("p", "uint8x8", align=4)), (X, *FLAT), False),
        # nested structs and arrays are not flattened further
        (
            (scalar("p", "uint8x24", align=4, members=NESTED),),
            (
                scalar("v", "uint8x8", align=4, members=MEMBERS),
                scalar(
                    "w",
                    "uint8x16",
                    align=4,
                    members=(Member("", "float32", shape=(4,), strides=(4,)),),
                ),
            ),
            True,
        ),
        (
            (scalar("p", "uint8x24", align=4, members=NESTED),),
            (*FLAT, scalar("w", "float32")),
            False,
        ),
    ],
)
def test_a_struct_agrees_with_the_parameters_of_its_members(
    first: tuple[Param, ...], second: tuple[Param, ...], answer: bool
) -> None:
    assert agree(first, second) is answer


def test_a_local_parameter_with_a_default_does_not_count() -> None:
    scratch = Param("scratch", "local", "float32", default=Local(per_thread=4))
    assert agree((X, scratch), (X,))
    assert not agree((X, scratch.replace(default=None)), (X,))


def test_functions_that_are_not_compared() -> None:
    """Those without an interface or without names, of different names, and those that cannot be
    decoded.
    """
    x, y = module("opencl", X), module("vulkan", X.replace(name="y"))
    damaged = from_wire("webgpu", b"\x81\xa1f\x94\xa1k\x91\xa1x\x90\x90\x81\xa1f\xc4\x01x", ("f",))
    for other in (
        module("webgpu", X, X, interface=False),
        module("webgpu", X.replace(name="")),
        module("webgpu", X, X),
        module("webgpu", X.replace(name="z"), name="g"),
        damaged,
        devmod.const_loader({"w": b"1"}, {"f": ["w"]}),
    ):
        assert "f" in devmod.bundle(x, other)
        with pytest.raises(devmod.FormatError):
            devmod.bundle(other, x, devmod.bundle(y))


def test_the_error_has_both_signatures_side_by_side() -> None:
    first = module(
        "opencl",
        buffer("src", "uint8", "r", pack=PACK),
        buffer("dst", "uint8", "w"),
        scalar("width", "int32"),
        Param("tile", "local", "uint8"),
        name="blur",
    )
    second = module(
        "webgpu",
        buffer("dst", "uint32", "w"),
        buffer("src", "uint32", "r"),
        scalar("width", "uint32"),
        STRUCT,
        name="blur",
    )
    error = raised(
        devmod.FormatError, lambda: devmod.bundle(module("cuda", interface=False), first, second)
    )
    assert str(error) == (
        "the candidates of the bundle take different arguments in the function 'blur'. Give them the same names and types, or use mixed=True "
        "and call each by its own signature:\n"
        "  opencl/cl                     webgpu/wgsl\n"
        "  src: uint8* r pack ptr count  src: uint32* r  <- differs\n"
        "  dst: uint8* w                 dst: uint32* w  <- differs\n"
        "  width: int32                  width: uint32\n"
        "  tile: local uint8             -               <- differs\n"
        "  -                             a: float32      <- differs\n"
        "  -                             n: int32        <- differs\n"
        "Or give parameters of local memory a default size, and calls omit them: "
        "devmod.compile(…, local={'blur': {'tile': Local(per_thread=1)}})"
    )
    assert (error.kind, error.function) == ("bundle", "blur")


def test_the_error_has_all_functions_and_all_candidates_that_differ() -> None:
    local = Param("s", "local", "float32x4")
    first = [
        module("opencl", X, local, name="f"),
        module("opencl", X, name="g"),
        module("opencl", X, name="h"),
    ]
    second = [
        module("webgpu", X, name="f"),
        module("webgpu", scalar("x", "int32"), name="g"),
        module("webgpu", X, name="h"),
    ]
    third = [
        module("vulkan", X, name="f"),
        module("vulkan", X, scalar("n", "int32"), name="g"),
        module("vulkan", X, name="h"),
    ]
    assert refusal(devmod.FormatError, devmod.bundle, *first, *second, *third) == (
        "the candidates of the bundle take different arguments in the functions 'f', 'g'. Give them the same names and types, or use "
        "mixed=True and call each by its own signature:\n"
        "'f':\n"
        "  opencl/cl           webgpu/wgsl\n"
        "  x: float32* rw      x: float32* rw\n"
        "  s: local float32x4  -               <- differs\n"
        "'g':\n"
        "  opencl/cl       webgpu/wgsl\n"
        "  x: float32* rw  x: int32     <- differs\n"
        "'g':\n"
        "  opencl/cl       vulkan/spv\n"
        "  x: float32* rw  x: float32* rw\n"
        "  -               n: int32        <- differs\n"
        "Or give parameters of local memory a default size, and calls omit them: "
        "devmod.compile(…, local={'f': {'s': Local(per_thread=16)}})"
    )
    many = [
        module(kind, scalar("x", type_), name=f"f{number}")
        for number in range(20)
        for kind, type_ in (("opencl", "int32"), ("vulkan", "float32"))
    ]
    text = refusal(devmod.FormatError, devmod.bundle, *many)
    assert text.count("opencl/cl") == 8
    assert text.endswith("\nand 12 more")


def test_a_long_or_hostile_signature_in_the_error() -> None:
    params = [scalar(f"p{number}", "int32") for number in range(40)]
    lines = refusal(
        devmod.FormatError,
        devmod.bundle,
        module("opencl", *params),
        module("vulkan", *params[:-1], scalar("\x1b[2J\n" + "x" * 100, "int32")),
    ).splitlines()[1:]
    assert lines == [
        "  opencl/cl   vulkan/spv",
        "  p39: int32  -" + " " * 65 + "<- differs",
        "  -           \\x1b[2J\\n" + "x" * 54 + "…  <- differs",
    ]
    assert refusal(
        devmod.FormatError, devmod.bundle, module("opencl", *params), module("vulkan")
    ).splitlines()[-2:] == [
        "  p31: int32  -           <- differs",
        "  and 8 more",
    ]


def test_parameters_with_the_names_of_launch_keywords_agree_in_any_order() -> None:
    grid = scalar("grid", "int32")
    assert agree((X, grid), (X, grid))
    assert agree((X, grid), (grid, X))
    assert not agree((X, grid), (scalar("grid", "float32"), X))


@pytest.mark.parametrize(
    ("unknown", "one", "other", "texts"),
    [
        (
            IMAGE,
            IMAGE.replace(format="r32float"),
            IMAGE.replace(format="rgba8unorm"),
            ("t: image 2d r32float r", "t: image 2d rgba8unorm r"),
        ),
        (
            buffer("x", ""),
            buffer("x", "int32"),
            buffer("x", "float32"),
            ("x: int32* rw", "x: float32* rw"),
        ),
    ],
)
def test_candidates_that_fit_an_unknown_type_or_format_are_compared_with_each_other(
    unknown: Param, one: Param, other: Param, texts: tuple[str, str]
) -> None:
    """As an image of OpenCL, which has no format, before those of Vulkan and WebGPU."""
    candidates = [module("opencl", unknown), module("vulkan", one), module("webgpu", other)]
    assert refusal(devmod.FormatError, devmod.bundle, *candidates) == (
        "the candidates of the bundle take different arguments in the function 'f'. Give them the same names and types, or use mixed=True "
        f"and call each by its own signature:\n  {'vulkan/spv':<{max(len(texts[0]), 10)}}  webgpu/wgsl\n  {texts[0]:<10}  {texts[1]}  <- differs"
    )
    devmod.bundle(candidates[0], candidates[1], module("webgpu", one))


def test_inspect_names_the_kinds_whose_candidates_have_a_function(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a GLSL kernel that has the name of its file."""
    path = str(tmp_path / "k.devmod")
    devmod.save(
        devmod.bundle(module("opencl", X), module("webgpu", X), module("vulkan", X, name="g")), path
    )
    out = printed_by(capsys, "inspect", path).out
    assert [line.strip() for line in out.splitlines() if "every candidate" in line] == [
        "every candidate of opencl, webgpu: f(x: float32* rw)"
    ]
    found = json.loads(printed_by(capsys, "inspect", path, "--json").out)["module"]
    assert found["common"] == [
        {"name": "f", "signature": "f(x: float32* rw)", "kinds": ["opencl", "webgpu"]}
    ]


def block_module(kind: str, name: str = "f", **interface: Any) -> devmod.Module:
    """Return a module whose function has a block."""
    code, fmt, _ = sample(kind)
    info = FunctionInfo("f", ["handle"], (), (), Interface([X], **interface))
    return devmod.create_with_fallback(
        kind, {"add": b"x"} if isinstance(code, dict) else b"x", fmt, {name: info}
    )


def test_a_candidate_without_the_block_of_the_others_is_a_warning_of_the_bundle() -> None:
    fixed = [block_module("vulkan", block=(64, 1, 1)), block_module("webgpu", block=(64, 1, 1))]
    text = "a call of 'f' needs block= on 'opencl' alone: the other candidates have blocks of 64. Compile it with this block: "
    with pytest.warns(UserWarning, match="needs block=") as caught:
        devmod.bundle(block_module("opencl"), *fixed)
    (warning,) = caught
    assert str(warning.message) == f"{text}devmod.compile(…, block={{'f': 64}})"
    assert warning.filename == __file__
    flat = {"default_block": (16, 4, 1)}
    with pytest.warns(UserWarning, match="needs block=") as caught:
        devmod.bundle(
            *[block_module(kind, name) for kind in ("cuda", "opencl") for name in "fg"],
            *[block_module("metal", n, **flat) for n in "fg"],
        )
    assert [str(each.message) for each in caught] == [
        "a call of 'f', 'g' needs block= on 'cuda', 'opencl' alone: the other candidates have blocks of (16, 4). Compile it with this block: "
        "devmod.compile(…, block={'f': (16, 4), 'g': (16, 4)})"
    ]


@pytest.mark.parametrize(
    "candidates",
    [
        # any block, a kind without blocks, no block in common, none at all, a block that constants
        # set
        [("opencl", {"open_block": True}), ("vulkan", {"block": (64, 1, 1)})],
        [("hexagon", {}), ("vulkan", {"block": (64, 1, 1)})],
        [("opencl", {}), ("vulkan", {"block": (64, 1, 1)}), ("webgpu", {"block": (32, 1, 1)})],
        [("opencl", {}), ("cuda", {})],
        [("opencl", {}), ("vulkan", {"block": (0, 1, 1)})],
        [("opencl", {"default_block": (64, 1, 1)}), ("vulkan", {"block": (64, 1, 1)})],
    ],
)
def test_candidates_whose_blocks_need_no_warning(
    candidates: list[tuple[str, dict[str, Any]]],
) -> None:
    devmod.bundle(*[block_module(kind, **interface) for kind, interface in candidates])


def test_mixed_bundles_and_loading_are_not_checked(tmp_path: Path) -> None:
    first, second = module("opencl", X), module("vulkan", X.replace(name="y"))
    mixed = devmod.bundle(first, second, mixed=True)
    path = tmp_path / "k.devmod"
    devmod.save(mixed, path)
    assert [each.kind for each in devmod.load(path).imports] == ["opencl", "vulkan"]
    assert devmod.dumps(devmod.load(path)) == devmod.dumps(mixed)
    with pytest.raises(devmod.FormatError, match="take different arguments"):
        devmod.bundle(mixed)
    with pytest.raises(devmod.FormatError, match="take different arguments"):
        devmod.bundle(*devmod.load(path).imports)


SCRATCH = Param("scratch", "local", "float32", default=Local(per_thread=4))


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((X, scalar("n", "int32")), (X, scalar("n", "int32")), "f(x: float32* rw, n: int32)"),
        (
            (X.replace(access="r"), scalar("n", "int32")),
            (X.replace(type="float32x4", access="w"), scalar("n", "uint64")),
            "f(x: float32* rw, n: integer)",
        ),
        ((buffer("x", "", ""),), (buffer("x", "float16", ""),), "f(x: float16*)"),
        (
            (scalar("v", "float32x3"), scalar("w", "")),
            (scalar("v", "float16x3"), scalar("w", "int8")),
            "f(v: floatx3, w: integer)",
        ),
        ((X, scalar("n", "int32")), (scalar("n", "int32"), X), "f(*, x: float32* rw, n: int32)"),
        ((X.replace(pack=PACK),), (X,), "f(x: float32* rw)"),
        ((X, STRUCT), (X, *FLAT), "f(x: float32* rw, a: float32, n: integer)"),
        ((X, STRUCT), (X, PADDED), "f(x: float32* rw, p: {a: float32, n: int32})"),
        ((X, STRUCT), (X, scalar("p", "uint8x8", align=4)), "f(x: float32* rw, p: struct)"),
        ((IMAGE,), (IMAGE.replace(format="r32float", access="w"),), "f(t: image 2d r32float rw)"),
        ((IMAGE,), (IMAGE.replace(sample="", access=""),), "f(t: image 2d float r)"),
        ((X, SCRATCH), (X,), "f(x: float32* rw, *, scratch: local float32 = Local(per_thread=4))"),
        (
            (X, SCRATCH, FLAT[0]),
            (FLAT[0], X),
            "f(*, x: float32* rw, a: float32, scratch: local float32 = Local(per_thread=4))",
        ),
        ((X,), (X.replace(name="y"),), "f: its candidates take different arguments"),
        ((X,), (X.replace(name=""),), ""),
    ],
)
def test_inspect_and_notebooks_show_the_common_signature(
    first: tuple[Param, ...],
    second: tuple[Param, ...],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bundle = devmod.bundle(
        module("opencl", *first), devmod.bundle(module("vulkan", *second), mixed=True), mixed=True
    )
    path = tmp_path / "k.devmod"
    devmod.save(bundle, path)
    out = printed_by(capsys, "inspect", path).out
    assert [line.strip() for line in out.splitlines() if "every candidate" in line] == [
        f"every candidate: {text}"
    ] * bool(text)
    shown = text or "f(x: float32* rw)"
    assert f"<tr><th>function</th><td>{shown}</td></tr>" in devmod.load(path)._repr_html_()
    found = json.loads(printed_by(capsys, "inspect", "--json", path).out)["module"]
    assert found["common"] == [{"name": "f", "signature": text}] * bool(text)
    assert [each for each in found["imports"] if "common" in each] == []


def test_bundles_that_share_candidates_are_compared_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may have hundreds of bundles of the same candidates."""
    first, second = module("opencl", X), module("vulkan", X)
    root = module("cuda", name="g")
    for _ in range(3):
        root.import_module(devmod.bundle(first, second))
    devmod.save(root, tmp_path / "k.devmod")
    assert (
        printed_by(capsys, "inspect", tmp_path / "k.devmod").out.count(
            "every candidate: f(x: float32* rw)"
        )
        == 1
    )


def test_the_work_for_the_structs_of_many_candidates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of each struct is compared with the names in all other candidates."""
    structs = [STRUCT.replace(name=f"p{number}") for number in range(8)]

    def inspect(count: int) -> Callable[[], object]:
        made = [
            module("opencl", *structs, scalar(f"n{number}", "int32")) for number in range(count)
        ]
        devmod.save(devmod.bundle(*made, mixed=True), tmp_path / f"{count}.devmod")
        return lambda: main(["inspect", str(tmp_path / f"{count}.devmod")])

    assert_linear(inspect, 20)


def test_equal_functions_are_decoded_once() -> None:
    def events(end: str) -> int:
        made = [
            module("opencl", *(scalar(f"n{number}{end * each}", "int32") for number in range(50)))
            for each in range(1, 9)
        ]
        loaded = devmod.loads(devmod.dumps(devmod.bundle(*made, mixed=True)))
        return work(lambda: agreement.agreements([loaded]))

    assert 2 * events("") < events("x")


def test_functions_beyond_the_limit_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    devmod.save(
        devmod.bundle(
            module("opencl", X), module("vulkan", X), module("cuda", X.replace(access="r"))
        ),
        tmp_path / "k.devmod",
    )
    for limit, count in ((1000, 1), (100, 0)):
        monkeypatch.setattr(agreement, "_MAX_COMPARED", limit)
        assert (
            printed_by(capsys, "inspect", tmp_path / "k.devmod").out.count("every candidate: ")
            == count
        )


def test_the_common_block_is_that_of_all_candidates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def text(*interfaces: Interface) -> str:
        code, fmt, _ = sample("opencl")
        made = [
            devmod.create_with_fallback(
                "opencl", code, fmt, {"f": FunctionInfo("f", [], (), (), each)}
            )
            for each in interfaces
        ]
        devmod.save(devmod.bundle(*made), tmp_path / "k.devmod")
        return printed_by(capsys, "inspect", tmp_path / "k.devmod").out.splitlines()[2].strip()

    assert (
        text(Interface(open_block=True), Interface(open_block=True))
        == "every candidate: f() any block"
    )
    assert (
        text(Interface(default_block=(8, 8, 1)), Interface(default_block=(8, 8, 1)))
        == "every candidate: f() default block 8×8×1"
    )
    assert text(Interface(block=(8, 8, 1)), Interface(open_block=True)) == "every candidate: f()"


def test_the_command_compiles_candidates_that_disagree_with_an_option(
    register: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def compiler(request: CompileRequest) -> Payload:
        info = FunctionInfo(
            "f", ["handle"], (), (), Interface([X.replace(name=f"for_{request.target.kind}")])
        )
        return Payload(request.target.kind, b"x", "bin", {"f": info})

    compilers = types.ModuleType("devmod_toy_compilers")
    compilers.compile = compiler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "devmod_toy_compilers", compilers)
    for kind in ("toya", "toyb"):
        languages = {"toy": "Toy"}
        spec = devmod.TargetSpec(
            kind,
            title=kind,
            distribution=f"devmod-{kind}",
            formats=["bin"],
            languages=languages,
            compiler="devmod_toy_compilers:compile",
        )
        register("devmod.targets", kind, spec)
    (tmp_path / "k.toy").write_text("f")
    for output in ("k.devmod", "-"):
        arguments = [
            "compile",
            str(tmp_path / "k.toy"),
            "-t",
            "toya",
            "-t",
            "toyb",
            "-o",
            output if output == "-" else str(tmp_path / output),
        ]
        assert (
            "  for_toya: float32* rw  -                      <- differs\n"
            in printed_by(capsys, *arguments, status=1).err
        )
        assert not (tmp_path / "k.devmod").exists()
    assert main([*arguments[:-1], str(tmp_path / "k.devmod"), "--mixed"]) == 0
    assert [each.kind for each in devmod.load(tmp_path / "k.devmod").imports] == ["toya", "toyb"]


def test_a_nested_bundle_that_gets_a_candidate_changes_the_agreement_of_the_outer_one() -> None:
    """Otherwise the file permits positional arguments, and they reach the new candidate in the
    wrong order.
    """
    first, second = scalar("x", "int32"), scalar("y", "int32")
    inner = devmod.bundle(module("opencl", first, second))
    outer = devmod.bundle(inner, module("cuda", first, second))
    inner.import_module(module("opencl", second, first))
    index = devmod.dumps(outer)
    assert b"\xa5calls\x81\xa1f\x91\xc3" in index


N = scalar("n", "int32")


def tuned(kind: str, **tune: Any) -> devmod.Module:
    """Return a module with a tuned function."""
    fields = {"constants": ["BLOCK"], "variants": [{"values": [64]}], **tune}
    return module(kind, N, extra={"tune": fields}, needs=["tuned"])


def test_all_candidates_have_their_own_grid_or_none() -> None:
    own = tuned("opencl", grid=["n"], block=["BLOCK"])
    plain = module("vulkan", N)
    devmod.bundle(own, tuned("vulkan", grid=["BLOCK"], block=["BLOCK"]))
    devmod.bundle(tuned("opencl", block=["BLOCK"]), plain)
    devmod.bundle(own, module("hexagon", N))
    for other in (tuned("vulkan"), plain):
        assert str(error_of(devmod.bundle, own, other)) == (
            "the function 'f' has its own grid on 'opencl', and calls must give one on 'vulkan'. Compile all with tune= and grid=, or use "
            "mixed=True"
        )
        devmod.bundle(own, other, mixed=True)


def test_a_call_of_a_tuned_function_gives_no_block(recwarn: pytest.WarningsRecorder) -> None:
    devmod.bundle(tuned("opencl", block=["BLOCK"]), module("vulkan", N, block=(64, 1, 1)))
    assert not recwarn
    assert str(tuned("opencl").functions["f"]) == "<FunctionInfo f(n: int32) tuned>"


def test_a_kernel_is_of_the_first_node_that_programs_import() -> None:
    kinds = ("cuda", "opencl", "rocm", "webgpu")
    first, second, third, alone = [block_module(kind, block=(64, 1, 1)) for kind in kinds]
    inner = devmod.bundle(second)
    nodes = devmod.bundle(first, inner), devmod.bundle(third, inner)
    first._devmod_imports = (devmod.const_loader({}, {}),)
    programs = []
    for name, node in zip("pq", nodes, strict=True):
        declared = {"updates": ["x: float32[n]"]}
        programs.append(make_program(name, node, ["f(x=x, threads=n)"], declared))
    found = agreement.kernel_nodes([*programs, devmod.bundle(alone)])
    assert found == {first: nodes[0], second: nodes[0], third: nodes[1]}
    groups = agreement.by_node([alone, third, second, first], found)
    assert groups == [[alone], [third], [second, first]]
