// The rules of number 6 of the format, by files that are written by hand.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { FormatError, open } from "../src/index.js";
import { unknownNeeds } from "../src/checks.js";
import { unmetNeeds } from "../src/pipeline.js";
import { variantsOf } from "../src/tuning.js";
import { decode } from "../src/wire.js";
import { fileOf, Float, moduleBytes, Raw, record } from "./handmade.js";

/** Check that something is refused with a FormatError of this text. */
async function refused(what, text) {
  await assert.rejects(what, (error) => {
    assert.ok(error instanceof FormatError, String(error.stack));
    assert.match(error.message, text);
    return true;
  });
}

const FUNCTION = ["k", [], [], []];
const BYTES = moduleBytes("cl", { f: FUNCTION }, Buffer.from("code"));
/** The record of a module of OpenCL with the function "f". */
const opencl = (rank = 0, fields = {}) =>
  record(BYTES, { kind: "opencl", format: "cl", functions: ["f"], rank, ...fields });
const text = (length) => Buffer.alloc(length, "text");
const attachment = (fields = {}) =>
  record(text(5), { function: "f", tag: "tuning+", features: [], ...fields });

test("a shift of up to 65,535 bytes of each record", async () => {
  const loader = moduleBytes({ w: [[2, 32, 1], [2], 0] }, { init: ["w"] });
  const page = {
    modules: [
      opencl(0, { shift: 4100, sources: 2 }),
      record(loader, {
        kind: "const_loader",
        functions: ["init"],
        rank: 1,
        parts: [3],
        shift: 65_535,
      }),
    ],
    sources: [record(moduleBytes({ cl: "// code" }), { shift: 129 })],
    parts: [record(text(8), { shift: 16_384 })],
    attached: [attachment({ shift: 65_535 })],
  };
  const data = fileOf([page], { align: 65_536 });
  const bundle = await open(data);
  const [module, constants] = bundle.modules;
  assert.equal(module.offset % 65_536, 4100);
  assert.deepEqual(Buffer.from(await module.bytes()), BYTES);
  assert.equal((await module.sources()).get("cl"), "// code");
  assert.deepEqual(Buffer.from((await constants.constant("w")).data), text(8));
  data[module.offset - 1] = 1;
  await refused((await open(data)).modules[0].bytes(), /the bytes between two of its parts/);
  for (const key of ["sources", "parts", "attached"]) {
    const [one] = page[key];
    const other = { ...page, [key]: [{ ...one, shift: 65_536 }] };
    const reason = new RegExp(`${key}, \\d, shift: 65536 is not between 0 and 65535`);
    await refused(open(fileOf([other])), reason);
  }
});

test("the alignment of the first blob", async () => {
  for (const align of [64, 4096, 65_536]) {
    const [module] = (await open(fileOf([{ modules: [opencl()] }], { align }))).modules;
    assert.equal(module.offset, align === 64 ? module.offset : align);
    assert.deepEqual(Buffer.from(await module.bytes()), BYTES);
  }
  for (const [align, reason] of [
    [32, /align: 32 is not between 64 and 65536/],
    [131_072, /align: 131072 is not between 64 and 65536/],
    [192, /align: 192 is no power of two/],
    ["64", /align: expected an integer, found a string/],
  ]) {
    await refused(open(fileOf([{ modules: [opencl()] }], { align })), reason);
  }
});

test("attachments are checked, counted in the bytes of a page, and skipped", async () => {
  const later = attachment({ tag: "later!", "new!": [1], features: ["brotli"], zstd: [9, BYTES] });
  later.zstd[1] = later.sha256;
  const data = fileOf([{ modules: [opencl()], attached: [attachment(), later] }]);
  const bundle = await open(data);
  assert.equal(bundle.modules.length, 1);
  assert.equal(bundle.size, data.length);
  assert.deepEqual(Buffer.from(await bundle.modules[0].bytes()), BYTES);
  const { tag: _, ...untagged } = attachment();
  const { function: __, ...unnamed } = attachment();
  const large = attachment({ zstd: [2 ** 40, later.sha256] });
  for (const [attached, reason] of [
    [[attachment(), attachment()], /two attachments have the same function and tag, at byte/],
    [[untagged], /attached, 0: no tag/],
    [[unnamed], /attached, 0: no function/],
    [[attachment({ tag: 7 })], /attached, 0, tag: expected a string, found an integer/],
    [[large], /the bytes of the attachment 'tuning\+' of 'f' unpack from 5 to 1099511627776 bytes/],
  ]) {
    await refused(open(fileOf([{ modules: [opencl()], attached }])), reason);
  }
  const cut = fileOf([{ modules: [opencl()], attached: [attachment()] }]);
  await refused(open(cut.subarray(0, -1)), /is cut short/);
});

