// Checks that need no device: scalars, places, shapes, constants.

import assert from "node:assert/strict";
import { test } from "node:test";

import { hostArray } from "../src/arguments.js";
import { specialize } from "../src/constants.js";
import { dtypeName, parseDtype } from "../src/dtypes.js";
import { repr } from "../src/errors.js";
import { launchedBlock, makePlan } from "../src/plan.js";
import { BlockBytes } from "../src/records.js";
import { halfOf, packerOf, ConversionError } from "../src/scalars.js";
import { readShape } from "../src/shape.js";
import { ownGrid, variantsOf } from "../src/tuning.js";

const hex = (data) => Buffer.from(data).toString("hex");
const pack = (type, value, align = 0) => hex(packerOf(type, align)(value));

test("scalars, little-endian", () => {
  assert.equal(pack("int32", -2), "feffffff");
  assert.equal(pack("uint32", 4294967295), "ffffffff");
  assert.equal(pack("uint32", 7n), "07000000");
  assert.equal(pack("float32", 0.1), "cdcccc3d");
  assert.equal(pack("float16", 1.5), "003e");
  assert.equal(pack("bool", true), "01000000");
  assert.equal(pack("float32x3", [1, 2, 3]), "0000803f0000004000004040");
  assert.equal(pack("int32x2", new Int32Array([1, -1])), "01000000ffffffff");
  assert.equal(pack("uint8x5", new Uint8Array([1, 2, 3, 4, 5]), 4), "0102030405");
});

for (const [type, value, text] of [
  ["int32", 1.5, "1.5 is not a whole number"],
  ["int32", 2147483648, "2147483648 does not fit int32 (-2147483648 to 2147483647)"],
  ["uint32", -1, "-1 does not fit uint32 (0 to 4294967295)"],
  ["int32", "3", "'3' is not a whole number"],
  ["float32", 1e39, "1e+39 does not fit float32"],
  ["float16", 65520, "65520 does not fit float16"],
  ["float32", null, "null is not a number"],
  ["bool", 2, "2 is not a bool"],
  ["float32x4", [1, 2], "2 lanes cannot be passed as float32x4, which has 4 lanes"],
  ["float32x2", 1, "1 is not a sequence of 2 lanes"],
  ["float32x2", [1, "a"], "lane 1: 'a' is not a number"],
]) {
  test(`refused: ${type} of ${String(value)}`, () => {
    assert.throws(
      () => packerOf(type, 0)(value),
      (error) => error instanceof ConversionError && error.message === text,
    );
  });
}

test("float16 is rounded to nearest, ties to even", () => {
  const cases = {
    0: 0,
    1: 0x3c00,
    "-2": 0xc000,
    65504: 0x7bff,
    65519.99: 0x7bff,
    65520: 0x7c00,
    "6.103515625e-5": 0x0400,
    "5.960464477539063e-8": 1,
    "2.9802322387695312e-8": 0,
    "2.98023223876953126e-8": 0,
    "8.940696716308594e-8": 2,
    1.00048828125: 0x3c00,
    1.00146484375: 0x3c02,
    0.1: 0x2e66,
    Infinity: 0x7c00,
  };
  for (const [value, bits] of Object.entries(cases))
    assert.equal(halfOf(Number(value)), bits, value);
  assert.equal(halfOf(-0), 0x8000);
  assert.equal(halfOf(NaN), 0x7e00);
});

test("types and their names", () => {
  for (const name of [
    "int32",
    "uint8x4",
    "float16x2",
    "handle",
    "bool",
    "bfloat16",
    "complex64",
    "float8_e4m3fn",
    "type21_7",
    "void",
    "uint1",
  ]) {
    assert.equal(dtypeName(parseDtype(name)), name);
  }
  for (const name of [
    "",
    "float",
    "int032",
    "float32x1",
    "float32x",
    "x4",
    "type3_64",
    "handles",
    "int256",
  ])
    assert.equal(parseDtype(name), null, name);
});

