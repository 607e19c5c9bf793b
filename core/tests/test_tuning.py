"""The key ``tune`` of an interface: `devmod.backend.tuning_of`."""

from __future__ import annotations

from typing import Any

import pytest
from each_case import check_each

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import (
    Capabilities,
    ExpressionError,
    fits,
    requirements,
    tuning_of,
    variant_interface,
)

PARAMS = [
    Param("x", "buffer", "float32", "rw"),
    Param("n", "scalar", "int32"),
    Param("m", "scalar", "uint64"),
    Param("a", "scalar", "float32"),
    Param("v", "scalar", "int32x2"),
]
OWN = Interface(PARAMS, block=(32, 1, 1)).to_dict()
TUNE: dict[str, Any] = {
    "constants": ["BLOCK", "MODE"],
    "variants": [
        {"values": [64, "fast"]},
        {"values": [128, True], "block": [["//", "BLOCK", 2], 2], "grid": ["n", 1, "m"]},
        {"values": [32, 0.5], "interface": OWN},
    ],
    "specialized": True,
    "sizes": ["n", "m"],
    "grid": [["ceildiv", "n", "BLOCK"]],
    "block": ["BLOCK"],
    "later": 1,
}


def interface(**changes: Any) -> Interface:
    """Return an interface with the key `tune`, some of whose values are changed."""
    tune = {key: value for key, value in {**TUNE, **changes}.items() if value is not None}
    return Interface(PARAMS, extra={"tune": tune, "other": 2}, needs=["fp16", "tuned"])


def test_a_tuned_function_has_variants() -> None:
    tuning = tuning_of(interface())
    assert tuning is not None
    assert tuning.constants == ("BLOCK", "MODE")
    assert tuning.sizes == ("n", "m")
    assert tuning.specialized
    first, second, third = tuning.variants
    assert first.constants == {"BLOCK": 64, "MODE": "fast"}
    assert (first.grid_of({"n": 65, "m": 0}), first.block_of()) == ((2,), (64,))
    assert (second.grid_of({"n": 0, "m": 5}), second.block_of()) == ((0, 1, 5), (64, 2))
    assert third.block_of() == (32,)
    assert first.interface is None

    for plain in (None, Interface(PARAMS)):
        assert tuning_of(plain) is None
    call_decides = tuning_of(
        interface(grid=None, block=None, variants=[{"values": [1, 2]}], sizes=None)
    )
    assert call_decides is not None
    assert call_decides.sizes == ()
    (only,) = call_decides.variants
    assert (only.grid_of({}), only.block_of()) == ((), ())
    assert not tuning_of(interface(specialized=None)).specialized  # type: ignore[union-attr]


def test_the_map_survives_a_file_unchanged() -> None:
    info = FunctionInfo(
        "f", ["handle", "int32", "uint64", "float32", "int32x2"], (), (), interface()
    )
    module = devmod.create_with_fallback("opencl", b"kernel", "cl", {"f": info})
    again = devmod.loads(devmod.dumps(module)).functions["f"]
    assert again == info
    assert again.interface is not None
    assert again.interface.extra["tune"] == {**TUNE}


def test_a_variant_has_an_interface() -> None:
    tuned = interface()
    tuning = tuning_of(tuned)
    assert tuning is not None
    plain = Interface(PARAMS, extra={"other": 2}, needs=["fp16"])
    assert variant_interface(tuned, tuning.variants[0]) == plain
    assert variant_interface(tuned, tuning.variants[2]) == Interface(PARAMS, block=(32, 1, 1))

    other = Interface([Param("y", "buffer", "float32", "rw"), *PARAMS[1:]]).to_dict()
    nested = interface().to_dict()
    tuned = interface(
        variants=[
            {"values": [1, 1], "interface": other},
            {"values": [2, 1], "interface": 7},
            {"values": [3, 1], "interface": nested},
        ]
    )
    tuning = tuning_of(tuned)
    assert tuning is not None
    with pytest.raises(devmod.FormatError) as caught:
        variant_interface(tuned, tuning.variants[0])
    assert str(caught.value) == "the interface of a variant has other parameters than the function"
    with pytest.raises(devmod.FormatError) as caught:
        variant_interface(tuned, tuning.variants[1])
    assert str(caught.value) == "an interface is a map with string keys, not int"
    assert variant_interface(tuned, tuning.variants[2]) == plain


def test_a_device_has_not_to_be_tuned() -> None:
    class Device:
        features = frozenset({"fp16"})
        subgroup_sizes = ()

    assert fits(requirements(interface()), Capabilities(Device())) == ""


def test_a_launch_without_a_value_is_an_error() -> None:
    tuning = tuning_of(interface(grid=[["//", 8, "n"], "m"], block=[["-", "BLOCK", 32]]))
    assert tuning is not None
    first, _, third = tuning.variants
    with pytest.raises(ExpressionError) as caught:
        first.grid_of({"n": 0, "m": 1})
    assert str(caught.value) == "8 // n divides by zero"
    with pytest.raises(ExpressionError) as caught:
        first.grid_of({"n": 8, "m": -1})
    assert str(caught.value) == "the grid is 1 × -1; expected at least 0"
    with pytest.raises(ExpressionError) as caught:
        third.block_of()
    assert str(caught.value) == "the block is 0; expected at least 1"