test("an attachment is in the page of its function", async () => {
  const other = record(BYTES, { kind: "npu", functions: ["t"], rank: 1 });
  const pages = (first, second) => [
    { modules: [opencl()], attached: first },
    { modules: [other], attached: second, name: "g" },
  ];
  const named = (name) => [attachment({ function: name })];
  const bundle = await (await open(fileOf(pages(named("f"), named("t"))))).readAll();
  assert.equal(bundle.modules.length, 2);
  const reason = /two parts of it describe a candidate in different ways/;
  await refused((await open(fileOf(pages(named("t"), [])))).readAll(), reason);
  const nameless = [{ modules: [opencl()] }, { modules: [], attached: named("f"), name: null }];
  await refused(open(fileOf(nameless)), reason);
});

test("a module of another kind has parts with a feature, and none without", async () => {
  const module = (fields) => ({
    modules: [opencl(0, { parts: [1], ...fields })],
    parts: [record(text(5))],
  });
  const [listed] = (await open(fileOf([module({ features: ["shared"] })]))).modules;
  assert.deepEqual([...listed.functionNames], ["f"]);
  await refused(listed.bytes(), /needs 'shared', which a newer devmod-webgpu reads/);
  await refused(
    open(fileOf([module({})])),
    /has parts, which only constants and modules with features have/,
  );
});

test("unknown keys, sections and tags with each mark are ignored", async () => {
  const keys = { later: 1, "later+": [1, { a: null }], "later!": "now" };
  const module = opencl(0, keys);
  const page = { modules: [module], attached: [attachment({ ...keys, tag: "x!" })], ...keys };
  const sections = { tuning: text(3), "keep+": text(0), "refuse!": text(700) };
  const bundle = await open(fileOf([page], { ...keys }, sections));
  assert.deepEqual(Buffer.from(await bundle.modules[0].bytes()), BYTES);
});

test("the format of a record is that of the bytes", async () => {
  const vulkan = (fmt) => moduleBytes(fmt, { f: FUNCTION }, { k: text(4) });
  const read = async (kind, format, bytes, functions = ["f"]) => {
    const { modules } = await open(
      fileOf([{ modules: [record(bytes, { kind, format, functions, rank: 0 })] }]),
    );
    return [...(await modules[0].functions()).keys()];
  };
  assert.deepEqual(await read("opencl", "cl", BYTES), ["f"]);
  assert.deepEqual(await read("vulkan", "spv", vulkan("vulkan")), ["f"]);
  const wgsl = moduleBytes({ f: FUNCTION }, { k: text(4) });
  assert.deepEqual(await read("webgpu", "wgsl", wgsl), ["f"]);
  assert.deepEqual(await read("const_loader", "", moduleBytes({}, {}), []), []);
  for (const [kind, format, bytes, found] of [
    ["opencl", "il", BYTES, "cl"],
    ["opencl", "", BYTES, "cl"],
    ["vulkan", "vulkan", vulkan("vulkan"), "spv"],
    ["webgpu", "", wgsl, "wgsl"],
  ]) {
    const reason = `the index gives the ${kind} module the format '${format}', and its bytes have '${found}'`;
    await refused(read(kind, format, bytes), new RegExp(reason));
  }
});

/** Return the function "f" of a module, from the interface and what is behind it. */
function functionOf(types, ...items) {
  const bytes = moduleBytes({ f: ["k", types, [], [], ...items] }, { k: text(4) });
  return decode("webgpu", bytes).functions.get("f");
}
const HANDLE = [3, 64, 1];
const X = { name: "x", kind: "buffer", type: "float32", access: "rw", at: [0, 0] };

