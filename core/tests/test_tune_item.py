"""The key ``tune`` of an interface in a module's bytes: an item of its own, with its own limit."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from each_case import refusal
from test_newer_functions import INTERFACE, function, module_bytes, stored

import devmod
from devmod import FormatError, FunctionInfo, Interface

pytestmark = pytest.mark.row("R52")

TUNE = {"constants": ["B"], "variants": [{"values": [8]}, {"values": [16]}]}
TUNED = Interface(INTERFACE.params, needs=["tuned"])


def test_tune_is_an_item_of_a_function() -> None:
    module = stored(f=function(TUNED.to_dict(), TUNE))
    data = module_bytes(f=function(TUNED.to_dict(), TUNE))
    info = module.functions["f"]
    assert info.interface == TUNED.replace(extra={"tune": TUNE})
    made = devmod.create_with_fallback("opencl", b"source", "cl", {"f": info})
    assert made.save_to_bytes() == module.save_to_bytes() == data


def test_an_invalid_tune_is_damage_of_its_function() -> None:
    good = function(INTERFACE.to_dict())
    cases = {
        "expected a map, found an integer": function(TUNED.to_dict(), 7),
        "the interface has the key 'tune', which is an item": function(
            {**TUNED.to_dict(), "tune": TUNE}, TUNE
        ),
    }
    for text, items in cases.items():
        module = stored(f=items, g=good)
        assert text in refusal(FormatError, module.functions.__getitem__, "f")
        assert module.functions["g"] == FunctionInfo(
            "k", ["handle", "int32"], ["blockIdx.x"], (), INTERFACE
        )
    module = stored(f=function(TUNED.to_dict(), TUNE, 1))
    text = refusal(FormatError, lambda: module.functions)
    assert "fmap of 'f': expected an array of 4 to 6, found one of 7" in text


def tune_of(containers: int, size: int) -> dict[str, Any]:
    """Return a map with so many arrays and maps, and itself one, that takes so many bytes."""
    fields = {"later": [[]] * (containers - 2), "text": "x" * 1000}
    more = size - len(msgpack.packb(fields))
    return {**fields, "text": "x" * (1000 + more)}


def test_tune_has_a_limit_of_its_own() -> None:
    """One array or map for four bytes of it. Those of the module do not count them."""
    tune = tune_of(2000, 8003)
    assert len(msgpack.packb(tune)) == 8003
    module = stored(f=function(TUNED.to_dict(), tune))
    assert module.functions["f"].interface == TUNED.replace(extra={"tune": tune})
    for more, size in ((1, 8003), (0, 7999)):
        module = stored(f=function(TUNED.to_dict(), tune_of(2000 + more, size)))
        text = refusal(FormatError, getattr, module, "functions")
        most = f"more than {size // 4} arrays and maps in values of any type"
        assert f"fmap of 'f', tune: {most}" in text


def test_three_kernels_of_800_variants_are_saved() -> None:
    variants = [{"values": [number]} for number in range(800)]
    tuned = TUNED.replace(extra={"tune": {"constants": ["B"], "variants": variants}})
    infos = {name: FunctionInfo(name, ["handle", "int32"], (), (), tuned) for name in "fgh"}
    made = devmod.create_with_fallback("opencl", b"source", "cl", infos)
    assert dict(devmod.loads(devmod.dumps(made)).functions) == infos
