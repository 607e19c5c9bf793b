"""The compiler of Vulkan: typical shaders, compiled by the library of slangpy and by the system's
tools, and their whole interfaces.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import stat
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from each_case import check_texts, raised, refusal

import devmod
from devmod import Block, FunctionInfo, Interface, Member, Param
from devmod.targets.vulkan.architecture import architecture
from devmod_targets.authoring import _process

KERNELS = Path(__file__).parent / "kernels" / "vulkan"
GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")

needs_compiler = pytest.mark.skipif(
    not (shutil.which("glslangValidator") and shutil.which("spirv-opt")),
    reason="glslang-tools or spirv-tools is not installed",
)
needs_tools = pytest.mark.skipif(
    not shutil.which("spirv-val"), reason="spirv-tools is not installed"
)
pytestmark = needs_compiler
#: The library of the wheel, and a program.
both_compilers = pytest.mark.parametrize("compiler", ["slangpy", "glslangValidator"])


@pytest.fixture(autouse=True)
def _needs_slangpy(request: pytest.FixtureRequest) -> None:
    """Skip the cases of the library where its wheel is not installed."""
    callspec = getattr(request.node, "callspec", None)
    if callspec and "slangpy" in callspec.params.values() and find_spec("slangpy") is None:
        pytest.skip("slangpy is not installed")


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the wheel slangpy, as if it were not installed."""
    monkeypatch.setitem(sys.modules, "slangpy", None)


def build(name: str, target: str = "vulkan", **given: Any) -> devmod.Module:
    return devmod.compile(KERNELS / name, target, include=KERNELS / "include", **given)


def refused(
    source: Any,
    target: str = "vulkan",
    *,
    error: type[Exception] = devmod.CompileError,
    **given: Any,
) -> str:
    return refusal(error, devmod.compile, source, target, **given)


def buffer(
    name: str,
    element: str,
    at: tuple[int, int],
    access: str = "rw",
    align: int = 0,
    size: int = 0,
    members: Sequence[Member] = (),
) -> Param:
    return Param(name, "buffer", element, access, at, align, size, members)


def scalar(name: str, element: str, at: tuple[int, int], align: int = 0, access: str = "") -> Param:
    return Param(name, "scalar", element, access, at, align)


def image(
    name: str, type_: str, at: int, access: str = "r", format_: str = "", sample: str = "float"
) -> Param:
    return Param(name, "image", type_, access, (0, at), format=format_, sample=sample)


def sampler(name: str, at: int) -> Param:
    return Param(name, "sampler", at=(0, at))