test("a float is no integer of an interface, even if it is whole", () => {
  for (const [known, reason] of [
    [{ subgroup: new Float(32) }, /the subgroup .*: expected an int of at least 1, got 32\.0/],
    [{ block: [8, new Float(1), 1] }, /expected an int of at least 0, got 1\.0/],
    [{ params: [{ ...X, size: new Float(4) }] }, /expected an int of at least 0, got 4\.0/],
    [{ params: [{ ...X, at: [0, new Float(1)] }] }, /has the place \[0, 1\.0\]/],
  ]) {
    const types = known.params ? [HANDLE] : [];
    assert.match(functionOf(types, known).error.message, reason);
  }
  const { subgroup, extra } = functionOf([], { subgroup: 32, later: [7, { n: -1 }] }).interface;
  assert.deepEqual([subgroup, JSON.stringify(extra)], [32, '{"later":[7,{"n":-1}]}']);
});

/** Return a webgpu module with these functions, as a record. */
function webgpu(functions, rank = 0) {
  const bytes = moduleBytes(functions, { k: text(4) });
  return record(bytes, {
    kind: "webgpu",
    format: "wgsl",
    functions: Object.keys(functions),
    rank,
  });
}

/** A device that has features and limits, and nothing else. */
const DEVICE = {
  createShaderModule() {},
  features: new Set(["lately"]),
  limits: {},
  lost: new Promise(() => {}),
};

const NEWER = { needs: ["accel", "fp16"], params: [{ ...X, kind: "tree" }] };
const LATER = [
  { params: [{ ...X, kind: "tree" }] },
  { params: [{ ...X, access: "atomic" }] },
  { params: [{ ...X, type: "float4_later" }] },
  { params: [{ name: "n", kind: "scalar", type: "int32", default: { sum: ["n", 1] } }] },
  { params: [] }, // as many values as the function has types
  { shared_memory: { per_thread: 4, bytes: 16 } },
  { tune: {} },
];

test("a newer function is listed, and its use names the need", async () => {
  for (const known of LATER) {
    const newer = ["k", [HANDLE], [], [], { params: [X], ...known, needs: ["accel"] }];
    const { modules } = await open(fileOf([{ modules: [webgpu({ f: newer, g: FUNCTION })] }]));
    const functions = await modules[0].functions();
    assert.deepEqual([...functions.keys()], ["f", "g"]);
    assert.deepEqual(functions.get("f").argTypes, ["handle"]);
    const reason = /^the webgpu function 'f' needs 'accel', which a newer devmod-webgpu reads$/;
    await refused(modules[0].getFunction("f"), reason);
    assert.equal(functions.get("g").error, undefined);
  }
});

test("without an unknown need an interface of tomorrow is damage of one function", async () => {
  for (const needs of [[], ["fp16", "tuned", "repeat"], ["accel", 7], "accel"]) {
    const damaged = ["k", [HANDLE], [], [], { ...NEWER, needs }];
    const { modules } = await open(fileOf([{ modules: [webgpu({ g: FUNCTION, f: damaged })] }]));
    const functions = await modules[0].functions();
    assert.deepEqual([...functions.keys()], ["g", "f"]);
    assert.equal(functions.get("g").error, undefined);
    await refused(
      modules[0].getFunction("f"),
      /^the bytes of the webgpu module: fmap of 'f', inter/,
    );
  }
});

test("an error of a function has its own name, also if equal ones come before", () => {
  const damaged = ["k", [HANDLE], [], [], { params: [{ ...X, kind: "tree" }] }];
  const other = ["k", [HANDLE], [], [], { params: [] }];
  const bytes = moduleBytes({ a: damaged, b: damaged, c: other, d: ["e", ...other.slice(1)] }, {});
  const errors = [...decode("webgpu", bytes).functions].map(([, { error }]) => error.message);
  for (const [at, name] of ["a", "b", "c", "d"].entries())
    assert.match(errors[at], new RegExp(`fmap of '${name}', interface: `));
  assert.match(errors[2], /the function 'k' has 1 arg_types and an interface of 0 values/);
  assert.match(errors[3], /the function 'e' has 1 arg_types and an interface of 0 values/);
});

