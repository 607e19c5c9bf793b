"""The type tables of the npm package are those of devmod in Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmod._values.dtypes import STRUCT_FORMATS, array_bytes, dtype_name, parse_dtype

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from browser_driver import run_in_node  # noqa: E402

PROGRAM = """
const dtypes = await import("./dtypes.js");
const { packerOf } = await import("./scalars.js");
const names = [];
for (let code = 0; code < 256; code++) for (let bits = 0; bits < 256; bits++) names.push(dtypes.dtypeName({ code, bits, lanes: 1 }));
const parsed = names.map((name) => dtypes.parseDtype(name)).map(({ code, bits, lanes }) => [code, bits, lanes]);
const vectors = [2, 3, 4, 65535].map((lanes) => dtypes.dtypeName({ code: 2, bits: 16, lanes }));
const scalars = {};
for (const name of argument) {
  const pack = packerOf(name, 0);
  scalars[name] = pack && Buffer.from(pack(1)).toString("hex");
}
return { names, parsed, vectors, scalars, arrays: dtypes.TYPED_ARRAYS, constants: dtypes.CONSTANT_TYPES };
"""


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """The tables of the package, and what its functions make of them."""
    result: dict[str, Any] = run_in_node(PROGRAM, list(STRUCT_FORMATS))
    return result


def test_every_dlpack_type_has_the_name_that_it_has_in_python(tables: dict[str, Any]) -> None:
    pairs = [(code, bits) for code in range(256) for bits in range(256)]
    assert tables["names"] == [dtype_name((code, bits, 1)) for code, bits in pairs]
    assert tables["vectors"] == [dtype_name((2, 16, lanes)) for lanes in (2, 3, 4, 65535)]
    assert [tuple(each) for each in tables["parsed"]] == [
        parse_dtype(name) for name in tables["names"]
    ]


def test_typed_arrays_have_the_types_of_their_elements(tables: dict[str, Any]) -> None:
    kinds = {"Int": "int", "Uint": "uint", "Float": "float", "BigInt": "int", "BigUint": "uint"}
    for name, dtype in tables["arrays"].items():
        word, digits = (
            name.removesuffix("Array").removesuffix("Clamped").rstrip("0123456789"),
            "".join(filter(str.isdigit, name)),
        )
        assert dtype == kinds[word] + digits
        assert dtype in STRUCT_FORMATS
        assert array_bytes(parse_dtype(dtype)) == np.dtype(dtype).itemsize == int(digits) // 8


def test_scalars_are_the_types_of_the_table_that_wgsl_or_its_blocks_can_hold(
    tables: dict[str, Any],
) -> None:
    refused = {name for name, data in tables["scalars"].items() if data is None}
    assert refused == {"float64", "complex64", "complex128"}
    for name in tables["scalars"].keys() - refused:
        dtype = "uint32" if name in ("bool", "uint1") else name
        assert bytes.fromhex(tables["scalars"][name]) == np.ones(1, dtype).tobytes(), name


def test_constants_are_the_scalar_types_of_wgsl(tables: dict[str, Any]) -> None:
    from devmod_wgsl import read_wgsl

    scalars = {"bool": "bool", "i32": "int32", "u32": "uint32", "f32": "float32", "f16": "float16"}
    text = (
        "enable f16;"
        + "".join(f"override c_{name}: {name};" for name in scalars)
        + "@compute @workgroup_size(1) fn k() {"
    )
    entry = read_wgsl(text + "".join(f"_ = c_{name};" for name in scalars) + "}", "k")["k"]
    assert (
        {each["type"] for each in entry.extra["constants"]}
        == set(tables["constants"])
        == set(scalars.values())
    )