SCENE = (
    Member("view", "float32x4", 0, shape=[4], strides=[16]),
    Member(
        "lights",
        "",
        64,
        [Member("at", "float32x3", 0), Member("power", "float32", 12)],
        16,
        [2],
        [16],
    ),
    Member("exposure", "float32", 96),
)
PARTICLE = (
    Member("position", "float32x4", 0),
    Member("velocity", "float32x3", 16),
    Member("age", "float32", 28),
    Member("colour", "uint32", 32),
)
RANGE = (
    Member("start", "uint32", 0),
    Member("count", "uint32", 4),
    Member("weight", "float32x2", 8),
)
INTERFACES: dict[str, dict[str, Interface]] = {
    "saxpy.comp": {
        "saxpy": Interface(
            [
                buffer("x", "float32", (0, 0), "r"),
                buffer("y", "float32", (0, 1)),
                scalar("alpha", "float32", (0, 0)),
                scalar("n", "uint32", (0, 4)),
            ],
            [Block("push", 8, name="push")],
            (256, 1, 1),
        )
    },
    "particles.comp": {
        "particles": Interface(
            [
                buffer("particles", "uint8x48", (0, 0), align=16, members=PARTICLE),
                buffer("attractors", "float32x4", (0, 1), "r", size=256),
                scalar("dt", "float32", (0, 0)),
                scalar("gravity", "float32x3", (0, 16)),
                scalar("size", "int32x2", (0, 32)),
                scalar("wrap", "uint32", (0, 40)),
                buffer("alive", "uint32", (0, 3), "w", size=4),
            ],
            [Block((0, 2), 48, name="frame")],
            (64, 1, 1),
        )
    },
    "blocks.comp": {
        "blocks": Interface(
            [
                buffer("same", "uint32", (0, 0), size=4),
                buffer("mixed", "", (0, 1), size=4),
                scalar("a", "float32x2", (0, 0)),
                scalar("b", "float32", (0, 8)),
                scalar("c", "uint32x4", (0, 16)),
                buffer("never", "uint32", (0, 4), "r"),
                Param("scene", "uniform", "uint8x112", at=(0, 5), align=16, members=SCENE),
                buffer("result", "float32", (1, 0)),
                buffer(
                    "constants",
                    "uint8x8",
                    (2, 7),
                    "rw",
                    4,
                    8,
                    [Member("n", "int32", 0), Member("scale", "float32", 4)],
                ),
                scalar("origin", "float32x3", (1, 16)),
                scalar("radius", "float32", (1, 28)),
                scalar("turn", "uint8x16", (1, 32), 8).replace(
                    members=[Member("", "float32x2", shape=[2], strides=[8])]
                ),
                scalar("table", "uint8x12", (1, 48), 4).replace(
                    members=[Member("", "int32", shape=[3], strides=[4])]
                ),
            ],
            [Block((0, 2), 32, name="plain"), Block("push", 64, name="Push")],
            (4, 2, 3),
        )
    },
    "matrices.comp": {
        "matrices": Interface(
            [
                buffer("a", "float32x4", (0, 0)),
                buffer("b", "float32x3", (0, 1)),
                buffer("c", "float32x2", (0, 2)),
                buffer("d", "float32x3", (0, 3)),
                buffer("e", "float32", (0, 4)),
                buffer("f", "uint8x16", (0, 5), align=4),
                buffer("g", "float32", (0, 6)),
                buffer("h", "float32x3", (0, 7)),
                buffer("i", "float64x2", (0, 8)),
                buffer(
                    "J",
                    "uint8x16",
                    (0, 9),
                    "rw",
                    16,
                    16,
                    [Member("j", "float32x3", 0), Member("k", "float32", 12)],
                ),
            ],
            block=(1, 1, 1),
        )
    },
    "widths.comp": {
        "widths": Interface(
            [
                buffer("halves", "float16", (0, 0)),
                buffer("bytes", "uint8", (0, 1)),
                buffer("signeds", "int8x4", (0, 2)),
                buffer("shorts", "uint16x2", (0, 3)),
                buffer("longs", "int64", (0, 4)),
                buffer("doubles", "float64x2", (0, 5)),
                buffer("tickets", "uint64", (0, 6), size=8),
                scalar("start", "int64", (0, 0)),
                scalar("scale", "float64", (0, 8)),
                scalar("half_", "float16", (0, 16)),
                scalar("small", "uint8", (0, 18)),
                scalar("three", "int16x3", (0, 24)),
            ],
            [Block("push", 32, name="Push")],
            (32, 1, 1),
        )
    },
    "images.comp": {
        "images": Interface(
            [
                image("picture", "2d", 0),
                sampler("picture_sampler", 0),
                image("from", "2d", 1, format_="rgba8unorm"),
                image("to", "2d", 2, "w", "rgba8unorm"),
                image("counts", "2d", 3, "rw", "r32uint", "uint"),
                image("volume", "3d", 4),
                sampler("how", 5),
                image("layers", "2d_array", 6),
                sampler("layers_sampler", 6),
                buffer("total", "float32", (0, 7), size=4),
            ],
            block=(8, 8, 1),
        )
    },
    "constants.comp": {
        "constants": Interface(
            [buffer("y", "float32", (0, 0))],
            block=(1, 4, 1),
            extra={
                "constants": [
                    {"name": "local_size_x", "id": 0, "type": "uint32", "default": 1},
                    {"name": "local_size_z", "id": 2, "type": "uint32", "default": 1},
                    {"name": "RADIUS", "id": 10, "type": "int32", "default": 3},
                    {"name": "BINS", "id": 11, "type": "uint32", "default": 256},
                    {"name": "SCALE", "id": 12, "type": "float32", "default": 0.5},
                    {"name": "EXACT", "id": 13, "type": "bool", "default": True},
                    {"name": "LARGE", "id": 14, "type": "float64", "default": 1e100},
                ],
                "block_constants": [0, -1, 1],
                "workgroup_memory": 1048,  # with the default values
            },
        )
    },
    "references.comp": {
        "references": Interface(
            [
                buffer("y", "float32", (0, 0)),
                scalar("head", "handle", (0, 0), access="rw"),
                scalar("n", "uint32", (0, 8)),
            ],
            [Block("push", 16, name="Push")],
            (1, 1, 1),
        )
    },
    "scan.hlsl": {
        "scan": Interface(
            [
                buffer("values", "float32", (0, 0), "r"),
                buffer("result", "float32", (0, 1)),
                buffer("sums", "float32", (0, 2)),
                scalar("n", "uint32", (0, 0)),
                scalar("scale", "float32x3", (0, 4)),
                scalar("inclusive", "uint32", (0, 16)),
            ],
            [Block((0, 5), 20, name="Params")],
            (64, 1, 1),
            {"workgroup_memory": 256},
        ),
        "add": Interface(
            [
                buffer("result", "float32", (0, 1)),
                buffer("sums", "float32", (0, 2)),
                buffer("ranges", "uint8x16", (0, 3), "r", 8, members=RANGE),
                buffer("raw", "uint32", (0, 4)),
                scalar("shift", "int32", (0, 0)),
            ],
            [Block("push", 4, name="Push")],
            (8, 8, 1),
        ),
    },
    "main.hlsl": {"main": Interface([buffer("y", "float32x4", (0, 0))], block=(32, 1, 1))},
}


@pytest.mark.row("R11", "R12", "R29", "R37")
@pytest.mark.parametrize(
    ("name", "compiler"),
    [
        # The programs have all shaders in the volume, and here those that the library does not
        # compile, and one more.
        pytest.param(
            name,
            compiler,
            marks=pytest.mark.volume
            if compiler[0] == "g" and name.endswith(".comp") and name != "images.comp"
            else [],
        )
        for name in INTERFACES
        for compiler in ("slangpy", "glslangValidator")
        if (name, compiler[0]) != (f"{name[:-5]}.hlsl", "s")
    ],
)
def test_the_interface_matches_the_shader(name: str, compiler: str) -> None:
    module = build(name, options=[f"--compiler={compiler}"])
    assert {key: info.interface for key, info in module.functions.items()} == INTERFACES[name]
    for key, info in module.functions.items():
        assert info.name == (key if name.endswith(".hlsl") else "main")
        assert info.launch_param_tags == GRID
        assert info.arg_types == tuple(
            param.type.replace("handle", "uint64")
            if param.kind in ("scalar", "uniform")
            else "handle"
            for param in info.interface.params  # type: ignore[union-attr]
        )
    assert list(module.code) == list(module.functions)  # type: ignore[attr-defined]