test("another candidate is chosen in place of a newer function, and of one with an unknown need", async () => {
  const needing = (...needs) => ["k", [HANDLE], [], [], { params: [X], needs }];
  const functions = [["k", [HANDLE], [], [], NEWER], needing("later"), needing("fp64")];
  const modules = functions.map((each, rank) => webgpu({ f: each }, rank));
  const bundle = await open(fileOf([{ modules }]));
  await assert.rejects(bundle.getFunction("f", { device: DEVICE }), ({ name, message }) => {
    assert.equal(name, "DeviceNotFoundError");
    const reasons = [
      "the webgpu function 'f' needs 'accel', which a newer devmod-webgpu reads",
      "needs 'later', which neither this devmod-webgpu nor this device has: take a newer devmod-webgpu",
      "needs fp64, which this device does not have",
    ].map((each) => `webgpu wgsl ('f'): ${each}`);
    assert.equal(
      message,
      `the webgpu function 'f' cannot run on this device: ${reasons.join("; ")}`,
    );
    return true;
  });
  const known = (needs) => unmetNeeds({ needs, subgroup: null }, DEVICE);
  assert.equal(known(["lately", "tuned", "images"]), "");
});

test("a program with an unknown need is refused by its name, whatever its declarations are", async () => {
  const declaration = { ...X, role: "mirror", shape: ["n"] };
  for (const [kind, needs, reason] of [
    [
      "tree",
      ["warp"],
      /1\. webgpu: the program 'p' needs 'warp', which a newer devmod-webgpu reads/,
    ],
    ["buffer", ["warp"], /1\. webgpu: it needs 'warp', which a newer devmod-webgpu has/],
    ["tree", ["repeat"], /^the bytes of the program module: fmap of 'p', interface: the parameter/],
    ["buffer", ["repeat"], /^the program 'p': the declaration of 'x' is invalid/],
  ]) {
    const known = { params: [{ ...declaration, kind }], needs, kernels: [] };
    const bytes = moduleBytes("steps1", { p: ["p", [HANDLE], [], [], known] }, { p: text(4) });
    const fields = { kind: "program", format: "steps1", functions: ["p"], rank: 0, imports: [1] };
    const kernels = webgpu({ f: FUNCTION });
    delete kernels.rank;
    const bundle = await open(fileOf([{ modules: [record(bytes, fields), kernels] }]));
    await assert.rejects(bundle.getFunction("p", { device: DEVICE }), ({ message }) => {
      assert.match(message, reason);
      return true;
    });
  }
});

test("the needs that are known are those of the documentation", () => {
  const page = readFileSync(
    new URL("../../../../docs/arrays-and-devices.md", import.meta.url),
    "utf8",
  );
  const table = /\| name \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)/.exec(page)[1];
  const names = [...table.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell]) => cell.match(/\w+/g));
  assert.ok(names.length > 7);
  assert.deepEqual(unknownNeeds(["later", ...names, "tuned", "repeat", "accel", "later"]), [
    "accel",
    "later",
  ]);
});

/** The variants of a tuned function with the arguments x and n, and changes of them. */
const TUNE = {
  constants: ["BLOCK", "MODE"],
  variants: [{ values: [64, "fast"] }, { values: [128, "fast"] }, { values: [64, true] }],
  sizes: ["n"],
  grid: [["ceildiv", "n", "BLOCK"]],
  specialized: true,
};
const N = { name: "n", kind: "scalar", type: "int64", at: [0, 4] };
const tuned = (tune, known = {}) =>
  functionOf([HANDLE, [0, 64, 1]], { params: [X, N], needs: ["tuned"], ...known }, tune);
const variants = (tune) => [...variantsOf("f", tuned({ ...TUNE, ...tune }))];
const values = (...lists) => ({ variants: lists.map((each) => ({ values: each })), grid: null });

test("a tuned function has its variants in an item of its own", () => {
  const [first, second, third] = variants({});
  assert.deepEqual({ ...first.set }, { BLOCK: 64, MODE: "fast" });
  assert.deepEqual([...second.numbers], [["BLOCK", 128n]]);
  assert.deepEqual({ ...third.set }, { BLOCK: 64, MODE: true });
  const { needs, extra } = first.info.interface;
  assert.deepEqual([needs, Object.keys(extra)], [[], []]);
  const both = functionOf([], { needs: ["tuned"], tune: TUNE }, TUNE).error;
  assert.match(both.message, /the interface has the key 'tune', which is an item of the function/);
  assert.throws(() => functionOf([], {}, []), /fmap of 'f', tune: expected a map, found an array/);
  assert.throws(() => functionOf([], {}, {}, 1), /expected an array of 4 to 6, found one of 7/);
});

