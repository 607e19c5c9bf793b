"""The key ``tune`` of an interface in a module's bytes: an item of its own, with its own limit."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from candidates import Register, Runtime, chosen
from each_case import refusal
from test_newer_functions import INTERFACE, NEEDS, file, function, module_bytes, stored

import devmod
from devmod import FormatError, FunctionInfo, Interface
from devmod._values.tuning import variants_on
from devmod.backend import Variant, tuning_of, variant_interface

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


#: Values of the key that a later devmod may write.
LATER_TUNES: list[dict[str, Any]] = [
    {"space": {"B": [8, 16]}},
    {**TUNE, "constants": {"B": "int32"}},
    {**TUNE, "grid": [["**", "n", 2]]},
    {**TUNE, "variants": [{"values": [[8]]}]},
]


@pytest.mark.row("R50")
def test_a_later_tune_beside_an_unknown_need_is_of_a_newer_function(register: Register) -> None:
    Runtime(register, "opencl", "")
    good = function(INTERFACE.to_dict())
    for tune in LATER_TUNES:
        later = function({**TUNED.to_dict(), "needs": ["later", "tuned"]}, tune)
        root = devmod.loads(file({"f": later, "g": good}, {"f": good}))
        interface = root.imports[0].functions["f"].interface
        assert refusal(FormatError, tuning_of, interface) == f"the tuned function {NEEDS}"
        assert chosen(root) == "opencl"
        assert devmod.explain(root).functions["f"][1].text == NEEDS
        again = devmod.dumps(devmod.bundle(*root.imports))
        assert again == devmod.dumps(root)

        damaged = function(TUNED.to_dict(), tune)
        info = stored(f=damaged).functions["f"]
        assert "newer" not in refusal(FormatError, tuning_of, info.interface)


@pytest.mark.row("R50")
def test_a_variant_with_a_later_interface_is_left_out() -> None:
    """It is one that does not follow the rules here, beside an unknown need."""
    params = INTERFACE.to_dict()["params"]
    forms: list[dict[str, Any]] = [
        {"params": [{**params[0], "kind": "tensor"}, params[1]]},
        {"params": params[:1]},
    ]
    for form in forms:
        interface, first = with_own_interface({**form, "needs": ["later"]})
        assert variant_interface(interface, first).newer == ("later",)
        found = variants_on(interface, "cl", None)
        assert [problem for *_, problem in found] == [NEEDS, ""]
        for needs in ([], ["fp16"]):
            interface, first = with_own_interface({**form, "needs": needs})
            with pytest.raises(FormatError):
                variant_interface(interface, first)


def with_own_interface(own: dict[str, Any]) -> tuple[Interface, Variant]:
    """Return the interface of a tuned function, and its first variant, which has an interface of
    its own and no valid block.
    """
    variants = [{"values": [8], "interface": own, "block": [0]}, {"values": [16]}]
    tune = {"constants": ["B"], "variants": variants}
    interface = stored(f=function(TUNED.to_dict(), tune)).functions["f"].interface
    assert interface is not None
    tuning = tuning_of(interface)
    assert tuning is not None
    return interface, tuning.variants[0]