@pytest.mark.row("R15")
def test_a_shader_is_its_flag_its_count_and_its_words() -> None:
    (value,) = build("saxpy.comp").code.values()  # type: ignore[attr-defined]
    assert value[:4] == bytes(4)
    assert int.from_bytes(value[4:12], "little") * 4 == len(value) - 12
    assert value[12:16] == b"\x03\x02\x23\x07"
    assert architecture("spv", value) == "spirv1.3"


@pytest.mark.row("R13", "R26")
@pytest.mark.skipif(not shutil.which("spirv-dis"), reason="spirv-tools is not installed")
@pytest.mark.parametrize(
    ("name", "entries"), [("scan.hlsl", ["scan", "add"]), ("saxpy.comp", ["main"])]
)
def test_the_disassembly_is_the_source(name: str, entries: list[str]) -> None:
    module = build(name)
    text = module.inspect_source()
    assert text == module.inspect_source("spv") == module.source["spv"]
    assert re.findall(r'OpEntryPoint GLCompute %\w+ "(\w+)"', text) == entries


@pytest.mark.row("R42")
def test_the_origin_records_target_toolchain_options_and_sources() -> None:
    module = build(
        "tiles.comp",
        defines={"SCALE": 2},
        options=["-DTILE=16", "-Os", "--compiler=glslangValidator"],
    )
    origin = module.origin
    assert origin is not None
    assert (origin.target, origin.options) == (
        "vulkan",
        ("--compiler=glslangValidator", "-Os", "-DTILE=16", "-DSCALE=2"),
    )
    assert re.fullmatch(r"glslang \d+(\.\d+)+, spirv-opt \d+(\.\d+)+", origin.toolchain)
    files = {
        name: hashlib.sha256((KERNELS / place / name).read_bytes()).hexdigest()
        for place, name in (("", "tiles.comp"), ("include", "tile.h"), ("include", "bias.h"))
    }
    assert origin.sources == files
    assert module.functions["tiles"].interface.block == (16, 1, 1)  # type: ignore[union-attr]
    plain = build(
        "tiles.comp", defines={"SCALE": 2}, options=["-O0", "--compiler=glslangValidator"]
    ).origin
    assert plain is not None
    assert re.fullmatch(r"glslang \d+(\.\d+)+", plain.toolchain)
    by_library = build("tiles.comp", defines={"SCALE": 2}).origin
    assert by_library == devmod.Origin(
        "vulkan", f"slangpy {importlib.metadata.version('slangpy')}", ("-DSCALE=2",), files
    )