test("all variants of a tuned function are checked at its use", () => {
  const own = { params: [X, N], block: [8, 1, 1] };
  for (const [changes, reason] of [
    [values([1, 2], [1, 2]), /two variants have equal values/],
    [values([1, 2], [true, new Float(2)]), /two variants have equal values/],
    [values([1, new Float(-0)], [1, false]), /two variants have equal values/],
    [values([1, 2], [1, null]), /a constant has the value None; expected a boolean/],
    [values([1, 2], [1, 2n ** 63n]), /a constant has the value 9223372036854775808; expected/],
    [values([1, 2], [1, new Float(Infinity)]), /a constant has the value Infinity; expected/],
    [values([1, 2], [1]), /a variant has 1 values for 2 constants/],
    [{ sizes: ["x"] }, /the sizes of a tuned function: unknown name 'x'; expected one of 'n'/],
    [{ sizes: ["n", "n"] }, /the sizes of a tuned function are \['n', 'n'\]; expected at most 16/],
    [{ sizes: null }, /the sizes of a tuned function are None; expected at most 16/],
    [{ constants: ["BLOCK", "a b"] }, /different identifiers/],
    [{ grid: ["MODE"] }, /unknown name 'MODE'; expected one of 'BLOCK', 'n'/],
    [{ grid: [new Float(2)] }, /has a value that is no integer expression/],
    [{ ...values([new Float(2), 1], [3, 1]), grid: ["BLOCK"] }, /unknown name 'BLOCK'/],
    [
      { grid: null, variants: [{ values: [1, 2] }, { values: [1, 3], grid: [1] }] },
      /some variants have a grid, and others have none/,
    ],
    [{ variants: [{ values: [1, 2] }, { values: [1, 3], block: [0.5] }] }, /no integer expression/],
  ]) {
    const function_ = tuned({ ...TUNE, ...changes });
    assert.throws(() => variantsOf("f", function_).next(), reason);
  }
  for (const [changes, reason] of [
    [{ interface: 7 }, /an interface is a map with string keys, not int/],
    [{ interface: { params: [X] } }, /has other parameters than the function/],
    [{ block: [["-", "BLOCK", 64]] }, /the block is 0; expected at least 1/],
  ]) {
    const all = [{ values: [32, 1] }, { values: [64, 1], ...changes }];
    assert.throws(() => variants({ variants: all }), reason);
  }
  const [first] = variants({ ...values([1, 2], [1, new Float(2.5)]), block: null });
  assert.deepEqual(first.info.interface.block, null);
  const [other] = variants({ variants: [{ values: [1, 2], interface: own }] });
  assert.deepEqual(other.info.interface.block, [8, 1, 1]);
});

test("the arrays and maps of tune have a limit of their own", () => {
  const many = Array.from({ length: 1024 }, (_, at) => ({ values: [at, 1] }));
  assert.equal(variants({ variants: many, grid: null }).length, 1024);
  const reason = /fmap of 'f', tune: more than \d+ arrays and maps in values of any type, too many/;
  const empty = new Raw(Buffer.from([0xdc, 0x03, 0xe8, ...Array(1000).fill(0x90)])); // 1,000 of them
  const tune = (size) => ({ later: empty, pad: text(size) });
  const least = (1000 + 2) * 4 - moduleBytes(tune(0)).length;
  assert.equal(tuned(tune(least)).error, undefined);
  assert.throws(() => tuned(tune(least - 1)), reason);
  // The rest of the module does not count.
  const beside = { f: ["k", [], [], [], {}, tune(0)] };
  assert.throws(() => decode("webgpu", moduleBytes(beside, { k: text(9000) })), reason);
  const known = { later: [empty] };
  const both = moduleBytes({ f: ["k", [], [], [], known, tune(least)] }, {});
  assert.equal(decode("webgpu", both).functions.size, 1);
});

test("unknown needs of a tuned function come before its variants", async () => {
  const known = { params: [X], needs: ["later", "tuned"] };
  const functions = { f: ["k", [HANDLE], [], [], known, { "variants of tomorrow": 1 }] };
  const [module] = (await open(fileOf([{ modules: [webgpu(functions)] }]))).modules;
  const using = module.getFunction("f", { device: DEVICE });
  await assert.rejects(
    using,
    /needs 'later', which neither this devmod-webgpu nor this device has/,
  );
});