test("names in messages", () => {
  assert.equal(repr("a'b"), `"a'b"`);
  assert.equal(repr("\u202egnp\n\u0007"), "'\\u202egnp\\n\\x07'");
});

const info = (types, extra = {}) => ({
  name: "k",
  argTypes: types,
  launchParamTags: [],
  argExtraTags: [],
  interface: null,
  ...extra,
});
const param = (name, kind, type, at, more = {}) => ({
  name,
  kind,
  type,
  access: "",
  at,
  align: 0,
  size: 0,
  members: [],
  least: 0,
  pack: [],
  ...more,
});
const known = (params, blocks = [], more = {}) =>
  info(
    params.map(({ kind, type }) => (kind === "buffer" ? "handle" : type)),
    { interface: { params, blocks, block: null, extra: {}, ...more } },
  );

test("TVM's way without an interface", () => {
  const text =
    "@group(0) @binding(0) var<storage, read> a : array<f32>;\n@group(0) @binding(1) var<storage, read_write> b : array<f32>;";
  const plan = makePlan(
    "k",
    info(["handle", "int32", "handle", "float32"], {
      launchParamTags: ["blockIdx.y", "threadIdx.x", "paramWriteAccess:[1,0]"],
    }),
    text,
  );
  assert.deepEqual(
    plan.args.map(({ spot, offset, written, kind }) => [kind, spot?.binding, offset, written]),
    [
      ["buffer", 0, 0, false],
      ["scalar", undefined, 0, true],
      ["buffer", 1, 0, true],
      ["scalar", undefined, 4, true],
    ],
  );
  assert.deepEqual(plan.blocks, [{ spot: { group: 0, binding: 2 }, size: 12 }]);
  assert.equal(plan.packed, 8);
  assert.deepEqual(
    plan.launch.map(({ tag }) => tag),
    ["blockIdx.y", "threadIdx.x"],
  );
  const tagged = makePlan(
    "k",
    info(["handle", "handle"], { launchParamTags: ["paramWriteAccess:[0,1]"] }),
    "",
  );
  assert.deepEqual(
    tagged.args.map(({ written }) => written),
    [false, true],
  );
  assert.throws(
    () => makePlan("k", info(["int64"]), ""),
    /argument 1 is of type int64; without an interface, expected int32/,
  );
});

for (const [name, bad, text] of [
  [
    "push constants",
    known([], [{ at: "push", size: 4 }]),
    /block 0 of its interface is for push constants/,
  ],
  [
    "a huge block",
    known([], [{ at: [0, 0], size: 2 ** 40 }]),
    /has 1099511627776 bytes, expected 1 to 65536/,
  ],
  [
    "two at one place",
    known([param("a", "buffer", "", [0, 0]), param("b", "buffer", "", [0, 0])]),
    /argument 2 'b' has the place \(0, 0\), which another argument or block uses/,
  ],
  [
    "a place beyond any device",
    known([param("a", "buffer", "", [2 ** 31, 0])]),
    /has the place \(2147483648, 0\), expected a group up to 31 and a binding up to 65535/,
  ],
  [
    "no place",
    known([param("a", "buffer", "", null)]),
    /argument 1 'a' has no place \(set, binding\)/,
  ],
  [
    "a scalar outside its block",
    known([param("n", "scalar", "int32", [0, 4])], [{ at: [0, 0], size: 4 }]),
    /is outside its block: 4 bytes at 4 of block 0/,
  ],
  ["a scalar in no block", known([param("n", "scalar", "int32", [3, 0])]), /is outside its block/],
  [
    "a 128-bit scalar",
    known([param("n", "scalar", "complex128", [0, 0])], [{ at: [0, 0], size: 16 }]),
    /is of type complex128, which WGSL does not support/,
  ],
]) {
  test(`an interface with ${name}`, () => assert.throws(() => makePlan("k", bad, ""), text));
}

const shape = (plan, args, options, fixed = null) =>
  readShape(plan, args, options, fixed, 65535).shape?.launched ?? null;
