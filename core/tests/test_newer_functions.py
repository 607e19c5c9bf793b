"""Functions that a later devmod may write, and damaged ones, beside others that can be used."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import msgpack
import pytest
from candidates import Register, Runtime, chosen
from command_line import printed_by
from each_case import check_each, refusal
from stored import Raw

import devmod
from devmod import FormatError, Interface, Param

pytestmark = pytest.mark.row("R41", "R50")

UPGRADE = "pip install --upgrade devmod-core devmod-runtime"
NEEDS = f"needs 'later', which a newer devmod reads: {UPGRADE}"
INTERFACE = Interface([Param("x", "buffer", "float32", "rw"), Param("n", "scalar", "int32")])


def interface(**changes: Any) -> dict[str, Any]:
    """Return the map of an interface, with changes to it or to its parameter `x` or `n`."""
    x, n = INTERFACE.to_dict()["params"]
    x |= changes.pop("x", {})
    n |= changes.pop("n", {})
    return {"params": [x, n], **changes}


#: Interfaces with a value that docs/formats.md does not have.
LATER = {
    "a kind": interface(x={"kind": "acceleration_structure"}),
    "an access": interface(x={"access": "atomic"}),
    "a type": interface(x={"type": "float4_e3m0"}),
    "a key of a default": interface(n={"default": {"expression": ["+", "n", 1]}}),
    "a sample": interface(x={"kind": "image", "type": "2d", "sample": "depth"}),
    "an image": interface(x={"kind": "image", "type": "cube"}),
    "a value of a pack": interface(x={"pack": ["ptr:handle", "bytes:uint64"]}),
    "a place": interface(x={"at": [0, 1, 2]}),
    "a key of shared memory": interface(shared_memory={"per_thread": 4, "bytes": 16}),
    "a block of four": interface(block=[1, 1, 1, 1]),
    "fewer values than types": {"params": []},
    "no array of parameters": {"params": {}},
    "the key tune": interface(tune={}),
}


def function(fields: Any = None, *more: Any) -> list[Any]:
    """Return the items of a function, with the map of an interface."""
    items: list[Any] = ["k", [[3, 64, 1], [0, 32, 1]], ["blockIdx.x"], []]
    if fields is not None:
        items.append(fields)
    return [*items, *more]


def module_bytes(**functions: list[Any]) -> bytes:
    """Return the bytes of an opencl module with functions."""
    return b"".join(map(msgpack.packb, ["cl", functions, b"source"]))


def file(*modules: dict[str, list[Any]]) -> bytes:
    """Return a file with modules of opencl, as their functions."""
    made = []
    for functions in modules:
        made.append(Raw("opencl", module_bytes(**functions), "cl", tuple(functions)))
    return devmod.dumps(devmod.bundle(*made, mixed=True))


def stored(**functions: list[Any]) -> devmod.Module:
    """Return a stored opencl module with functions."""
    return devmod.loads(file(functions))


def beside(name: str, *needs: str) -> bytes:
    """Return a file with a later interface, which has needs, beside three that can be used."""
    fields = dict(LATER[name])
    if needs:
        fields["needs"] = [*needs]
    good = function(INTERFACE.to_dict())
    return file({"f": function(fields), "g": good}, {"f": good, "h": good})


# -- newer functions


def test_a_later_value_beside_an_unknown_need_is_of_a_newer_function() -> None:
    def check(name: str) -> None:
        data = beside(name, "fp16", "later")
        root = devmod.loads(data)
        first, second = root.imports
        assert (list(root.functions), devmod.dumps(root)) == (["f", "g", "h"], data)

        info = first.functions["f"]
        assert info.interface is not None
        assert info.interface.newer == ("later",)
        assert (info.name, info.arg_types, info.launch_param_tags) == (
            "k",
            ("handle", "int32"),
            ("blockIdx.x",),
        )
        assert info.interface.to_dict() == {**LATER[name], "needs": ["fp16", "later"]}
        assert info == pickle.loads(pickle.dumps(info))
        assert repr(info) == f"<FunctionInfo k(…) {NEEDS}>"
        assert first.functions["g"].interface == second.functions["f"].interface == INTERFACE
        assert INTERFACE.newer == ()

    check_each(LATER, check)


def test_a_new_module_may_have_a_newer_function() -> None:
    infos = dict(devmod.loads(beside("a kind", "later")).imports[0].functions)
    made = devmod.create_with_fallback("opencl", b"source", "cl", infos)
    assert dict(devmod.loads(devmod.dumps(made)).functions) == infos


def test_metadata_beside_a_payload_may_have_a_newer_function(tmp_path: Path) -> None:
    infos = dict(devmod.loads(beside("a kind", "later")).imports[0].functions)
    made = devmod.create_with_fallback("opencl", b"source", "cl", infos)
    made.write_to_file(tmp_path / "k.cl")
    text = (tmp_path / "k.tvm_meta.json").read_text()
    assert devmod.load_metadata_from_json(text) == infos


def test_a_later_value_without_an_unknown_need_is_damage_of_its_function() -> None:
    def check(name: str) -> None:
        for needs in ([], ["fp16"], ["tuned", "repeat"]):
            data = beside(name, *needs)
            root = devmod.loads(data)
            first, second = root.imports
            assert (list(root.functions), devmod.dumps(root)) == (["f", "g", "h"], data)
            text = refusal(FormatError, first.functions.__getitem__, "f")
            assert "fmap of 'f', interface: " in text
            assert first.functions["g"].interface == second.functions["f"].interface == INTERFACE

    check_each(LATER, check)
    fields = interface(x={"kind": "tensor"}, needs={"later": 1})
    text = refusal(FormatError, stored(f=function(fields)).functions.__getitem__, "f")
    assert "the needs of an interface are a list, not dict" in text


@pytest.mark.parametrize("devices", [True, False])
def test_a_bundle_takes_another_candidate(register: Register, devices: bool) -> None:
    fields = interface(x={"kind": "tensor"}, needs=["later"])
    good = function(INTERFACE.to_dict())
    Runtime(register, "opencl", "", devices=devices)
    root = devmod.loads(file({"f": function(fields)}, {"f": good}))
    assert chosen(root) == "opencl"
    refused = devmod.explain(root).functions["f"][1]
    assert (refused.outcome, refused.reason, refused.text) == (
        "refused",
        "not installed",
        NEEDS,
    )
    alone = devmod.bundle(root.imports[0])
    assert refusal(devmod.NotRegisteredError, alone.get_function, "f") == (
        f"no candidate of the bundle can run 'f' here:\n  1. opencl/cl: {NEEDS}"
    )
    assert devmod.explain(alone).best("f") is None


def test_candidates_agree_without_a_newer_one() -> None:
    other = Interface([Param("y", "buffer", "float32", "rw"), Param("n", "scalar", "int32")])
    newer = function(interface(x={"kind": "tensor"}, needs=["later"]))
    root = devmod.loads(file({"f": newer}, {"f": function(other.to_dict())}))
    devmod.dumps(devmod.bundle(*root.imports))


# -- devmod inspect


def test_inspect_shows_a_newer_function_in_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.devmod"
    path.write_bytes(beside("a kind", "later"))
    for options in ([], ["--verify"], ["--source"]):
        lines = printed_by(capsys, "inspect", path, *options).out.splitlines()
        at = lines.index(f"    f(…) {NEEDS}")
        assert lines[at + 1] == "    g(x: float32* rw, n: int32)"
        assert "    h(x: float32* rw, n: int32)" in lines

    tree = json.loads(printed_by(capsys, "inspect", path, "--json").out)["module"]
    newer, good = tree["imports"][0]["functions"]
    assert (newer["newer"], newer["interface"]["params"][0]["kind"]) == (
        ["later"],
        "acceleration_structure",
    )
    assert newer["arg_types"] == ["handle", "int32"]
    assert "newer" not in good


def test_inspect_shows_a_damaged_function_in_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.devmod"
    path.write_bytes(beside("a kind"))
    text = refusal(FormatError, devmod.load(path).imports[0].functions.__getitem__, "f")
    for options in ([], ["--verify"], ["--source"]):
        lines = printed_by(capsys, "inspect", path, *options, status=1).out.splitlines()
        at = lines.index(f"    f(…) is damaged: {text}")
        assert lines[at + 1] == "    g(x: float32* rw, n: int32)"
        assert "    h(x: float32* rw, n: int32)" in lines
        assert lines[-1] == "Damaged functions: 'f'. The exit status is 1."

    tree = json.loads(printed_by(capsys, "inspect", path, "--json", status=1).out)["module"]
    damaged, good = tree["imports"][0]["functions"]
    assert (damaged["problem"], damaged["interface"], damaged["arg_types"]) == (text, None, None)
    assert ("problem" in good, good["name"]) == (False, "g")
