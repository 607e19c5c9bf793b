"""Maps of the key ``tune`` of an interface, valid and invalid, for the readers in each language.
pytest's `pythonpath` has this folder.
"""

from __future__ import annotations

from typing import Any

from devmod import FunctionInfo, Interface, Module, Param
from devmod.backend import tuning_of, variant_interface

PARAMS = [
    Param("x", "buffer", "float32", "rw", at=(0, 0)),
    Param("n", "scalar", "uint32", at=(0, 0)),
    Param("m", "scalar", "int32", at=(0, 4)),
    Param("a", "scalar", "float32", at=(0, 8)),
]
OWN = Interface(PARAMS, block=(32, 2, 1)).to_dict()
TUNE = {
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
CALL_DECIDES = {
    "variants": [{"values": [64, 2]}],
    **dict.fromkeys(["grid", "block", "sizes", "specialized"]),
}
NAMES = [f"C{number}" for number in range(17)]
DEEP = 1
for _ in range(17):
    DEEP = ["+", DEEP, 1]

#: Changes that leave the map valid.
VALID = [
    {},
    {"grid": ["n", ["max", "m", 3], ["//", "n", "BLOCK"]]},
    {"grid": [0]},
    {"grid": [DEEP[1]]},
    CALL_DECIDES,
    {"constants": ["n", "m"], "variants": [{"values": [7, 2]}], "grid": ["n", "m"], "block": ["n"]},
    {"variants": [{"values": [64, 2], "grid": [7, 8], "block": [4, "MODE"]}]},
    {"variants": [{"values": [64, -2]}], "grid": [["-", 3, "MODE"]]},
    {"variants": [{"values": [True, 0.5]}], "grid": [1], "block": None},
    {"variants": [{"values": [number, 2**40]} for number in range(1, 1025)]},
    CALL_DECIDES
    | {
        "constants": NAMES[:16],
        "variants": [{"values": [-(2**63), 2**63 - 1, *range(14)]}],
    },
]
#: The reader in C leaves an interface of a variant to its caller.
VALID_INTERFACE = {"block": None, "variants": [{"values": [64, 2], "interface": OWN}]}


def one(*values: Any, **fields: Any) -> dict[str, Any]:
    """Return a change to a single variant."""
    return {"variants": [{"values": list(values), **fields}]}


_NAMES = "expected at most 16 different identifiers"
_COUNT = "expected at least one constant, and 1 to 1024 variants"
_VALUES = "expected a boolean, an int of 64 bits, a finite float or a string"
_DIMS = "is a list of one to three expressions"
#: Devmod's errors, and the change that every reader refuses.
INVALID = {
    "the key tune has no 'constants'": {"constants": None},
    "the key tune has no 'variants'": {"variants": None},
    f"the constants of a tuned function are {{}}; {_NAMES}": {"constants": {}},
    f"the constants of a tuned function are ['B', 'B']; {_NAMES}": {"constants": ["B", "B"]},
    f"the constants of a tuned function are ['B', 1]; {_NAMES}": {"constants": ["B", 1]},
    f"the constants of a tuned function are {NAMES}; {_NAMES}": {
        "constants": NAMES,
        **one(*range(17)),
    },
    f"a tuned function has 0 constants and 1 variants; {_COUNT}": {"constants": [], **one()},
    f"a tuned function has 2 constants and 0 variants; {_COUNT}": {"variants": []},
    f"a tuned function has 2 constants and 1025 variants; {_COUNT}": {
        "variants": [{"values": [number, 0]} for number in range(1025)]
    },
    "the variants of a function are a list, not dict": {"variants": {}},
    "a variant is a map with string keys, not list": {"variants": [[64, 2]]},
    "a variant has no 'values'": {"variants": [{}]},
    "a variant has 1 values for 2 constants": one(64),
    f"a constant has the value None; {_VALUES}": one(64, None),
    f"a constant has the value [2]; {_VALUES}": one(64, [2]),
    f"a constant has the value inf; {_VALUES}": one(64, float("inf")),
    f"the grid of a tuned function {_DIMS}": {"grid": "n"},
    f"the block of a tuned function {_DIMS}": {"block": []},
    "the grid of a tuned function: unknown name 'MODE'; expected one of 'BLOCK', 'n', 'm'": {
        "grid": ["MODE"]
    },
    "the grid of a tuned function: unknown name 'x'; expected one of 'BLOCK', 'n', 'm'": {
        "grid": ["x"]
    },
    "the grid of a tuned function: unknown name 'toString'; expected one of 'BLOCK', 'MODE', 'n', 'm'": one(
        1, 2, grid=["toString"]
    ),
    "the grid of a tuned function: unknown name 'n'; expected one of 'MODE', 'm'": {
        "constants": ["n", "MODE"],
        **one("x", 1, grid=["n"]),
    },
    "the block of a tuned function: unknown name 'n'; expected one of 'BLOCK'": {
        "block": [["+", "n", 1]]
    },
    "the grid of a tuned function has a value that is no integer expression": {
        "grid": [["/", "n", 2]]
    },
    "the grid of a tuned function has an expression that is nested more than 16 deep": {
        "grid": [DEEP]
    },
    # The first variant has no block or no grid for the call.
    "the grid is -1; expected at least 0": {"grid": [["-", "BLOCK", 65]]},
    "1000 // (BLOCK - 64) divides by zero": {"grid": [["//", 1000, ["-", "BLOCK", 64]]]},
    "n * 1152921504606846976 is 1152921504606846976000, which needs more than 64 bits": {
        "grid": [["*", ["*", "n", 2**60], "n"]]
    },
    "the block is 0; expected at least 1": {"block": [["-", "BLOCK", 64]]},
}
#: The reader in C leaves an interface of a variant to its caller.
INVALID_INTERFACES = {
    "an interface is a map with string keys, not int": one(64, 2, interface=7),
    "the interface of a variant has other parameters than the function": one(
        64, 2, interface=Interface(PARAMS[:2]).to_dict()
    ),
    "the params of an interface are a list, not int": one(64, 2, interface={"params": 3}),
}
#: Further ones, of which one has the text of another above.
ALSO_INVALID = {
    f"the constants of a tuned function are ['B', 'a b']; {_NAMES}": {"constants": ["B", "a b"]},
    f"the sizes of a tuned function are {NAMES!s:.200}; {_NAMES}": {"sizes": NAMES},
    f"a constant has the value {2**63}; {_VALUES}": one(64, 2**63),
    "two variants have the values (True, 2.0)": {
        "variants": [{"values": [1, 2]}, {"values": [True, 2.0]}]
    },
    "the sizes of a tuned function: unknown name 'a'; expected one of 'n', 'm'": {"sizes": ["a"]},
    f"the grid of a tuned function {_DIMS}": {"grid": ["n"] * 4},
    "some variants have a grid, and others have none": {"grid": None},
}


def interface(**changes: Any) -> Interface:
    """Return an interface with the key `tune`, some of whose values are changed."""
    tune = {key: value for key, value in {**TUNE, **changes}.items() if value is not None}
    return Interface(PARAMS, extra={"tune": tune, "other": 2}, needs=["fp16", "tuned"])


def info(**changes: Any) -> FunctionInfo:
    """Return a function with such an interface."""
    return FunctionInfo("f", ["handle", "uint32", "int32", "float32"], (), (), interface(**changes))


def first_variant(**changes: Any) -> dict[str, Any]:
    """Return what devmod gives a call of the first variant with n = 1000 and m = 5."""
    tuned = interface(**changes)
    tuning = tuning_of(tuned)
    variant = tuning.variants[0]
    grid = variant.grid_of({"n": 1000, "m": 5})
    plain = variant_interface(tuned, variant)
    block = variant.block_of() or plain.block
    constants = {}
    if tuning.specialized:
        constants = variant.constants
    return {"constants": constants, "grid": padded(grid), "block": padded(block)}


def padded(dims: tuple[int, ...] | None) -> list[int] | None:
    """Return three dimensions; None without any."""
    if not dims:
        return None
    return [*dims, 1, 1][:3]


def variant_values(module: Module, name: str) -> list[tuple[Any, ...]]:
    """Return the values of the variants of a function, those of all candidates."""
    found = []
    for each in module.imports or [module]:
        about = each.functions.get(name)
        tuning = tuning_of(about and about.interface)
        if tuning is not None:
            found += [tuple(variant.constants.values()) for variant in tuning.variants]
    return found
