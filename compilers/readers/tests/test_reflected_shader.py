"""The arguments of a reflected shader, by the rules that all kinds with bindings share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from each_case import refusal

import devmod
from devmod import Block, FunctionInfo, Interface, Param
from devmod._plugins.specs import find_spec
from devmod.backend import PipelineConstant, constants_of
from devmod_readers.reflection import BlockMember, ReflectedShader, Resource, reflected_function
from devmod_runtime import SetConstant, specialize_constants
from devmod_targets.authoring import merge_declared


def interface(shader: ReflectedShader) -> tuple[tuple[str, ...], Interface]:
    spec = find_spec("vulkan")
    assert spec is not None
    info = merge_declared(spec, {"k": reflected_function("vulkan", shader)}, None)["k"]
    assert info.interface is not None
    return info.arg_types, info.interface


def test_arguments_are_ordered_by_binding_with_push_constants_last() -> None:
    shader = ReflectedShader(
        "main",
        [
            Resource((1, 0), "out", "buffer", "float32", "w"),
            Resource((0, 3), "how", "sampler"),
            Resource(
                (0, 1),
                "p",
                "uniform",
                size=32,
                align=16,
                members=[BlockMember("n", "int32", 0, 4), BlockMember("v", "float32x3", 16, 12)],
            ),
            Resource((0, 0), "x", "buffer", "uint8x24", "r", align=8),
            Resource(
                (0, 2),
                "s",
                "uniform",
                size=48,
                align=16,
                members=[BlockMember("n", "int32", 0, 4), BlockMember("m", "", 16, 32, 16)],
            ),
            Resource((0, 4), "picture", "image", access="r"),
        ],
        push=[BlockMember("k", "uint32", 0, 4), BlockMember("table", "", 16, 16, 4)],
        push_size=32,
        push_name="push",
        block=(8, 8, 1),
        location="k.comp",
    )
    assert interface(shader) == (
        (
            "handle",
            "int32",
            "float32x3",
            "uint8x48",
            "handle",
            "handle",
            "handle",
            "uint32",
            "uint8x16",
        ),
        Interface(
            [
                Param("x", "buffer", "uint8x24", "r", (0, 0), 8),
                Param("n", "scalar", "int32", at=(0, 0)),
                Param("v", "scalar", "float32x3", at=(0, 16)),
                Param("s", "uniform", "uint8x48", at=(0, 2), align=16),
                Param("how", "sampler", at=(0, 3)),
                Param("picture", "image", "", "r", (0, 4)),
                Param("out", "buffer", "float32", "w", (1, 0)),
                Param("k", "scalar", "uint32", at=(1, 0)),
                Param("table", "scalar", "uint8x16", at=(1, 16), align=4),
            ],
            [Block((0, 1), 32, name="p"), Block("push", 32, name="push")],
            (8, 8, 1),
        ),
    )


def test_several_variables_at_one_binding_are_one_argument() -> None:
    views = [
        Resource((0, 0), "words", "buffer", "uint32", "r"),
        Resource((0, 0), "floats", "buffer", "float32", "w"),
    ]
    assert interface(ReflectedShader("main", views))[1].params == (
        Param("words", "buffer", "", "rw", (0, 0)),
    )
    again = [views[0], Resource((0, 0), "same", "buffer", "uint32", "r")]
    assert interface(ReflectedShader("main", again))[1].params == (
        Param("words", "buffer", "uint32", "r", (0, 0)),
    )
    assert refusal(
        devmod.CompileError,
        interface,
        ReflectedShader(
            "main", [views[0], Resource((0, 0), "picture", "image")], location="k.comp"
        ),
    ) == (
        "the vulkan function 'main' at k.comp has two variables at the binding (set 0, binding 0), 'words' and 'picture', which cannot be "
        "one argument; give one of them another binding"
    )


def test_several_images_at_one_binding_are_one_argument_if_they_have_one_type() -> None:
    read = Resource(
        (0, 0), "from", "image", "2d", "r", format="rgba8unorm", sample="float", storage=True
    )
    for write in (
        read._replace(name="to", access="w"),
        read._replace(name="to", access="w", format=""),
    ):
        for pair in ([read, write], [write, read]):
            (param,) = interface(ReflectedShader("main", pair))[1].params
            assert param == Param(
                pair[0].name, "image", "2d", "rw", (0, 0), format="rgba8unorm", sample="float"
            )
    others = [
        {"type": "3d"},
        {"format": "r32float"},
        {"sample": "int"},
        {"storage": False},
        {"kind": "combined"},
    ]
    for other in others:
        with pytest.raises(devmod.CompileError, match="which cannot be one argument"):
            interface(ReflectedShader("main", [read, read._replace(**other)]))  # type: ignore[arg-type]


def test_an_image_with_its_sampler_is_two_arguments() -> None:
    shader = ReflectedShader(
        "main",
        [
            Resource((0, 1), "t", "combined", "2d", "r", sample="float"),
            Resource((0, 0), "", "combined", "1d"),
        ],
    )
    assert interface(shader) == (
        ("handle",) * 4,
        Interface(
            [
                Param("", "image", "1d", at=(0, 0)),
                Param("", "sampler", at=(0, 0)),
                Param("t", "image", "2d", "r", (0, 1), sample="float"),
                Param("t_sampler", "sampler", at=(0, 1)),
            ]
        ),
    )


def test_a_block_of_nothing_is_no_argument() -> None:
    assert interface(ReflectedShader("main", [Resource((0, 0), "nothing", "uniform")])) == (
        (),
        Interface(),
    )


def test_a_block_that_exceeds_the_largest_argument_is_refused() -> None:
    large = Resource(
        (0, 0),
        "table",
        "uniform",
        size=65536,
        align=16,
        members=[BlockMember("t", "", 0, 65536, 16)],
    )
    assert refusal(
        devmod.CompileError, interface, ReflectedShader("main", [large], location="k.comp")
    ) == (
        "the vulkan function 'main' at k.comp takes 'table' of 65536 bytes by value; expected 1 to 65535 bytes. Make it a buffer"
    )


CONSTANTS = [
    PipelineConstant("WIDTH", "uint32", 0, 16),
    PipelineConstant("", "float32", 7, 0.5),
    PipelineConstant("exact", "bool", 8, True),
    PipelineConstant("half", "float16", None, 1.0),
    PipelineConstant("depth", "int64", 9),
]


def specialized(given: dict[str, object]) -> tuple[SetConstant, ...]:
    _, made = interface(ReflectedShader("main", constants=CONSTANTS))
    return specialize_constants("vulkan", "k", made, given)


def test_constants_are_carried_by_the_interface_and_survive_a_file() -> None:
    _, made = interface(
        ReflectedShader(
            "main", constants=CONSTANTS, block=(16, 2, 1), block_constants=[0, -1, [0, 4]]
        )
    )
    assert made.extra == {
        "constants": [
            {"name": "WIDTH", "id": 0, "type": "uint32", "default": 16},
            {"name": "", "id": 7, "type": "float32", "default": 0.5},
            {"name": "exact", "id": 8, "type": "bool", "default": True},
            {"name": "half", "type": "float16", "default": 1.0},
            {"name": "depth", "id": 9, "type": "int64"},
        ],
        "block_constants": [0, -1, [0, 4]],
    }
    code = {"k": bytes(12)}
    module = devmod.create_with_fallback(
        "vulkan", code, "spv", {"k": FunctionInfo("main", (), interface=made)}
    )
    again = devmod.loads(devmod.dumps(module)).functions["k"].interface
    assert again == made
    assert constants_of(again) == tuple(CONSTANTS)


@pytest.mark.parametrize(
    ("extra", "shown"),
    [
        ({}, " block 16×2×1, constants WIDTH=16, 7=0.5, exact=True, half=1.0, depth"),
        ({"constants": 1}, " block 16×2×1"),
    ],
)
def test_constants_are_shown_by_inspect(
    extra: dict[str, Any], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from devmod_workbench._cli import main

    _, made = interface(ReflectedShader("main", constants=CONSTANTS, block=(16, 2, 1)))
    made = Interface((), (), made.block, dict(made.extra) | extra)
    devmod.save(
        devmod.create_with_fallback(
            "vulkan", {"k": bytes(12)}, "spv", {"k": FunctionInfo("main", (), interface=made)}
        ),
        tmp_path / "k.devmod",
    )
    assert main(["inspect", str(tmp_path / "k.devmod")]) == 0
    assert f"  k(){shown}\n" in capsys.readouterr().out


def test_constants_are_set_by_name_or_number() -> None:
    assert specialized({"7": 2, "WIDTH": 8, "exact": False, "half": 0.25, "depth": -1}) == (
        SetConstant(CONSTANTS[0], 8, b"\x08\0\0\0"),
        SetConstant(CONSTANTS[1], 2.0, b"\0\0\0\x40"),
        SetConstant(CONSTANTS[2], False, bytes(4)),
        SetConstant(CONSTANTS[3], 0.25, b"\0\x34"),
        SetConstant(CONSTANTS[4], -1, b"\xff" * 8),
    )
    assert specialized({}) == specialize_constants("vulkan", "k", None, {}) == ()
    assert [each.keyword for each in CONSTANTS] == [
        "WIDTH=…",
        "**{'7': …}",
        "exact=…",
        "half=…",
        "depth=…",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"TILE": 1},
            "has no constant 'TILE' to specialize; it has: 'WIDTH', '7', 'exact', 'half', 'depth'",
        ),
        (
            {"1": 1},
            "has no constant '1' to specialize; it has: 'WIDTH', '7', 'exact', 'half', 'depth'",
        ),
        (
            {"WIDTH": 1, "0": 2},
            ": the constant 'WIDTH' is given twice, by its name and by its number",
        ),
        ({"WIDTH": -1}, ": the constant 'WIDTH': -1 does not fit uint32 (0 to 4294967295)"),
        ({"WIDTH": 1.5}, ": the constant 'WIDTH': 1.5 is not a whole number"),
        ({"exact": 3}, ": the constant 'exact': 3 is not a bool"),
    ],
)
def test_constants_that_cannot_be_set(given: dict[str, object], said: str) -> None:
    assert refusal(devmod.ArgumentError, specialized, given) == "the vulkan function 'k'" + (
        said if said[0] == ":" else " " + said
    )


def test_specializing_a_function_without_constants_is_an_error() -> None:
    assert (
        refusal(devmod.ArgumentError, specialize_constants, "webgpu", "k", None, {"tile": 1})
        == "the webgpu function 'k' has no constant 'tile' to specialize; it has: none"
    )


@pytest.mark.parametrize(
    "extra",
    [
        {"constants": 1},
        {"constants": [1]},
        {"constants": [{"name": 1, "type": "int32", "id": 0}]},
        {"constants": [{"name": "n", "type": "handle", "id": 0}]},
        {"constants": [{"name": "n", "type": ["int32"], "id": 0}]},
        {"constants": [{"name": "n", "type": "int32", "id": -1}]},
        {"constants": [{"name": "n", "type": "int32", "default": "1"}]},
        {"constants": [{"type": "int32"}]},
    ],
)
def test_constants_in_a_file_that_are_none(extra: dict[str, Any]) -> None:
    with pytest.raises(devmod.FormatError):
        specialize_constants("vulkan", "k", Interface((), (), (1, 1, 1), extra), {"n": 1})
