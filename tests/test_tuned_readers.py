"""The readers in other languages take the first variant of a tuned function that fits, with the
constants, the grid and the block that devmod gives it, and refuse what devmod refuses.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import ExpressionError, tuning_of, variant_interface

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from browser_driver import PRELUDE, Browser, FileServer, run_in_node  # noqa: E402

from fuzzing import c_reader  # noqa: E402

N = 1000
PARAMS = [
    Param("y", "buffer", "float32", access="rw", at=(0, 0)),
    Param("n", "scalar", "uint32", at=(0, 0)),
    Param("m", "scalar", "int32", at=(0, 4)),
]
GOOD: dict[str, Any] = {
    "constants": ["BLOCK", "TILE"],
    "variants": [{"values": [64, 2]}, {"values": [128, 4]}],
    "specialized": True,
    "sizes": ["n"],
    "grid": [["ceildiv", "n", ["*", "BLOCK", "TILE"]]],
    "block": ["BLOCK"],
}
DEEP: Any = 1
for _ in range(17):
    DEEP = ["+", DEEP, 1]
#: Valid maps, of which the first variant is used.
VALID: dict[str, dict[str, Any]] = {
    "as it is": GOOD,
    "three dimensions": GOOD | {"grid": ["n", ["max", "m", 3], ["//", "n", "BLOCK"]]},
    "no grid and no block": {key: GOOD[key] for key in ("constants", "variants", "sizes")},
    "a grid of the variant": GOOD
    | {"variants": [{"values": [64, 2], "grid": [7, 8], "block": [4, "TILE"]}]},
    "an interface of the variant": GOOD
    | {
        "block": None,
        "variants": [
            {
                "values": [64, 2],
                "interface": Interface(PARAMS, (), (32, 2, 1)).to_dict(),
            }
        ],
    },
    "other types of values": GOOD
    | {
        "constants": ["BLOCK", "FAST", "SCALE", "TILE"],
        "variants": [{"values": [64, True, 0.5, 2]}],
    },
    "a negative value": GOOD | {"variants": [{"values": [64, -2]}], "grid": [["-", 3, "TILE"]]},
    "a grid of none": GOOD | {"grid": [0]},
    "16 constants": {
        "constants": [f"C{n}" for n in range(16)],
        "variants": [{"values": list(range(16))}],
    },
    "1024 variants": GOOD | {"variants": [{"values": [n, 2**40]} for n in range(1, 1025)]},
    "the deepest expression": GOOD | {"grid": [DEEP[1]]},
}
#: Maps that are refused.
INVALID: dict[str, Any] = {
    "no map": ["BLOCK"],
    "no constants": GOOD | {"constants": []},
    "constants that are a map": GOOD | {"constants": {}},
    "17 constants": {
        "constants": [f"C{n}" for n in range(17)],
        "variants": [{"values": list(range(17))}],
    },
    "a constant twice": GOOD | {"constants": ["BLOCK", "BLOCK"]},
    "a constant that is a number": GOOD | {"constants": ["BLOCK", 1]},
    "no variants": GOOD | {"variants": []},
    "1025 variants": GOOD | {"variants": [{"values": [n, 2**40]} for n in range(1, 1026)]},
    "4097 variants": GOOD | {"variants": [{"values": [n, 2**40]} for n in range(1, 4098)]},
    "variants that are a map": GOOD | {"variants": {}},
    "a variant that is a list": GOOD | {"variants": [[64, 2]]},
    "a variant without values": GOOD | {"variants": [{}]},
    "too few values": GOOD | {"variants": [{"values": [64]}]},
    "a value that is a list": GOOD | {"variants": [{"values": [64, [2]]}]},
    "a value that is nothing": GOOD | {"variants": [{"values": [64, None]}]},
    "a value that is not finite": GOOD | {"variants": [{"values": [64, float("inf")]}]},
    "a grid that is a number": GOOD | {"grid": 3},
    "a grid of nothing": GOOD | {"grid": []},
    "a grid of four": GOOD | {"grid": [1, 1, 1, 1]},
    "an unknown name": GOOD | {"grid": ["width"]},
    "a name of an array": GOOD | {"grid": ["y"]},
    "a name of an object": GOOD | {"grid": ["toString"]},
    "a block by an argument": GOOD | {"block": ["n"]},
    "an unknown operator": GOOD | {"grid": [["**", "n", 2]]},
    "an operator of one operand": GOOD | {"grid": [["+", "n"]]},
    "an expression that is too deep": GOOD | {"grid": [DEEP]},
    "a constant that is no number": GOOD | {"variants": [{"values": ["64", 2]}]},
    "another interface": GOOD
    | {"variants": [{"values": [64, 2], "interface": Interface(PARAMS[:2]).to_dict()}]},
    "an invalid interface": GOOD | {"variants": [{"values": [64, 2], "interface": {"params": 3}}]},
}
#: Maps whose first variant has no block or no grid for the call.
WITHOUT_NUMBERS: dict[str, dict[str, Any]] = {
    "a negative grid": GOOD | {"grid": [["-", "BLOCK", 65]]},
    "a division by zero": GOOD | {"grid": [["//", "n", ["-", "TILE", 2]]]},
    "beyond 64 bits": GOOD | {"grid": [["*", ["*", "n", 2**60], "n"]]},
    "a block of zero": GOOD | {"block": [["-", "BLOCK", 64]]},
}


def interface_with(tune: Any, **fields: Any) -> Interface:
    return Interface(PARAMS, extra={"tune": tune}, needs=["tuned"], **fields)


def module_with(tune: Any, **fields: Any) -> devmod.Module:
    info = FunctionInfo(
        "f", ["handle", "uint32", "int32"], interface=interface_with(tune, **fields)
    )
    return devmod.create_with_fallback("webgpu", {"f": b"fn f() {}"}, "wgsl", {"f": info})


def expected(tune: Any) -> Any:
    """Return what devmod gives a call of the first variant; None if it refuses it."""
    interface = interface_with(tune)
    try:
        tuning = tuning_of(interface)
        assert tuning is not None
        variant = tuning.variants[0]
        plain = variant_interface(interface, variant)
        grid = variant.grid_of({"n": N, "m": 5})
        block = variant.block_of() or plain.block
    except (devmod.FormatError, ExpressionError):
        return None
    constants: dict[str, Any] = {}
    if tuning.specialized:
        constants = variant.constants
    return {
        "constants": constants,
        "grid": list((*grid, 1, 1)[:3]) if grid else [],
        "block": block and list((*block, 1, 1)[:3]),
    }


IN_JAVASCRIPT = """
const { decode } = await import("./wire.js");
const { makePlan } = await import("./plan.js");
const { ownGrid, variantsOf } = await import("./tuning.js");
const { DevmodError } = await import("./errors.js");
return argument.map((text) => {
  const { functions } = decode("webgpu", new Uint8Array(Buffer.from(text, "base64")), [], 0);
  const info = functions.get("f");
  const plan = makePlan("f", { ...info, interface: { ...info.interface, blocks: [{ at: [0, 1], size: 8, name: "" }] } }, "");
  try {
    const [variant] = variantsOf(plan.description, info);
    const values = { n: %d, m: 5 };
    const grid = variant.grid.length ? ownGrid(plan, variant, {}, ({ name }) => values[name]) : [];
    return { constants: variant.set, grid, block: variant.info.interface.block };
  } catch (error) {
    if (error instanceof DevmodError) return null;
    throw error;
  }
});
"""


def in_javascript(tunes: list[Any]) -> list[Any]:
    modules = [module_with(each).save_to_bytes() for each in tunes]
    texts = [base64.b64encode(each).decode() for each in modules]
    found: list[Any] = run_in_node(IN_JAVASCRIPT % N, texts)
    return found


@pytest.mark.row("R21")
def test_the_reader_in_javascript_takes_the_first_variant() -> None:
    results = in_javascript(list(VALID.values()))
    for (name, tune), found in zip(VALID.items(), results, strict=True):
        assert found == expected(tune), name
        assert found is not None, name


@pytest.mark.row("R21")
def test_the_reader_in_javascript_refuses_what_devmod_refuses() -> None:
    cases = INVALID | WITHOUT_NUMBERS
    results = in_javascript(list(cases.values()))
    for (name, tune), found in zip(cases.items(), results, strict=True):
        assert expected(tune) is None, name
        assert found is None, name


# -- the reader in C

#: Print the first variant of each function of the first module of a file, as JSON.
IN_C = """
#include <stdio.h>
#include <string.h>
#include "devmod_reader.h"