VALUES = "expected a boolean, an int of 64 bits, a finite float or a string"
COUNT = "expected at least one constant, and 1 to 1024 variants"
NAMES = "expected at most 16 different identifiers"
MANY = [f"c{number}" for number in range(17)]
DEEP: Any = "n"
for _ in range(17):
    DEEP = ["+", DEEP, 1]
#: Changes of the map, and the error.
INVALID: list[tuple[dict[str, Any], str]] = [
    ({"constants": None}, "the key tune has no 'constants'"),
    ({"variants": None}, "the key tune has no 'variants'"),
    ({"constants": "B"}, f"the constants of a tuned function are 'B'; {NAMES}"),
    ({"constants": ["B", "B"]}, f"the constants of a tuned function are ['B', 'B']; {NAMES}"),
    ({"constants": ["B", "a b"]}, f"the constants of a tuned function are ['B', 'a b']; {NAMES}"),
    ({"constants": ["B", 1]}, f"the constants of a tuned function are ['B', 1]; {NAMES}"),
    ({"sizes": MANY}, f"the sizes of a tuned function are {MANY!s:.200}; {NAMES}"),
    ({"constants": []}, f"a tuned function has 0 constants and 3 variants; {COUNT}"),
    ({"variants": []}, f"a tuned function has 2 constants and 0 variants; {COUNT}"),
    (
        {"variants": [{"values": [number, 0]} for number in range(1025)]},
        f"a tuned function has 2 constants and 1025 variants; {COUNT}",
    ),
    ({"variants": {}}, "the variants of a function are a list, not dict"),
    ({"variants": [7]}, "a variant is a map with string keys, not int"),
    ({"variants": [{}]}, "a variant has no 'values'"),
    ({"variants": [{"values": 1}]}, "the values of a variant are a list, not int"),
    ({"variants": [{"values": [1]}]}, "a variant has 1 values for 2 constants"),
    ({"variants": [{"values": [1, None]}]}, f"a constant has the value None; {VALUES}"),
    ({"variants": [{"values": [1, 2**63]}]}, f"a constant has the value {2**63}; {VALUES}"),
    ({"variants": [{"values": [1, [2]]}]}, f"a constant has the value [2]; {VALUES}"),
    ({"variants": [{"values": [1, float("inf")]}]}, f"a constant has the value inf; {VALUES}"),
    (
        {"variants": [{"values": [1, 2]}, {"values": [True, 2.0]}]},
        "two variants have the values (True, 2.0)",
    ),
    (
        {"sizes": ["a"]},
        "the sizes of a tuned function: unknown name 'a'; expected one of 'n', 'm'",
    ),
    (
        {"sizes": ["v"]},
        "the sizes of a tuned function: unknown name 'v'; expected one of 'n', 'm'",
    ),
    (
        {"grid": ["MODE"]},
        "the grid of a tuned function: unknown name 'MODE'; expected one of 'BLOCK', 'n', 'm'",
    ),
    (
        {"block": [["+", "n", 1]]},
        "the block of a tuned function: unknown name 'n'; expected one of 'BLOCK'",
    ),
    ({"grid": "n"}, "the grid of a tuned function is a list of one to three expressions"),
    ({"block": []}, "the block of a tuned function is a list of one to three expressions"),
    ({"grid": ["n"] * 4}, "the grid of a tuned function is a list of one to three expressions"),
    (
        {"grid": [["/", "n", 2]]},
        "the grid of a tuned function has a value that is no integer expression",
    ),
    (
        {"grid": [DEEP]},
        "the grid of a tuned function has an expression that is nested more than 16 deep",
    ),
    ({"grid": None}, "some variants have a grid, and others have none"),
    (
        {"constants": ["n", "MODE"], "variants": [{"values": ["x", 1]}], "grid": ["n"]},
        "the grid of a tuned function: unknown name 'n'; expected one of 'MODE', 'm'",
    ),
    (
        {"variants": [{"values": [1, 2], "grid": ["k"]}]},
        "the grid of a tuned function: unknown name 'k'; expected one of 'BLOCK', 'MODE', 'n', 'm'",
    ),
]


def test_an_invalid_map_is_an_error() -> None:
    def check(case: tuple[dict[str, Any], str]) -> None:
        with pytest.raises(devmod.FormatError) as caught:
            tuning_of(interface(**case[0]))
        assert str(caught.value) == case[1]

    check_each(INVALID, check)
    with pytest.raises(devmod.FormatError) as caught:
        tuning_of(Interface(PARAMS, extra={"tune": 3}))
    assert str(caught.value) == "the key tune is a map with string keys, not int"


def test_the_bounds_are_in_range() -> None:
    names = MANY[:16]
    least = [-(2**63)] + [0] * 15
    most = [2**63 - 1] + [0] * 15
    tuning = tuning_of(
        interface(
            constants=names,
            variants=[{"values": least}, {"values": most}],
            grid=None,
            block=None,
        )
    )
    assert tuning is not None
    assert [each.constants["c0"] for each in tuning.variants] == [-(2**63), 2**63 - 1]
    many = [{"values": [number]} for number in range(1024)]
    tuned = interface(constants=["BLOCK"], variants=many)
    tuning = tuning_of(tuned)
    assert tuning is not None
    assert len(tuning.variants) == 1024
    info = FunctionInfo("f", ["handle", "int32", "uint64", "float32", "int32x2"], (), (), tuned)
    module = devmod.create_with_fallback("opencl", b"", "cl", {"f": info})
    assert devmod.loads(devmod.dumps(module)).functions["f"] == info
