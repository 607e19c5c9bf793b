"""The readers in other languages take the first variant of a tuned function that fits, with the
constants, the grid and the block that devmod gives it, and refuse what devmod refuses.
"""

from __future__ import annotations

import base64
import json
import operator
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from alone import core_alone as core_alone
from tuned_maps import (
    ALSO_INVALID,
    INVALID,
    INVALID_INTERFACES,
    VALID,
    VALID_INTERFACE,
    first_variant,
    info,
)

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from browser_driver import PRELUDE, Browser, FileServer, run_in_node  # noqa: E402

from fuzzing import c_reader, differential, specification  # noqa: E402

IN_JAVASCRIPT = """
const { decode } = await import("./wire.js");
const { makePlan } = await import("./plan.js");
const { ownGrid, variantsOf } = await import("./tuning.js");
const { DevmodError } = await import("./errors.js");
return argument.map((text) => {
  const { functions } = decode("webgpu", new Uint8Array(Buffer.from(text, "base64")), [], 0);
  const info = functions.get("f");
  const plan = makePlan("f", { ...info, interface: { ...info.interface, blocks: [{ at: [0, 1], size: 12, name: "" }] } }, "");
  try {
    const [variant] = variantsOf(plan.description, info);
    const values = { n: 1000, m: 5 };
    const grid = variant.grid.length ? ownGrid(plan, variant, {}, ({ name }) => values[name]) : null;
    return { constants: variant.set, grid, block: variant.info.interface.block };
  } catch (error) {
    if (error instanceof DevmodError) return null;
    throw error;
  }
});
"""


def first_in_javascript(maps: list[dict[str, Any]]) -> list[Any]:
    """Return the first variant of each map; None for an invalid map."""
    texts = []
    for changes in maps:
        code = {"f": b"fn f() {}"}
        module = devmod.create_with_fallback("webgpu", code, "wgsl", {"f": info(**changes)})
        texts.append(base64.b64encode(module.save_to_bytes()).decode())
    results: list[Any] = run_in_node(IN_JAVASCRIPT, texts)
    return results


@pytest.mark.row("R21")
def test_the_reader_in_javascript_takes_the_first_variant_and_refuses_what_devmod_refuses() -> None:
    valid = [*VALID, VALID_INTERFACE]
    invalid = [*INVALID.values(), *ALSO_INVALID.values(), *INVALID_INTERFACES.values()]
    found = first_in_javascript([*valid, *invalid])
    for changes, result in zip(valid, found, strict=False):
        assert result == first_variant(**changes)
    assert found[len(valid) :] == [None] * len(invalid)


#: Print the first variant of each function of the first module of a file, as JSON.
IN_C = """
#include <stdio.h>
#include <string.h>
#include "devmod_reader.h"

static void print_dims(const char *key, const int64_t *dims, size_t count) {
    printf(", \\"%s\\": %s", key, count ? "[" : "null");
    for (size_t at = 0; count && at < 3; at++)
        printf("%lld%s", at < count ? (long long)dims[at] : 1LL, at < 2 ? ", " : "]");
}

int main(int argc, char **argv) {
    static char data[1 << 22];
    FILE *stream = fopen(argv[argc - 1], "rb");
    size_t size = fread(data, 1, sizeof data, stream);
    fclose(stream);
    devmod_file *file;
    devmod_contents contents;
    if (devmod_open(NULL, data, size, &file) || devmod_get_contents(file, 0, 1 << 22, &contents))
        return 1;
    devmod_value arguments[2] = {{.name = {(const uint8_t *)"n", 1}, .integer = 1000},
                                 {.name = {(const uint8_t *)"m", 1}, .integer = 5}};
    for (size_t at = 0; at < contents.function_count; at++) {
        devmod_variant variant;
        int result = devmod_get_variant(file, contents.functions + at, 0, arguments, 2, &variant);
        if (result) {
            printf("%d\\n", result);
            continue;
        }
        printf("{\\"constants\\": {");
        for (size_t each = 0; variant.is_specialized && each < variant.constant_count; each++) {
            const devmod_value *value = variant.constants + each;
            printf("%s\\"%.*s\\": ", each ? ", " : "", (int)value->name.size, (const char *)value->name.data);
            if (value->type == 'f')
                printf("%.17g", value->number);
            else if (value->type == 's')
                printf("\\"%.*s\\"", (int)value->text.size, (const char *)value->text.data);
            else if (value->type == 'b')
                printf(value->integer ? "true" : "false");
            else
                printf("%lld", (long long)value->integer);
        }
        printf("}");
        print_dims("grid", variant.grid, variant.grid_count);
        print_dims("block", variant.block, variant.block_count);
        printf("}\\n");
    }
    devmod_close(file);
    return 0;
}
"""
#: Operations at the ends of 64 bits: each is the grid, which C computes without wider integers.
EDGES = [
    *[[name, one, other] for name in ("+", "-", "*", "//", "%", "min", "max", "ceildiv")
      for one in (-(2**63), -7, 0, 7, 2**63 - 1) for other in (-(2**63), -2, -1, 1, 2, 2**63 - 1)],
    ["max", *range(1, 17)],
    ["max", *range(17)],
]  # fmt: skip