const one = makePlan(
  "k",
  info(["handle"], { launchParamTags: ["blockIdx.y", "blockIdx.x", "threadIdx.x"] }),
  "",
);
const tags = [
  "blockIdx.x",
  "clusterCtaIdx.x",
  "preferredClusterCtaIdx.y",
  "threadIdx.x",
  "tirx.use_required_block_dimension",
  "tirx.use_dyn_shared_memory",
];
const all = makePlan("k", info(["handle"], { launchParamTags: tags }), "");
const mine = makePlan("k", known([param("a", "buffer", "", [0, 0])]), "");

test("shapes", () => {
  assert.deepEqual(shape(mine, [0], { grid: 3 }), [3, 1, 1]);
  assert.deepEqual(shape(mine, [0], { grid: [3n, 2] }), [3, 2, 1]);
  assert.deepEqual(shape(mine, { a: 0 }, { threads: [130, 3] }, [64, 2, 1]), [3, 2, 1]);
  assert.deepEqual(shape(mine, { a: 0 }, { threads: 64, block: 16 }), [4, 1, 1]);
  assert.equal(shape(mine, [0], { threads: [3, 0] }, [64, 1, 1]), null);
  assert.equal(shape(mine, [0], { grid: [3, 0] }), null);
  assert.deepEqual(shape(one, [0, 5, 7, 64], {}), [7, 5, 1]);
  assert.deepEqual(shape(all, [0, 5, 1, 2, 64, 0], {}), [5, 1, 1]);
  assert.deepEqual(shape(one, [0], { grid: 65535 }), [65535, 1, 1]);
  assert.deepEqual(shape(one, [0], { grid: 65536 }), [32768, 1, 2]);
  assert.deepEqual(shape(one, [0], { grid: [200_001, 3] }), [50001, 3, 4]);
});

for (const [name, call, text] of [
  [
    "no grid",
    () => shape(mine, [0], {}),
    /the webgpu function 'k' needs threads, the number of threads, or grid, the number of blocks: a number, or up to three numbers for x, y, z$/,
  ],
  [
    "a grid of fractions",
    () => shape(mine, [0], { grid: 1.5 }),
    /was given grid=1\.5: 1\.5 is not a whole number$/,
  ],
  [
    "a negative grid",
    () => shape(mine, [0], { grid: [1, -1] }),
    /was given grid=\[1, -1\]: -1 is not a count of 0 or more$/,
  ],
  [
    "four dimensions",
    () => shape(mine, [0], { grid: [1, 1, 1, 1] }),
    /expected a number, or up to three numbers for x, y, z$/,
  ],
  [
    "too few arguments",
    () => shape(mine, [], { grid: 1 }),
    /is missing an argument: 'a'; it takes 1 argument \(a\)$/,
  ],
  [
    "too many",
    () => shape(one, [0, 1], { grid: 1 }),
    /takes 1 argument \(buffer\); its launch values \(blockIdx\.y, blockIdx\.x, threadIdx\.x\) may follow them; 2 were given$/,
  ],
  [
    "no array of arguments",
    () => shape(mine, 0, { grid: 1 }),
    /takes its arguments as a record by name or as an array: run\(\{ … \}, \{ grid \}\), run\(\[…\], \{ grid \}\); got 0$/,
  ],
  [
    "both ways",
    () => shape(one, [0, 1, 1, 1], { grid: 1 }),
    /is called with grid or block and with launch values after its arguments; give one of them$/,
  ],
  [
    "another block",
    () => shape(mine, [0], { grid: 1, block: 32 }, [64, 1, 1]),
    /is built for blocks of \(64, 1, 1\) threads, and \(32, 1, 1\) was given/,
  ],
  [
    "too large a grid",
    () => shape(mine, [0], { grid: 65536 }),
    /cannot be launched on this device: its maxComputeWorkgroupsPerDimension is 65535, but grid=\(65536, 1, 1\) has more blocks in x; launch in several parts, or let the kernel index more dimensions$/,
  ],
  [
    "too many threads",
    () => shape(mine, [0], { threads: [5_000_000, 3] }, [64, 1, 1]),
    /but grid=\(78125, 3, 1\) has more blocks in x\. threads=\(5000000, 3\) in blocks of 64 needs grid=\(78125, 3\); launch in several parts, or let/,
  ],
  [
    "threads without a block",
    () => shape(mine, [0], { threads: 64 }),
    /needs block, the number of threads in a block: a number, or up to three numbers for x, y, z$/,
  ],
  [
    "an unknown option",
    () => shape(mine, [0], { thread: 64 }),
    /has no option 'thread' of a launch; there is: grid, threads, block\. Did you mean 'threads'\?$/,
  ],
  [
    "clusters",
    () => shape(all, [0, 5, 2, 1, 64, 0], {}),
    /cannot be launched on this device: WebGPU does not support clusters; expected cluster=\(1, 1, 1\), got \(2, 1, 1\)$/,
  ],
  [
    "dynamic shared memory",
    () => shape(all, [0, 5, 1, 1, 64, 256], {}),
    /cannot be given 256 bytes of shared memory: the shader fixes/,
  ],
  [
    "a launch value too few",
    () => shape(all, [0, 5, 1, 1, 64], {}),
    /its launch values \(blockIdx\.x, clusterCtaIdx\.x, preferredClusterCtaIdx\.y, threadIdx\.x, tirx\.use_dyn_shared_memory\) may follow them; 5 were given$/,
  ],
  [
    "z of TVM's",
    () => shape(one, [0], { grid: [1, 1, 2] }),
    /cannot be launched on this device: grid=\(1, 1, 2\) has 2 blocks in z, expected 1: TVM's shaders fold large x into z$/,
  ],
  [
    "too large even when folded",
    () => shape(one, [0], { grid: 2 ** 33 }),
    /has more blocks in z; launch in several parts/,
  ],
]) {
  test(`refused: ${name}`, () => assert.throws(call, text));
}