static void print_dims(const char *key, const int64_t *dims, size_t count) {
    printf(", \\"%s\\": [", key);
    for (size_t at = 0; count && at < 3; at++)
        printf("%s%lld", at ? ", " : "", at < count ? (long long)dims[at] : 1LL);
    printf("]");
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
        printf("{\\"specialized\\": %d, \\"own\\": %d, \\"constants\\": {", variant.is_specialized,
               variant.interface.size > 0);
        for (size_t each = 0; each < variant.constant_count; each++) {
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


def in_c(tunes: list[Any], folder: Path) -> list[Any]:
    """Return the first variant of each map; a number for one that is refused."""
    functions = {}
    for number, tune in enumerate(tunes):
        interface = interface_with(tune)
        info = FunctionInfo("f", ["handle", "uint32", "int32"], interface=interface)
        functions[f"f{number}"] = info
    module = devmod.create_with_fallback("opencl", b"// f", "cl", functions)
    devmod.save(module, folder / "k.devmod")
    (folder / "first.c").write_text(IN_C)
    program = folder / "first"
    sources = [str(folder / "first.c"), str(c_reader.FOLDER / "devmod_reader.c")]
    options = [*c_reader.FLAGS, *c_reader.SANITIZERS, f"-I{c_reader.FOLDER}", "-o", str(program)]
    subprocess.run([str(c_reader.compiler()), *sources, *options], check=True)
    done = subprocess.run(
        [program, str(folder / "k.devmod")], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


#: Operations at the ends of 64 bits: each is the grid, which C computes without wider integers.
EDGES = [
    *[[name, one, other] for name in ("+", "-", "*", "//", "%", "min", "max", "ceildiv")
      for one in (-(2**63), -7, 0, 7, 2**63 - 1) for other in (-(2**63), -2, -1, 1, 2, 2**63 - 1)],
    ["max", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
    ["max", *range(17)],
]  # fmt: skip


@pytest.mark.row("R50")
@pytest.mark.skipif(c_reader.compiler() is None, reason="no C compiler on PATH")
def test_the_reader_in_c_takes_the_first_variant_and_refuses_what_devmod_refuses(
    tmp_path: Path,
) -> None:
    cases = VALID | INVALID | WITHOUT_NUMBERS
    for number, edge in enumerate(EDGES):
        # A negative number is no grid.
        cases[f"{number}: {edge}"] = GOOD | {"grid": [["max", edge, 0]]}
    #: The reader in C leaves an interface of a variant to its caller.
    for name in ("another interface", "an invalid interface"):
        cases.pop(name)
    results = in_c([*cases.values(), None], tmp_path)
    assert results.pop() == 5  # the function is not tuned
    for (name, tune), found in zip(cases.items(), results, strict=True):
        wanted = expected(tune)
        if wanted is None:
            assert found == 1, name
            continue
        if found["own"] or not found["block"]:
            found["block"] = wanted["block"]
        if not found.pop("specialized"):
            found["constants"] = {}
        found.pop("own")
        assert found == wanted, name


# -- calls in a browser

WGSL = """
override BLOCK: u32;
override TILE: u32 = 1;
struct Sizes { n: u32, m: i32 }
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> sizes: Sizes;
@compute @workgroup_size(BLOCK) fn f(@builtin(global_invocation_id) id: vec3u) {
  for (var at = id.x * TILE; at < (id.x + 1) * TILE; at++) {
    if (at < sizes.n) { y[at] = f32(BLOCK * 1000 + TILE); }
  }
}
"""


def tuned(text: str, tune: dict[str, Any], needs: tuple[str, ...] = ("tuned",)) -> bytes:
    """Return a file with the function `f`, compiled and with variants."""
    module: Any = devmod.compile(text, "webgpu")
    info = module.functions["f"]
    interface = info.interface
    extra = dict(interface.extra) | {"tune": tune}
    interface = interface.replace(extra=extra, needs=[*interface.needs, *needs])
    info = info.replace(interface=interface)
    return devmod.dumps(devmod.create_with_fallback("webgpu", module.code, "wgsl", {"f": info}))


def run(page: Browser, body: str) -> Any:
    return page.evaluate(PRELUDE + body)


@pytest.fixture(autouse=True)
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")


@pytest.mark.row("R21")
def test_a_browser_launches_the_first_variant_that_fits(
    empty_page: Browser, server: FileServer
) -> None:
    tune = GOOD | {"variants": [{"values": [2**20, 2]}, *GOOD["variants"]]}
    server.files["k.devmod"] = tuned(WGSL, tune)
    found = run(
        empty_page,
        """
        const f = await (await kit.open("k.devmod")).getFunction("f");
        const y = new Float32Array(300);
        await f.run({ y, n: 300, m: 0 });
        const other = await f.specialize({ TILE: 8 });
        const z = new Float32Array(300);
        await other.run([z, 300, 0]);
        return [[...new Set(y)], [...new Set(z)], f.block, f.launchConfig({ n: 300, m: 0 }), other.launchConfig({ n: 1025, m: 0 })];
        """,
    )
    block = [64, 1, 1]
    assert found == [
        [64_002],
        [64_008],
        block,
        {"grid": [3, 1, 1], "block": block},
        {"grid": [3, 1, 1], "block": block},
    ]


CALLS = [
    (
        "f.run([y, 4, 0], { grid: 1 })",
        "the webgpu function 'f' has a grid of its own, and was given grid; omit grid",
    ),
    (
        "f.run({ y, n: 1.5, m: 0 })",
        "the webgpu function 'f': argument 2 'n': 1.5 is not a whole number",
    ),
    (
        "f.run({ y, m: 0 })",
        "the webgpu function 'f' is missing an argument: 'n'; it takes 3 arguments (y, n, m)",
    ),
]


@pytest.mark.row("R21")
def test_a_browser_refuses_calls_and_variants_by_name(
    empty_page: Browser, server: FileServer
) -> None:
    server.files["k.devmod"] = tuned(WGSL, GOOD)
    server.files["large.devmod"] = tuned(WGSL, GOOD | {"variants": [{"values": [2**20, 2]}]})
    server.files["text.devmod"] = tuned(
        WGSL, GOOD | {"grid": [1], "block": None, "variants": [{"values": ["64", 2]}]}
    )
    server.files["later.devmod"] = tuned(WGSL, GOOD, ("tuned", "tuned_later"))
    calls = "".join(f"await failure(() => {call})," for call, _ in CALLS)
    found = run(
        empty_page,
        f"""
        const get = async (name) => (await kit.open(name)).getFunction("f");
        const f = await get("k.devmod");
        const y = new Float32Array(4);
        return [{calls}
          await failure(() => get("large.devmod")), await failure(() => get("text.devmod")), await failure(() => get("later.devmod"))];
        """,
    )
    assert [each[1] for each in found[: len(CALLS)]] == [text for _, text in CALLS]
    large, text, later = found[len(CALLS) :]
    assert large[0] == "DeviceNotFoundError"
    assert "1048576" in large[1]
    assert text == [
        "ArgumentError",
        "the webgpu function 'f' cannot take the constant 'BLOCK': '64' is not a whole number",
    ]
    assert later == [
        "DeviceNotFoundError",
        "the webgpu function 'f' needs tuned_later, which this device does not have",
    ]


SCALE = """
override BLOCK: u32 = 64;
override TILE: u32 = 1;
struct P { n: u32, a: f32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(BLOCK)
fn scale(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {
  for (var tile = 0u; tile < TILE; tile++) {
    let i = (group.x * TILE + tile) * BLOCK + local.x;
    if (i < p.n) { y[i] = p.a * x[i]; }
  }
}"""


def compiled(**options: Any) -> Any:
    tune = {"BLOCK": [32, 64], "TILE": [2, 4]}
    return devmod.compile(SCALE, "webgpu", tune=tune, sizes=["n"], **options)


@pytest.mark.row("R21", "R51")
def test_a_step_of_a_program_in_a_browser_has_the_grid_of_its_kernel(
    empty_page: Browser, server: FileServer
) -> None:
    kernels = compiled(grid="ceildiv(n, BLOCK * TILE)", block="BLOCK")
    program = devmod.program(
        "twice",
        kernels,
        inputs=["x: float32[n]"],
        outputs=["y: float32[n]"],
        temporaries=["t: float32[n]"],
        steps=[
            devmod.step("scale", x="x", y="t", n="n", a=2.0),
            devmod.step("scale", x="t", y="y", n="n", a=3.0),
        ],
    )
    server.files["k.devmod"] = devmod.dumps(program)
    server.files["threads.devmod"] = devmod.dumps(compiled())
    found = run(
        empty_page,
        """
        const twice = await (await kit.open("k.devmod")).getFunction("twice");
        const x = Float32Array.from({ length: 1000 }, (_, at) => at);
        const { y } = await twice({ x });
        const scale = await (await kit.open("threads.devmod")).getFunction("scale");
        const z = new Float32Array(1000);
        await scale.run({ x, y: z, n: 1000, a: 6 }, { grid: Math.ceil(1000 / 64) });
        return [y.every((each, at) => each === 6 * at), z.every((each, at) => each === 6 * at), scale.block, scale.launchConfig({ threads: 64 })];
        """,
    )
    block = [32, 1, 1]
    assert found == [True, True, block, {"grid": [2, 1, 1], "block": block}]