def in_python(changes: dict[str, Any]) -> Any:
    """Return what devmod gives a call; 1, the error of the reader in C, for an invalid map."""
    try:
        return first_variant(**changes)
    except ValueError:  # no grid of 64 bits
        return 1


def pair(one: Any, other: Any) -> dict[str, Any]:
    """Return a change to two variants that differ in one value."""
    variants = [{"values": [one, 1]}, {"values": [other, True]}]
    return {"variants": variants, "grid": [1], "block": None}


#: The ends of errors of a call.
WITHOUT_VALUE = ("divides by zero", "needs more than 64 bits", "at least 0", "expected at least 1")
#: Values that are equal, and others that are equal only if one is rounded.
EQUAL = [pair(2**53, 2.0**53), pair(-0.0, False), pair(0.5, 0.5), pair(-(2**63), -(2.0**63))]
#: What is wrong with another variant than the first.
SECOND = [
    *[pair(1, value) for value in (None, [], float("inf"), 2**63)],
    pair(1, 2.0) | {"grid": ["BLOCK"]},
    {"variants": [{"values": [1, 1]}, {"values": [2, 1], "grid": ["x"]}]},
    {"variants": [{"values": [1, 1]}, {"values": [2, 1], "block": ["n"]}]},
    {"variants": [{"values": [1, 1]}, {"values": [2]}]},
]
SIMILAR = [
    pair(2**53 + 1, 2.0**53),
    pair(2**63 - 1, 2.0**63),
    pair(1, "1"),
    pair(1, 1.5),
    pair(-1, -1.5),
    pair("a", "b"),
]


def first_in_c(
    maps: list[dict[str, Any]], folder: Path, needs: Sequence[str] = ("tuned",)
) -> list[Any]:
    """Return the first variant of each map, 1 for an invalid map, and 5 for a function that is not
    tuned, which follows.
    """
    functions = {}
    for number, changes in enumerate(maps):
        made = info(**changes)
        functions[f"f{number}"] = made.replace(interface=made.interface.replace(needs=needs))
    functions["plain"] = devmod.FunctionInfo("plain", ["handle"])
    file = folder / "k.devmod"
    devmod.save(devmod.create_with_fallback("opencl", b"// f", "cl", functions), file)
    source = folder / "first.c"
    source.write_text(IN_C)
    program = c_reader.build([source, c_reader.READER], *c_reader.SANITIZERS)
    lines = subprocess.check_output([program, file], text=True).splitlines()
    return [json.loads(line) for line in lines]


needs_compiler = pytest.mark.skipif(c_reader.compiler() is None, reason="no C compiler on PATH")


@pytest.mark.row("R50")
@needs_compiler
def test_the_reader_in_c_takes_the_first_variant_and_refuses_what_devmod_refuses(
    tmp_path: Path,
) -> None:
    # A negative number is no grid.
    valid = [*VALID, *SIMILAR, *[{"grid": [["max", edge, 0]]} for edge in EDGES]]
    invalid = [*INVALID.values(), *ALSO_INVALID.values(), *EQUAL, *SECOND]
    found = first_in_c([*valid, *invalid], tmp_path)
    expected = [in_python(changes) for changes in valid] + [1] * len(invalid)
    assert found == [*expected, 5]  # the last function is not tuned