for (const [text, known, block] of [
  ["@compute @workgroup_size(64, 1, 1)\nfn k(", null, [64, 1, 1]],
  ["@workgroup_size ( 8u , 4i, )\n  @compute fn k(", null, [8, 4, 1]],
  ["@ workgroup_size(8)\n  @ compute fn k(", null, [8, 1, 1]],
  ["@compute @workgroup_size(64) fn k(", [64, 1, 1], [64, 1, 1]],
  ["@compute @workgroup_size(8) fn other() {} @compute @workgroup_size(4) fn k(", null, [4, 1, 1]],
  [
    "/* @workgroup_size(8) fn k( */ @compute @workgroup_size(4 /* threads */) // @workgroup_size(2) fn k(\n fn k(",
    null,
    [4, 1, 1],
  ],
  ["@compute @workgroup_size(TILE, 1) fn k(", [16, 1, 1], [16, 1, 1]],
  ["@compute @workgroup_size(TILE, 1) fn k(", null, null],
  ["@compute @workgroup_size(8) @other fn k(", null, null],
  ["@workgroup_size(8) fn k( @workgroup_size(4) fn k(", null, null],
]) {
  test(`the block of ${JSON.stringify(text)}`, () =>
    assert.deepEqual(launchedBlock("f", text, "k", known), block));
}

test("a block of the interface that is not the shader's", () => {
  const text =
    /^FormatError: the WGSL of f is built for blocks of \(64, 1, 1\) threads, but the payload's fmap gives \(8, 1, 1\)$/;
  assert.throws(
    () => launchedBlock("f", "@compute @workgroup_size(64) fn k(", "k", [8, 1, 1]),
    text,
  );
});