@pytest.mark.row("R38")
@both_compilers
def test_folders_and_files_of_this_machine_change_nothing(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["-g", f"--compiler={compiler}"]
    made = {
        build("tiles.comp", defines={"SCALE": 2}, options=options).save_to_bytes() for _ in range(2)
    }
    other = tmp_path / "a folder of another name"
    shutil.copytree(KERNELS, other)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    moved = devmod.compile(
        other / "tiles.comp",
        "vulkan",
        include=other / "include",
        defines={"SCALE": 2},
        options=options,
    )
    made.add(moved.save_to_bytes())
    assert len(made) == 1
    assert not any(
        part.encode() in data for data in made for part in ("/tmp", str(tmp_path), str(KERNELS))
    )


@pytest.mark.row("R18", "R28")
def test_the_validator_and_the_disassembler_change_no_byte(
    no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build("saxpy.comp")
    only_these(tmp_path, monkeypatch, "glslangValidator", "spirv-opt")
    bare = build("saxpy.comp")
    assert bare.save_to_bytes() == whole.save_to_bytes()
    assert bare.origin == whole.origin
    assert bare.source == {}


def only_these(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Set PATH to a folder with these programs only."""
    programs = folder / "programs"
    programs.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))


@both_compilers
def test_several_architectures_give_variants(compiler: str, tmp_path: Path) -> None:
    module = build(
        "saxpy.comp",
        "vulkan -arch=vulkan1.1,spirv1.4,vulkan1.2,vulkan1.3",
        options=[f"--compiler={compiler}"],
    )
    assert [architecture("spv", each.code["saxpy"]) for each in module.imports] == [
        "spirv1.3",
        "spirv1.4",
        "spirv1.5",
        "spirv1.6",
    ]  # type: ignore[attr-defined]
    devmod.save(module, tmp_path / "k.devmod")
    assert len(devmod.load(tmp_path / "k.devmod").imports) == 4
    assert [each.origin.target for each in module.imports if each.origin] == [
        f"vulkan -arch={arch}" for arch in ("vulkan1.1", "spirv1.4", "vulkan1.2", "vulkan1.3")
    ]
    assert refused("void main() {}", "vulkan -arch=sm_90") == (
        "the target 'vulkan -arch=sm_90' has the unknown architecture 'sm_90'; expected vulkan1.0, vulkan1.1, "
        "vulkan1.2, vulkan1.3, spirv1.0, spirv1.3, spirv1.4, spirv1.5, spirv1.6 (default vulkan1.1)"
    )


@both_compilers
def test_the_version_that_sizes_a_workgroup_by_ids_is_read_as_well(compiler: str) -> None:
    module = build("constants.comp", "vulkan -arch=vulkan1.3", options=[f"--compiler={compiler}"])
    assert module.functions["constants"].interface == INTERFACES["constants.comp"]["constants"]


def test_the_alignment_of_a_struct_is_no_more_than_its_place_has() -> None:
    source = (
        "#version 450\n#extension GL_EXT_scalar_block_layout : require\nlayout(local_size_x = 1) in;\nstruct S { vec4 v; };\n"
        "layout(scalar, push_constant) uniform Push { float a; S s; };\nlayout(binding = 0) buffer Y { float y; };\nvoid main() { y = s.v.x; }\n"
    )
    interface = devmod.compile(source, "vulkan").functions["main"].interface
    assert interface is not None
    assert interface.params[1:] == (
        scalar("a", "float32", (0, 0)),
        scalar("s", "uint8x16", (0, 4), 4).replace(members=[Member("v", "float32x4")]),
    )
    assert interface.blocks == (Block("push", 20, name="Push"),)


def test_the_members_of_a_struct_have_the_layout_of_the_block() -> None:
    source = """#version 450
layout(local_size_x = 1) in;
struct Inner { vec3 at; uvec2 flags[2]; };
layout(binding = 0) uniform Scene { float w[2][3]; Inner inner; layout(row_major) mat4x2 rows; mat3 columns; } scene;
layout(push_constant) uniform Push { Inner inner; int n; };
layout(binding = 1) buffer Y { uint hist[16]; };
void main() { hist[0] = uint(scene.w[0][0] + inner.at.x) + n; }
"""
    interface = devmod.compile(source, "vulkan").functions["main"].interface
    assert interface is not None
    scene, hist, inner, n = interface.params
    assert scene.members == (
        Member("w", "float32", 0, shape=[2, 3], strides=[48, 16]),
        Member(
            "inner",
            "",
            96,
            [
                Member("at", "float32x3", 0),
                Member("flags", "uint32x2", 16, shape=[2], strides=[16]),
            ],
            48,
        ),
        Member("rows", "float32x4", 144, shape=[2], strides=[16]),
        Member("columns", "float32x3", 176, shape=[3], strides=[16]),
    )
    assert (hist.type, hist.size) == ("uint32", 64)
    assert inner.members == (
        Member("at", "float32x3", 0),
        Member("flags", "uint32x2", 16, shape=[2], strides=[8]),
    )
    assert (inner.type, n.members) == ("uint8x32", ())
    assert inner.dtype is not None
    assert inner.dtype.itemsize == 32


@pytest.mark.volume_but("-O-slangpy", "-Os-glslangValidator")
@pytest.mark.parametrize(
    ("level", "compiler"),
    [
        ("-O0", "slangpy"),
        ("-O", "slangpy"),
        *((level, "glslangValidator") for level in ("-O0", "-O", "-Os")),
    ],
)
def test_the_interface_does_not_depend_on_the_optimization(level: str, compiler: str) -> None:
    assert (
        build("blocks.comp", options=[level, f"--compiler={compiler}"])
        .functions["blocks"]
        .interface
        == INTERFACES["blocks.comp"]["blocks"]
    )


# -- names and declarations

EMPTY = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"


def test_the_function_name_of_a_shader() -> None:
    assert list(devmod.compile(EMPTY, "vulkan").functions) == ["main"]
    assert list(devmod.compile(EMPTY, "vulkan", name="nothing").functions) == ["nothing"]
    assert list(devmod.compile(KERNELS / "saxpy.comp", "vulkan", name="axpy").functions) == ["axpy"]
    assert list(devmod.compile(KERNELS / "main.hlsl", "vulkan", name="double").functions) == [
        "double"
    ]
    assert list(
        devmod.compile((KERNELS / "main.hlsl").read_text(), "vulkan", language="HLSL").functions
    ) == ["main"]


def test_declared_functions_replace_reflected_ones() -> None:
    tags = ("blockIdx.x", "threadIdx.x")
    module = build("saxpy.comp", fmap={"axpy": FunctionInfo("main", (), tags)})
    assert list(module.functions) == list(module.code) == ["axpy"]  # type: ignore[attr-defined]
    info = module.functions["axpy"]
    assert (info.name, info.launch_param_tags, info.interface) == (
        "main",
        tags,
        INTERFACES["saxpy.comp"]["saxpy"],
    )


@pytest.mark.parametrize("comment", ["/* A comment. */\n", "/**/", "// A comment.\n\n"])
def test_a_comment_may_precede_the_version(comment: str) -> None:
    """The defines are lines behind the version, which is the first directive."""
    module = devmod.compile(comment + EMPTY, "vulkan", defines={"N": 1})
    assert list(module.functions) == ["main"]


@pytest.mark.row("R12")
def test_one_shader_may_have_several_names() -> None:
    module = build(
        "saxpy.comp", fmap={"one": FunctionInfo("main", ()), "two": FunctionInfo("main", ())}
    )
    code = module.code  # type: ignore[attr-defined]
    assert list(code) == ["one", "two"]
    assert code["one"] == code["two"]


SAXPY_TYPES = ("handle", "handle", "float32", "uint32")


def test_declarations_that_do_not_fit() -> None:
    check_texts(
        {
            "the declared fmap maps 'f' to the vulkan function 'saxpy', which is missing in the source. Functions in the source: 'main'": FunctionInfo(
                "saxpy", ()
            ),
            "the declared fmap gives the vulkan function 'f' 2 arguments; at saxpy.comp it has 4": FunctionInfo(
                "main", ("handle", "handle")
            ),
            "the declared fmap gives argument 4 ('n') of the vulkan function 'f' the type 'int32'; at saxpy.comp it is 'uint32'": FunctionInfo(
                "main", ("handle", "handle", "float32", "int32")
            ),
            "the declared fmap gives argument 1 ('x') of the vulkan function 'f' the place (0, 2); at saxpy.comp it is (0, 0)": FunctionInfo(
                "main",
                SAXPY_TYPES,
                interface=Interface(
                    [Param("x", "buffer", at=(0, 2)), *INTERFACES["saxpy.comp"]["saxpy"].params[1:]]
                ),
            ),
            "the declared fmap gives argument 1 ('x') of the vulkan function 'f' the kind 'image'; at saxpy.comp it is 'buffer'": FunctionInfo(
                "main",
                SAXPY_TYPES,
                interface=Interface(
                    [Param("x", "image"), *INTERFACES["saxpy.comp"]["saxpy"].params[1:]]
                ),
            ),
        },
        lambda info: refused(KERNELS / "saxpy.comp", fmap={"f": info}),
    )


# -- what is refused


@both_compilers
def test_errors_have_the_users_file_and_line_and_the_compilers_words(compiler: str) -> None:
    options = [f"--compiler={compiler}"]
    source = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {\n  int x = y;\n  float z = w;\n}\n"
    error = raised(devmod.CompileError, devmod.compile, source, "vulkan", options=options)
    assert (
        str(error)
        == "the GLSL source does not compile: <text>:4: error: 'y' : undeclared identifier (and 1 more in .log)"
    )
    assert error.log.splitlines()[0] == "<text>:4: error: 'y' : undeclared identifier"
    assert "/tmp" not in error.log
    # In an include, by the name that the include has.
    assert refused(
        KERNELS / "tiles.comp",
        include=KERNELS / "include",
        defines={"WITH_BIAS": None, "SCALE": 1},
        options=options,
    ).startswith(
        "the GLSL source does not compile: bias.h:1: error: 'wrong' : undeclared identifier (and "
    )
    # Behind an include the numbers are the source's own again.
    assert refused(KERNELS / "tiles.comp", include=KERNELS / "include", options=options) == (
        "the GLSL source does not compile: tiles.comp:10: error: 'SCALE' : undeclared identifier"
    )


def test_errors_of_hlsl(tmp_path: Path) -> None:
    source = tmp_path / "k.hlsl"
    source.write_text("[numthreads(1, 1, 1)]\nvoid f() { int x = y; }\n")
    assert (
        refused(source)
        == "the HLSL source does not compile: k.hlsl:2: error: 'y' : unknown variable (and 2 more in .log)"
    )


def test_warnings_of_the_compiler_are_user_warnings() -> None:
    source = EMPTY.replace("#version 450", "#version 450\n#extension GL_EXT_not_there : enable")
    with pytest.warns(UserWarning, match="has warnings") as caught:
        devmod.compile(source, "vulkan", options="--compiler=glslangValidator")
    assert (
        str(caught[0].message)
        == "the GLSL source has warnings:\n<text>:2: warning: '#extension' : extension not supported: GL_EXT_not_there"
    )
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "#version 450\nvoid main() {",
            "the GLSL source does not compile: <text>:2: error: '' :  syntax error, unexpected end of file",
        ),
        ("", "the GLSL source does not compile: "),
        (
            "#version 310 es\nvoid other() {}\n",
            "the GLSL source does not compile: error: Linking compute stage: Missing entry point",
        ),
        (
            "#version 450\nlayout(local_size_x = 1) in;\nbuffer X { float x[]; };\nvoid main() { x[0] = 1.0; }",
            "the GLSL source does not compile: ",
        ),
        (
            '#version 450\n#include "nowhere.h"\nvoid main() {}',
            "<text>:2: the include 'nowhere.h' is missing. No folder was searched: include= is empty",
        ),
    ],
)
def test_shaders_that_do_not_compile(source: str, said: str) -> None:
    assert refused(source).startswith(said)


def test_ray_queries_are_refused_by_name() -> None:
    """An address reaches an acceleration structure without a variable."""
    source = """#version 460
#extension GL_EXT_ray_query : require
#extension GL_EXT_ray_tracing : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(push_constant) uniform Push { uint64_t scene; };
void main() {
    rayQueryEXT query;
    rayQueryInitializeEXT(query, accelerationStructureEXT(scene), 0, 0xFF, vec3(0), 0.0, vec3(1), 1.0);
}
"""
    assert refused(source, "vulkan -arch=spirv1.4") == (
        "the SPIR-V of <text> uses ray queries (the capability RayQueryKHR), which devmod does not support"
    )


def test_other_stages_and_languages_are_refused(tmp_path: Path) -> None:
    mesh = tmp_path / "k.mesh"
    mesh.write_text(EMPTY)
    assert (
        refused(mesh) == "k.mesh is a mesh shader by its suffix; expected a compute shader (.comp)"
    )
    assert (
        refused(EMPTY, language="WGSL")
        == "vulkan has no language 'WGSL'; its languages: 'GLSL', 'HLSL', 'SPIR-V', 'Slang', 'OpenCL C'"
    )
    assert refused("void f() {}", language="HLSL") == (
        "the HLSL source <text> has no entry: mark a function with [numthreads(x, y, z)]"
    )
    assert (
        refused(EMPTY, name_expressions=["f<float>"])
        == "name_expressions= is not supported for shaders, which have no templates"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "buffer X { float x[]; } many[2];",
            "has the variable 'many', an array of bindings, which devmod does not support; use one buffer",
        ),
        (
            "uniform sampler2D many[2];",
            "has the variable 'many', an array of bindings, which devmod does not support; use a variable for each, or the layers of one image",
        ),
        (
            "uniform samplerCube t;",
            "has the variable 't', a cube map, which devmod does not support; use a 2-D image with 6 layers",
        ),
        (
            "uniform sampler2DShadow t;",
            "has the variable 't', an image for depth comparison, which devmod does not support; compare in the shader",
        ),
        ("uniform U { float table[20000]; } u;", ""),
    ],
)
def test_unsupported_variables_are_refused(body: str, said: str) -> None:
    source = f"#version 450\nlayout(local_size_x = 1) in;\nlayout(binding = 0) {body}\nvoid main() {{}}\n"
    text = refused(source)
    assert text == (
        f"the SPIR-V of <text> {said}"
        if said
        else (
            "the vulkan function 'main' at <text> takes 'u' of 320000 bytes by value; expected 1 to 65535 bytes. Make it a buffer"
        )
    )


def test_two_kinds_of_variables_at_one_binding_are_refused() -> None:
    source = (
        "#version 450\nlayout(local_size_x = 1) in;\nlayout(binding = 0) buffer X { float x[]; };\n"
        "layout(binding = 0) uniform sampler2D t;\nvoid main() { x[0] = texture(t, vec2(0)).x; }\n"
    )
    assert refused(source) == (
        "the vulkan function 'main' at <text> has two variables at the binding (set 0, binding 0), 'x' and 't', which cannot be one argument; "
        "give one of them another binding"
    )


def test_hlsl_variables_outside_buffers_that_share_a_binding(tmp_path: Path) -> None:
    source = tmp_path / "k.hlsl"
    source.write_text(
        "float scale;\nRWStructuredBuffer<float> y : register(u0);\n"
        "[numthreads(1, 1, 1)] void f(uint3 id : SV_DispatchThreadID) { y[id.x] *= scale; }\n"
    )
    assert refused(source) == (
        "the vulkan function 'f' at k.hlsl has two variables at the binding (set 0, binding 0), 'y' and '$Global', which cannot be one "
        "argument; give one of them another binding. '$Global' contains HLSL's variables outside of buffers: put them into a cbuffer"
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "-V",
            "is not supported: the target sets the versions of Vulkan and SPIR-V, for example 'vulkan -arch=vulkan1.2'",
        ),
        (
            "--target-env=vulkan1.2",
            "is not supported: the target sets the versions of Vulkan and SPIR-V, for example 'vulkan -arch=vulkan1.2'",
        ),
        ("-e", "is not supported: devmod sets the compiler's files, stage and entry points itself"),
        (
            "-ok.spv",
            "is not supported: devmod sets the compiler's files, stage and entry points itself",
        ),
        (
            "--depfile",
            "is not supported: devmod sets the compiler's files, stage and entry points itself",
        ),
        (
            "-I/usr/include",
            "names a path; a payload is complete in itself, and its receiver has no such path. Folders of includes go into include=",
        ),
        (
            "-pedantic",
            "is not supported; expected an option of the compiler for the code or its diagnostics, such as -g",
        ),
        (
            "--compiler=gcc",
            "is invalid for GLSL; expected slangpy, glslangValidator, glslang or glslc",
        ),
        (
            "--auto-map-bindings",
            "is not supported by the library of slangpy, which takes -O, -O0, -g, -gV, -gVS. For other options, use "
            "glslangValidator, which is installed: pass --compiler=glslangValidator",
        ),
        (
            "-Os",
            "is not supported by the library of slangpy, which takes -O, -O0, -g, -gV, -gVS. For other options, use "
            "glslangValidator, which is installed: pass --compiler=glslangValidator",
        ),
    ],
)
def test_unsupported_options_are_refused(option: str, said: str) -> None:
    assert refused(EMPTY, options=[option]) == f"the vulkan option {option!r} {said}"


@pytest.mark.skipif(find_spec("slangpy") is None, reason="slangpy is not installed")
def test_an_option_that_needs_a_program_names_those_that_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "is not supported by the library of slangpy, which takes -O, -O0, -g, -gV, -gVS. For other options, "
    only_these(tmp_path, monkeypatch)
    assert refused(EMPTY, options=["-Werror"]) == (
        f"the vulkan option '-Werror' {head}install glslangValidator, glslang or glslc (Debian and Ubuntu: apt install glslang-tools "
        "spirv-tools; Fedora: dnf install glslang spirv-tools; macOS: brew install glslang spirv-tools; elsewhere: the Vulkan SDK), and pass "
        "--compiler= with its name"
    )
    program(tmp_path, "glslc", "")
    assert refused(EMPTY, options=["-Werror"]) == (
        f"the vulkan option '-Werror' {head}use glslc, which is installed: pass --compiler=glslc"
    )


def test_an_option_that_the_compiler_does_not_know() -> None:
    assert refused(EMPTY, options=["--set-wrong", "--compiler=glslangValidator"]).startswith(
        "the GLSL source does not compile: "
    )


# -- the toolchain


@pytest.mark.parametrize(
    ("present", "given", "said"),
    [
        (
            (),
            {},
            (
                "cannot compile the GLSL source <text>: slangpy, glslangValidator, glslang or glslc is not installed. To add it: "
                'pip install "devmod-core[build-vulkan]". Or Debian and Ubuntu: apt install glslang-tools spirv-tools; Fedora: dnf install '
                "glslang spirv-tools; macOS: brew install glslang spirv-tools; elsewhere: the Vulkan SDK"
            ),
        ),
        (
            (),
            {"language": "HLSL", "options": ["--compiler=dxc"]},
            (
                "cannot compile the HLSL source <text>: dxc is not installed. To add it: Debian and Ubuntu: apt install "
                "glslang-tools spirv-tools; Fedora: dnf install glslang spirv-tools; macOS: brew install glslang "
                "spirv-tools; elsewhere: the Vulkan SDK"
            ),
        ),
        (
            ("glslangValidator",),
            {"options": ["--compiler=slangpy"]},
            'cannot compile the GLSL source <text>: slangpy is not installed. To add it: pip install "devmod-core[build-vulkan]"',
        ),
        (
            ("glslangValidator",),
            {},
            (
                "cannot optimize the shader of <text>: spirv-opt is not installed. Debian and Ubuntu: apt install "
                "spirv-tools; Fedora: dnf install spirv-tools; macOS: brew install spirv-tools; elsewhere: the Vulkan "
                "SDK. Or pass the option -O0 to store the compiler's output"
            ),
        ),
    ],
)
def test_a_missing_toolchain_is_an_error(
    no_wheel: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    present: tuple[str, ...],
    given: dict[str, Any],
    said: str,
) -> None:
    only_these(tmp_path, monkeypatch, *present)
    assert refused(EMPTY, error=devmod.ToolchainNotFoundError, **given) == said


def test_without_the_optimizer_nothing_is_optimized_only_when_asked_for(
    no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_these(tmp_path, monkeypatch, "glslangValidator")
    assert list(devmod.compile(EMPTY, "vulkan", options=["-O0"]).functions) == ["main"]


def program(folder: Path, name: str, body: str) -> None:
    """Write a program of that name to the folder `programs`."""
    path = folder / "programs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_commands_of_other_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacements of glslc and dxc record their arguments and call glslang."""
    real = shutil.which("glslangValidator")
    program(
        tmp_path,
        "glslc",
        f'case "$*" in *--version*) echo "shaderc v2024.1 v2024.1"; exit;; esac\necho "$*" >> {tmp_path}/called\n'
        f"exec {real} -S comp --target-env vulkan1.2 -V source.comp -o compiled.spv",
    )
    program(
        tmp_path,
        "dxc",
        f'case "$*" in *--version*) echo "libdxcompiler.so: 1.8 - 1.8.2405.15"; exit;; esac\necho "$*" >> {tmp_path}/called\n'
        f"exec {real} -D -S comp --target-env vulkan1.1 -e main --source-entrypoint main source.hlsl -o compiled.spv",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    made = devmod.compile(
        EMPTY, "vulkan -arch=vulkan1.2", options=["--compiler=glslc", "-w"], defines={"N": 1}
    )
    assert made.origin is not None
    assert made.origin.toolchain.startswith("shaderc 2024.1, spirv-opt ")
    assert made.origin.options == ("--compiler=glslc", "-w", "-DN=1")
    made = devmod.compile(KERNELS / "main.hlsl", "vulkan", options=["--compiler=dxc"])
    assert made.origin is not None
    assert made.origin.toolchain.startswith("dxc 1.8, spirv-opt ")
    assert (tmp_path / "called").read_text().splitlines() == [
        "-fshader-stage=comp -x glsl --target-env=vulkan1.2 --target-spv=spv1.5 -DN=1 -w -o compiled.spv source.comp",
        "-spirv -fspv-target-env=vulkan1.1 -E main -T cs_6_0 -Fo compiled.spv source.hlsl",
    ]


def test_a_tool_that_exceeds_the_time_limit_is_stopped(
    no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "glslangValidator", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(_process, "TIMEOUT", 0.2)
    assert (
        refused(EMPTY) == "glslangValidator was stopped: it exceeded the time limit of 0.2 seconds"
    )


def test_a_tool_that_fails_without_output(
    no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "glslangValidator", 'case "$*" in *--version*) exit;; esac\nkill -SEGV $$')
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    assert refused(EMPTY).startswith("the GLSL source does not compile: exit status ")


# -- SPIR-V as the source


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return bytes(build("saxpy.comp", options=["-O0"]).code["saxpy"][12:])  # type: ignore[attr-defined]


@pytest.mark.row("R19")
def test_spirv_is_stored_as_it_is(words: bytes, tmp_path: Path) -> None:
    file = tmp_path / "axpy.spv"
    file.write_bytes(words)
    module = devmod.compile(file, "vulkan")
    assert list(module.functions) == ["axpy"]
    assert module.code["axpy"][12:] == words  # type: ignore[attr-defined]
    assert module.functions["axpy"].interface == INTERFACES["saxpy.comp"]["saxpy"]
    assert module.origin == devmod.Origin(
        "vulkan", "", (), {"axpy.spv": hashlib.sha256(words).hexdigest()}
    )
    same = devmod.compile(words, "vulkan", name="axpy")
    assert same.save_to_bytes() == module.save_to_bytes()
    for tools, toolchain in (("slangpy", "slangpy "), ("spirv-tools", "spirv-opt ")):
        small = devmod.compile(
            bytearray(words), "vulkan", name="axpy", options=["-O", f"--compiler={tools}"]
        )
        assert len(small.code["axpy"]) < len(module.code["axpy"])  # type: ignore[attr-defined]
        assert small.origin is not None
        assert small.origin.toolchain.startswith(toolchain)
    other = tmp_path / "axpy.bin"
    other.write_bytes(words)
    assert (
        devmod.compile(other, "vulkan", language="SPIR-V").save_to_bytes() == module.save_to_bytes()
    )


def test_spirv_needs_no_toolchain(
    words: bytes, no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_these(tmp_path, monkeypatch)
    assert list(devmod.compile(words, "vulkan", name="k").functions) == ["k"]


def test_spirv_takes_no_defines_and_no_options(words: bytes) -> None:
    assert (
        refused(words, defines={"N": 1})
        == "<bytes> is compiled SPIR-V, so the define 'N' has no effect; remove it"
    )
    assert (
        refused(words, options=["-g"])
        == "<bytes> is compiled SPIR-V, so the option '-g' has no effect; remove it"
    )
    assert (
        refused(words, "vulkan -arch=spirv1.0")
        == "<bytes> is SPIR-V 1.3; the target 'vulkan -arch=spirv1.0' supports up to 1.0"
    )
    assert refused(words, language="GLSL") == "the source is bytes, which are SPIR-V and not GLSL"
    assert (
        refused("\x07\x23", language="SPIR-V")
        == "SPIR-V is not text: pass its bytes, or its file as a pathlib.Path"
    )
    assert (
        refused(b"")
        == "the SPIR-V of <bytes> begins with 0x00000000; expected SPIR-V's magic number 0x07230203"
    )
    assert (
        refused(words, "opencl") == "a source is a str (text) or an os.PathLike (a file), not bytes"
    )
    assert (
        refused(1) == "a source is a str (text), bytes (SPIR-V) or an os.PathLike (a file), not int"
    )


def test_a_path_to_spirv_that_is_text() -> None:
    assert refused("k.spv") == (
        "the source is a str of one line that ends in '.spv': a str is always text. For the file, pass pathlib.Path('k.spv')"
    )


@needs_tools
@pytest.mark.parametrize(("tools", "name"), [("slangpy", "slangpy"), ("spirv-tools", "spirv-val")])
def test_invalid_spirv_is_refused_by_the_validator(words: bytes, tools: str, name: str) -> None:
    # Two operands of a store in the wrong order.
    damaged = bytearray(words)
    for at in range(20, len(words) - 12, 4):
        if damaged[at : at + 4] == (3 << 16 | 62).to_bytes(4, "little"):
            damaged[at + 4 : at + 8], damaged[at + 8 : at + 12] = (
                damaged[at + 8 : at + 12],
                damaged[at + 4 : at + 8],
            )
            break
    text = refused(bytes(damaged), options=f"--compiler={tools}")
    assert text.startswith(f"{name} refuses the SPIR-V of <bytes>: line ")


# -- the file


@pytest.mark.row("R17", "R18", "R19", "R37")
@pytest.mark.parametrize("name", ["scan.hlsl", "blocks.comp"])
def test_a_build_uses_a_temporary_file(name: str, tmp_path: Path) -> None:
    module = build(name)
    devmod.save(module, tmp_path / "k.devmod")
    loaded = devmod.load(tmp_path / "k.devmod")
    assert {key: info.interface for key, info in loaded.functions.items()} == INTERFACES[name]
    assert loaded.save_to_bytes() == module.save_to_bytes()
    assert loaded.origin == module.origin


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from devmod_workbench._cli import main

    def run(source: Path, output: str) -> tuple[int, str, str]:
        code = main(["compile", str(source), "-t", "vulkan", "-o", str(tmp_path / output)])
        return code, *capsys.readouterr()

    code, out, _ = run(KERNELS / "saxpy.comp", "saxpy.devmod")
    assert (code, out.splitlines()[0]) == (0, "vulkan spv: saxpy")
    assert run(KERNELS / "saxpy.comp", "saxpy.spv")[0] == 0
    assert (tmp_path / "saxpy.spv").read_bytes()[:4] == b"\x03\x02\x23\x07"
    code, out, _ = run(tmp_path / "saxpy.spv", "again.devmod")
    assert (code, out.splitlines()[0]) == (0, "vulkan spv: saxpy")
    code, out, told = run(KERNELS / "tiles.comp", "tiles.devmod")
    assert (code, out) == (1, "")
    assert told == (
        f"devmod: error: tiles.comp:3: the include 'tile.h' is missing. Searched: '{KERNELS}'. Add the folder that contains it: -I FOLDER\n"
    )


@pytest.mark.row("R34")
def test_a_length_that_a_constant_sets_is_not_the_size_of_a_buffer() -> None:
    module = devmod.compile(
        """#version 450
        layout(local_size_x = 1) in;
        layout(constant_id = 0) const int N = 16;
        layout(binding = 0) buffer A { uint a[N]; };
        layout(binding = 1) buffer B { uint b[16]; };
        void main() { a[0] = b[0]; }
        """,
        "vulkan",
        name="k",
        language="GLSL",
    )
    interface = module.functions["k"].interface
    assert interface is not None
    assert [(param.name, param.size) for param in interface.params] == [("a", 0), ("b", 64)]


@pytest.mark.skipif(
    os.name == "nt", reason="the stand-in for spirv-val is a script, which Windows does not run"
)
def test_a_validator_that_is_older_than_the_file_is_a_warning(
    no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = devmod.compile(EMPTY, "vulkan", options="-O0")
    made = tmp_path / "made.spv"
    data.write_to_file(made)
    plain = devmod.compile(made, "vulkan").save_to_bytes()
    program = tmp_path / "spirv-val"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def answer(said: str) -> None:
        program.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "SPIRV-Tools v2023.1" && exit 0\necho "{said}"; exit 1\n'
        )
        program.chmod(0o755)

    answer("error: Invalid source language operand: 11")
    text = (
        "the SPIR-V of made.spv was not validated: spirv-val 2023.1 does not support it (Invalid source language operand: 11). "
        "Install a newer spirv-val to validate it"
    )
    with pytest.warns(UserWarning, match="was not validated") as caught:
        assert devmod.compile(made, "vulkan").save_to_bytes() == plain
    assert [str(each.message) for each in caught] == [text]
    assert refused(made, options="--werror") == f"--werror turns this warning into an error: {text}"
    answer("error: 12: Expected operand type to be int")
    assert (
        refused(made)
        == "spirv-val refuses the SPIR-V of made.spv: 12: Expected operand type to be int"
    )