@pytest.mark.row("R20")
@pytest.mark.parametrize("is_valid", [True, False])
def test_the_specification_reads_and_refuses_the_variants_that_devmod_does(is_valid: bool) -> None:
    """An expression has no value before a call."""
    maps = [*VALID, VALID_INTERFACE, *SIMILAR]
    if not is_valid:
        maps = [*INVALID_INTERFACES.values(), *ALSO_INVALID.values(), *EQUAL, *SECOND]
        maps += [each for text, each in INVALID.items() if not text.endswith(WITHOUT_VALUE)]
    for changes in maps:
        functions = {"f": info(**changes)}
        module = devmod.create_with_fallback("opencl", b"// f", "cl", functions)
        data = module.save_to_bytes()
        differential.compare_module("opencl", data)
        found = specification.spec_reader().read_module("opencl", data)["functions"]["f"]
        if is_valid:
            assert specification.spec_reader().variants_of(found)
            continue
        with pytest.raises(specification.spec_reader().SpecError):
            specification.spec_reader().variants_of(found)


def function_with(interface: dict[str, Any], *tune: Any) -> list[Any]:
    return ["f", [], [], [], interface, *tune]


ONE = {"name": "n", "kind": "scalar", "type": "int32"}
LATER = {"params": [{"name": "n", "kind": "later"}]}
VARIANTS = {"constants": ["B"], "variants": [{"values": [1]}], "later": [[]] * 2000}
#: Functions, and the key of each that the specification's reader refuses.
FUNCTIONS: dict[str, tuple[list[Any], str]] = {
    "with variants": (function_with({}, VARIANTS | {"text": "x" * 6100}), ""),
    "with variants of many arrays": (function_with({}, VARIANTS), "the module"),
    "with an interface of many arrays": (function_with({"later": [[]] * 2000}, {}), "the module"),
    "with variants in its interface": (function_with({"tune": {}}), "damaged"),
    "with a list of variants": (function_with({}, ["expected a map"]), "damaged"),
    "with variants in an interface of a later form": (
        function_with({"tune": {}, "needs": ["later"]}),
        "newer",
    ),
    "of a later form": (function_with(LATER | {"needs": ["later"]}), "newer"),
    "of a damaged form": (function_with(LATER | {"needs": ["fp16"]}), "damaged"),
    "with needs of another form": (function_with({"needs": "later"}), "damaged"),
    "with a need alone": (function_with({"needs": ["later"]}), ""),
    "with seven items": (function_with({}, {}, {}), "the module"),
}


@pytest.mark.row("R20")
def test_a_variant_with_the_interface_of_a_newer_function_is_left_out() -> None:
    forms = (LATER, {"params": []})  # the second has other parameters than the function
    variants: list[tuple[dict[str, Any], Any]] = []
    for form in forms:
        variants.append(({"values": [2], "interface": form | {"needs": ["later"]}}, [{"B": 1}]))
        variants.append(({"values": [2], "interface": form}, None))
    second = specification.spec_reader()
    for other, expected in variants:
        tune = {"constants": ["B"], "variants": [{"values": [1]}, other], "text": "x" * 20}
        function = ["f", [[0, 32, 1]], [], [], {"params": [ONE]}, tune]
        data = b"".join(map(msgpack.packb, ["cl", {"f": function}, b"// f"]))
        differential.compare_module("opencl", data)
        info = second.read_module("opencl", data)["functions"]["f"]
        if expected is None:
            with pytest.raises(second.SpecError):
                second.variants_of(info)
            continue
        assert [each["constants"] for each in second.variants_of(info)] == expected


@pytest.mark.row("R21", "R50")
def test_the_reader_in_javascript_leaves_out_a_variant_with_a_later_interface() -> None:
    own = VALID_INTERFACE["variants"][0]["interface"]
    newer = [
        {**own, "params": [{**own["params"][0], "kind": "later"}, *own["params"][1:]]},
        {**own, "params": own["params"][:1]},
    ]
    other = {"values": [32, 2]}
    maps = []
    for needs in (["later"], ["fp16"]):
        for form in newer:
            first = {"values": [64, 2], "interface": {**form, "needs": needs}}
            maps += [{"variants": [first, other]}, {"variants": [first]}]
    found = first_in_javascript(maps)
    assert found == [first_variant(variants=[other]), None] * 2 + [None] * 4