test("the grid of a variant from integers at the ends of their types", () => {
  for (const [type, value, grid] of [
    ["int32", -3, ["-", 2n, "n"]],
    ["int32", 2147483647, ["-", "n", 2147483642n]],
    ["int32", -2147483648, ["-", -2147483643n, "n"]],
    ["uint32", 2147483653, ["-", "n", 2147483648n]],
    ["uint32", 4294967295, ["-", "n", 4294967290n]],
  ]) {
    const variants = [Object.assign(Object.create(null), { values: [64n] })];
    const fields = { constants: ["BLOCK"], variants, grid: [grid] };
    const tune = Object.assign(Object.create(null), fields);
    const params = [param("m", "scalar", "float32", [0, 0]), param("n", "scalar", type, [0, 4])];
    const blocks = [{ at: [0, 0], size: 8, name: "" }];
    const tuned = known(params, blocks, { extra: { tune }, needs: [] });
    const plan = makePlan("k", tuned, "");
    const [variant] = variantsOf("k", tuned);
    const block = new Uint8Array(8);
    new DataView(block.buffer).setUint32(4, value, true);
    assert.deepEqual(
      ownGrid(plan, variant, {}, () => value),
      [5, 1, 1],
    );
    assert.deepEqual(
      ownGrid(plan, variant, {}, () => new BlockBytes(block)),
      [5, 1, 1],
    );
  }
});

const constants = [
  { name: "TILE", id: 7, type: "uint32", default: 16 },
  { name: "SCALE", type: "float32" },
].map((each) => Object.assign(Object.create(null), each));
const tiled = {
  params: [],
  blocks: [],
  block: [16, 16, 1],
  extra: { constants, block_constants: [0, [0, 1], -1] },
};

test("constants by name and by number", () => {
  assert.deepEqual({ ...specialize("f", tiled, {}).values }, {});
  assert.deepEqual(specialize("f", tiled, {}).missing, ["SCALE"]);
  assert.deepEqual(
    { ...specialize("f", tiled, { TILE: 8, SCALE: 0.5 }).values },
    { 7: 8, SCALE: 0.5 },
  );
  assert.deepEqual({ ...specialize("f", tiled, { 7: 8 }).values }, { 7: 8 });
  assert.equal(specialize("f", tiled, { TILE: 8 }).block, null);
  assert.deepEqual(
    specialize("f", { ...tiled, extra: { constants, block_constants: [0, -1, -1] } }, { TILE: 8 })
      .block,
    [8, 16, 1],
  );
  assert.throws(
    () => specialize("f", tiled, { SIZE: 1 }),
    /^ArgumentError: f has no constant 'SIZE' to specialize; it has: 'TILE', 'SCALE'$/,
  );
  assert.throws(
    () => specialize("f", tiled, { TILE: -1 }),
    /f cannot take the constant 'TILE': -1 does not fit uint32/,
  );
  assert.throws(
    () => specialize("f", tiled, { TILE: 8, 7: 8 }),
    /f is given the constant 'TILE' twice/,
  );
  assert.throws(
    () => specialize("f", { ...tiled, extra: { constants: 5 } }, {}),
    /expected a list of constants in the interface/,
  );
  assert.throws(
    () => specialize("f", { ...tiled, extra: { constants, block_constants: [9, 0, 0] } }, {}),
    /an invalid list block_constants: expected three positions/,
  );
});

test("an array smaller than the kernel declares", () => {
  const limits = { maxStorageBufferBindingSize: 1 << 20, maxBufferSize: 1 << 20 };
  const [hist] = makePlan(
    "k",
    known([param("hist", "buffer", "uint32", [0, 0], { size: 64 })]),
    "",
  ).args;
  assert.equal(hostArray(hist, new Uint32Array(16), false, { limits }).bytes.length, 64);
  for (const count of [15, 1, 0]) {
    assert.throws(
      () => hostArray(hist, new Uint32Array(count), false, { limits }),
      (error) => {
        assert(error instanceof ConversionError);
        assert.equal(
          error.message,
          `has ${4 * count} bytes, and the kernel declares 64; pass an array of 64 bytes or more`,
        );
        return true;
      },
    );
  }
});