@pytest.mark.row("R20")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_specification_has_devmods_verdict_of_a_function(name: str) -> None:
    function, refused = FUNCTIONS[name]
    plain = ["g", [], [], []]
    data = b"".join(map(msgpack.packb, ["cl", {"f": function, "g": plain}, b"// f"]))
    differential.compare_module("opencl", data)
    try:
        found = specification.spec_reader().read_module("opencl", data)["functions"]
    except specification.spec_reader().SpecError:
        assert refused == "the module"
        return
    assert [key for key in ("damaged", "newer") if key in found["f"]] == [refused] * bool(refused)
    assert found["g"]["name"] == "g"


@pytest.mark.row("R50")
@needs_compiler
def test_variants_of_a_later_form_are_unsupported_in_c(tmp_path: Path) -> None:
    """The function has a need that the reader does not know."""
    valid: dict[str, Any] = {}
    invalid = {"variants": {}}
    found = first_in_c([valid, invalid], tmp_path, needs=["later", "tuned"])
    assert found == [first_variant(), 3, 5]


@pytest.mark.row("R20")
def test_variants_of_a_later_form_are_of_a_newer_function_in_the_specification() -> None:
    tune = {"space": {"B": [1, 2]}}
    for needs, text in ((["later", "tuned"], "a newer function"), (["tuned"], "expected an array")):
        data = b"".join(
            map(msgpack.packb, ["cl", {"f": function_with({"needs": needs}, tune)}, b"// f"])
        )
        differential.compare_module("opencl", data)
        second = specification.spec_reader()
        with pytest.raises(second.SpecError, match=text):
            second.variants_of(second.read_module("opencl", data)["functions"]["f"])


#: Each operator of an expression, in Python's integers.
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    "ceildiv": lambda one, other: -(-one // other),
}
NUMBERS = (-(2**63), -8, -7, -1, 0, 1, 7, 8, 2**63 - 1)
OPERATIONS = [
    (name, one, other)
    for name, one, other in product(OPERATORS, NUMBERS, (-(2**63), -2, -1, 1, 2, 3, 2**63 - 1))
    if -(2**63) <= OPERATORS[name](one, other) < 2**63
]


@pytest.mark.row("R21", "R50")
@pytest.mark.parametrize(
    "language", ["python", "javascript", pytest.param("c", marks=needs_compiler)]
)
def test_the_result_of_each_operator(language: str, tmp_path: Path) -> None:
    """A grid is at least zero, so one number is the result, and one is what it is below -1."""
    maps = []
    expected: list[list[Any]] = []
    for name, one, other in OPERATIONS:
        operation = [name, one, other]
        maps.append({"grid": [["max", operation, 0], ["max", ["-", -1, operation], 0]]})
        result = OPERATORS[name](one, other)
        expected.append([max(result, 0), max(-1 - result, 0), 1])
    assert {name for name, *_ in OPERATIONS} == OPERATORS.keys()

    if language == "python":
        found = [first_variant(**changes) for changes in maps]
    elif language == "c":
        *found, _ = first_in_c(maps, tmp_path)
    else:
        found = first_in_javascript(maps)
    for operation, each, numbers in zip(OPERATIONS, found, expected, strict=True):
        grid = each["grid"]
        if language == "javascript":  # its numbers are floats
            grid = [*map(float, grid)]
            numbers = [*map(float, numbers)]
        assert (operation, grid) == (operation, numbers)


@pytest.mark.row("R21", "R50")
@pytest.mark.parametrize("language", ["javascript", pytest.param("c", marks=needs_compiler)])
@pytest.mark.parametrize("value", ["x", True, 0.5])
def test_a_constant_that_is_no_integer_hides_the_argument_of_its_name(
    language: str, value: object, tmp_path: Path
) -> None:
    hidden = {"constants": ["n", "MODE"], "block": None}
    variants = [{"values": [value, 1]}]
    maps = [{**hidden, "variants": variants, "grid": [name]} for name in ("n", "m")]
    if language == "c":
        first, second, _ = first_in_c(maps, tmp_path)
    else:
        first, second = first_in_javascript(maps)
    assert first in (None, 1)
    assert second["grid"] == [5, 1, 1]


# -- calls in a browser

#: With the constants' own values, no grid of a variant computes all.
WGSL = """
override BLOCK: u32 = 8;
override TILE: u32 = 1;
struct P { n: u32, a: f32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(BLOCK)
fn f(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {
  for (var tile = 0u; tile < TILE; tile++) {
    let i = (group.x * TILE + tile) * BLOCK + local.x;
    if (i < p.n) { y[i] = p.a * x[i]; }
  }
}"""
GRID = {"grid": "ceildiv(n, BLOCK * TILE)", "block": "BLOCK"}
LARGE = 2**20


def compiled(*blocks: int, **options: Any) -> Any:
    """Return a module with the function `f` and variants by BLOCK."""
    tune = {"BLOCK": blocks, "TILE": [2]}
    return devmod.compile(WGSL, "webgpu", tune=tune, sizes=["n"], **options)


def run(page: Browser, body: str) -> Any:
    prelude = """
    const get = async (name) => (await kit.open(name)).getFunction(name.at(0));
    const x = Float32Array.from({ length: 1000 }, (_, at) => at);
    const y = new Float32Array(1000);
    const isScaled = (array, a) => array.every((each, at) => each === a * at);
    """
    return page.evaluate(PRELUDE + prelude + body)


@pytest.mark.row("R21", "R51")
def test_a_browser_launches_the_first_variant_that_fits(
    empty_page: Browser, server: FileServer
) -> None:
    """By a call, after `specialize`, with threads, and as a step of a program."""
    program = devmod.program(
        "p",
        compiled(64, 128, **GRID),
        inputs=["x: float32[n]"],
        outputs=["y: float32[n]"],
        temporaries=["t: float32[n]"],
        steps=["f(x=x, y=t, n=n, a=2.0)", "f(x=t, y=y, n=n, a=3.0)"],
    )
    server.files["f"] = devmod.dumps(compiled(LARGE, 64, 128, **GRID))
    server.files["f.threads"] = devmod.dumps(compiled(32, 64))
    server.files["p"] = devmod.dumps(program)
    found = run(
        empty_page,
        """
        const f = await get("f");
        await f.run({ x, y, n: 1000, a: 5 });
        const other = await f.specialize({ TILE: 8 });
        const z = new Float32Array(1000);
        await other.run([x, z, 1000, 6]);
        const threads = await get("f.threads");
        const t = new Float32Array(1000);
        await threads.run({ x, y: t, n: 1000, a: 7 }, { grid: Math.ceil(1000 / 64) });
        const results = await (await get("p"))({ x });
        return [isScaled(y, 5), isScaled(z, 6), isScaled(t, 7), isScaled(results.y, 6), f.block, threads.block,
          f.launchConfig({ n: 300 }).grid, other.launchConfig({ n: 1025 }).grid, threads.launchConfig({ threads: 64 }).grid];
        """,
    )
    grids = [3, 1, 1]
    assert found == [*[True] * 4, [64, 1, 1], [32, 1, 1], grids, grids, [2, 1, 1]]


REFUSED = {
    "f.run([x, y, 4, 0], { grid: 1 })": "has a grid of its own, and was given grid; omit grid",
    "f.run({ x, y, n: 1.5, a: 0 })": ": argument 3 'n': 1.5 is not a whole number",
    "f.run({ x, y, a: 0 })": "is missing an argument: 'n'; it takes 4 arguments (x, y, n, a)",
    "get('f.later')": "needs 'tuned_later', which neither this devmod-webgpu nor this device has: take a newer devmod-webgpu",
    "get('f.large')": "is built for blocks of (1048576, 1, 1) threads, 1048576 in all, but the limit of this device is 256 (maxComputeInvocationsPerWorkgroup)",
}


@pytest.mark.row("R21")
def test_a_browser_refuses_calls_and_variants_by_name(
    empty_page: Browser, server: FileServer
) -> None:
    module = compiled(64, **GRID)
    info = module.functions["f"]
    interface = info.interface.replace(needs=[*info.interface.needs, "tuned_later"])
    later = {"f": info.replace(interface=interface)}
    server.files["f"] = devmod.dumps(module)
    server.files["f.large"] = devmod.dumps(compiled(LARGE, **GRID))
    server.files["f.later"] = devmod.dumps(
        devmod.create_with_fallback("webgpu", module.code, "wgsl", later)
    )
    calls = ", ".join(f"await failure(() => {call})" for call in REFUSED)
    found = run(empty_page, f'const f = await get("f"); return [{calls}];')
    texts = [text.removeprefix("the webgpu function 'f'").strip() for _, text in found]
    assert texts == list(REFUSED.values())
