// The golden files of the project. Valid files are read; invalid files are refused with the messages of the reader in Python.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { FormatError, open } from "../src/index.js";
import { decode } from "../src/wire.js";

const GOLDEN = new URL("../../../../tests/golden/", import.meta.url);
const EXPECTED = JSON.parse(readFileSync(new URL("bad/expectations.json", GOLDEN), "utf8")).files;
const bytes = (name) => readFileSync(new URL(name, GOLDEN));

/** The end of the error for compressed bytes. */
const COMPRESSED =
  " compressed with zstd, which browsers cannot decompress. Write the file without compression: " +
  "devmod bundle kernels.devmod -o plain.devmod --compress none. HTTP compresses it on the way, if the page opens the whole " +
  "response: await open(await (await fetch(url)).blob())";

/** Use all of a bundle: what devmod's own test of these files does. */
async function useAll(data) {
  const bundle = await (await open(data)).readAll();
  for (const module of bundle.modules) {
    if (module.offset === null) continue;
    await module.bytes();
    useFunctions(await module.functions());
    await module.sources();
  }
  return bundle;
}

/** Throw the error of the first function that cannot be used. */
function useFunctions(functions) {
  for (const { error } of functions.values()) if (error) throw error;
}

for (const [name, { javascript: wanted }] of Object.entries(EXPECTED)) {
  if (!wanted) continue; // a file of another reader
  const kind = /\.(\w+)\.bytes$/.exec(name)?.[1];
  test(`refused: ${name}`, async () => {
    const data = bytes(`bad/${name}`);
    await assert.rejects(
      async () => (kind ? useFunctions(decode(kind, data).functions) : useAll(data)),
      (error) => {
        assert.ok(error instanceof FormatError, String(error.stack));
        assert.equal(error.message, wanted);
        return true;
      },
    );
  });
}

test("the messages are those of the reader in Python", () => {
  for (const [name, { message, javascript }] of Object.entries(EXPECTED)) {
    if (!javascript) continue;
    if (javascript.endsWith(COMPRESSED)) {
      assert.match(name, /^compressed-/); // Python decompresses the bytes, and finds out that they are invalid
      continue;
    }
    // What to upgrade has another name here.
    const wanted = message
      .replace("this devmod reads", "this devmod-webgpu reads")
      .replace("pip install -U devmod-core", "take a newer devmod-webgpu");
    assert.equal(javascript, wanted);
  }
});

test("the corpus of bad files is there", () => {
  assert.ok(Object.keys(EXPECTED).filter((name) => name.endsWith(".devmod")).length > 60);
});

const FILES = ["v1"].flatMap((folder) =>
  readdirSync(new URL(`${folder}/`, GOLDEN)).map((name) => `${folder}/${name}`),
);
for (const name of FILES.filter(
  (each) => each.endsWith(".devmod") && !/(both|compressed)\.devmod$/.test(each),
)) {
  test(`read: ${name}`, async () => {
    const bundle = await useAll(bytes(name));
    assert.ok(bundle.modules.length > 0);
    for (const module of bundle.modules) {
      assert.deepEqual(
        [...(await module.functions()).keys()],
        module.kind === "npu" ? [] : [...module.functionNames],
      );
    }
  });
}

for (const [name, same] of [
  ["v1/both", "v1/sources"],
  ["v1/compressed", "v1/sources"],
  ["v1/shared-compressed", "v1/shared"],
]) {
  test(`compressed bytes are refused, and the tree is read: ${name}`, async () => {
    const [bundle, plain] = await Promise.all(
      [name, same].map((each) => open(bytes(`${each}.devmod`))),
    );
    const facts = ({ modules }) =>
      modules.map(({ kind, format, functionNames, size }) => ({
        kind,
        format,
        functionNames,
        size,
      }));
    assert.deepEqual(facts(bundle), facts(plain));
    assert.ok(plain.modules.every(({ compressed }) => !compressed));
    for (const [number, module] of bundle.modules.entries()) {
      assert.equal(module.compressed, module.offset !== null);
      if (name === "v1/both")
        assert.deepEqual(await module.sources(), await plain.modules[number].sources());
      if (!module.compressed) continue;
      assert.ok(module.storedSize < module.size);
      const subject = `the bundle in memory: the ${module.kind} module with ${module.functionNames.map((each) => `'${each}'`).join(", ")} is`;
      const refused = (error) =>
        error instanceof FormatError &&
        error.kind === module.kind &&
        error.message === subject + COMPRESSED;
      await assert.rejects(module.bytes(), refused);
      await assert.rejects(module.contents(), refused);
    }
  });
}

test("compressed sources are refused", async () => {
  const { modules } = await open(bytes("bad/compressed-sources-of-another-size.devmod"));
  const expected = `the bundle in memory: the sources of the opencl module are${COMPRESSED}`;
  await assert.rejects(
    modules[0].sources(),
    (error) => error instanceof FormatError && error.message === expected,
  );
});

test("sources beside binaries", async () => {
  const [cuda, , hexagon, opencl] = (await useAll(bytes("v1/sources.devmod"))).modules;
  assert.equal(await cuda.inspectSource(), "__global__ void add_kernel() {} // \u03bc\n");
  assert.deepEqual(
    await Promise.all(["", "cuda", "ptx"].map((format) => cuda.inspectSource(format))),
    [await cuda.inspectSource(), await cuda.inspectSource(), ""],
  );
  assert.equal(hex((await hexagon.sources()).get("bc")), "4243c0de");
  assert.equal(await hexagon.inspectSource("bc"), "");
  assert.match(await opencl.inspectSource(), /^kernel void add_kernel/);
  assert.equal((await opencl.sources()).size, 0);
});

test("equal shaders share memory, and the module's bytes repeat them", async () => {
  const { modules } = await useAll(bytes("v1/shared.devmod"));
  const holds = JSON.parse(readFileSync(new URL("v1/contents.json", GOLDEN), "utf8")).files[
    "shared.devmod"
  ].holds.nodes;
  for (const [number, module] of modules.entries()) {
    const data = await module.bytes();
    assert.equal(data.length, module.size);
    assert.ok(module.storedSize < module.size);
    const { shaders } = await module.contents();
    assert.deepEqual([...decode(module.kind, data).shaders], [...shaders]);
    const wanted = holds.filter(({ kind }) => kind !== "bundle")[number].code;
    assert.deepEqual(
      Object.fromEntries(
        [...shaders].map(([name, shader]) => [
          name,
          createHash("sha256").update(shader).digest("hex"),
        ]),
      ),
      wanted,
    );
    assert.equal(new Set(shaders.values()).size, new Set(Object.values(wanted)).size);
  }
  const [metal] = modules;
  assert.equal((await metal.inspectSource()).split("other_kernel").length, 2);
  assert.equal((await metal.inspectSource()).length, 60 * 51 + 1 + 29);
});

/** The JSON values of tests/golden/README.md, by the file that they describe. */
function documented(name) {
  const page = readFileSync(new URL("../../../../tests/golden/README.md", import.meta.url), "utf8");
  const found = new RegExp(`<!-- value: ${name} -->\n\`\`\`json\n(.*?)\n\`\`\``, "s").exec(page);
  return JSON.parse(found[1]);
}

const hex = (data) => Buffer.from(data).toString("hex");

test("tests/golden/README.md: the index of a program", async () => {
  const bundle = await open(bytes("v1/program.devmod"));
  const { roots, records } = documented("v1/program.devmod");
  assert.deepEqual(
    bundle.roots.map(({ number }) => number),
    roots,
  );
  const first = bundle.modules.find(({ offset }) => offset !== null).offset;
  for (const [number, wanted] of records.entries()) {
    const found = bundle.modules[number];
    assert.equal(found.kind, wanted.kind);
    assert.equal(found.format, wanted.format ?? "");
    assert.equal(found.variant, wanted.variant ?? "");
    assert.deepEqual([...found.functionNames], wanted.functions ?? []);
    assert.deepEqual(
      found.imports.map((child) => child.number),
      wanted.imports ?? [],
    );
    assert.deepEqual(JSON.parse(JSON.stringify(found.origin)), wanted.origin ?? null);
    if (wanted.offset === undefined) assert.equal(found.offset, null);
    else assert.deepEqual([found.offset - first, found.size], [wanted.offset, wanted.size]);
  }
});

test("tests/golden/README.md: a module's bytes", () => {
  const found = decode("webgpu", bytes("v1/webgpu.bytes"));
  const wanted = documented("v1/webgpu.bytes");
  assert.equal(found.format, wanted.format);
  const info = found.functions.get("scale");
  const { interface: interface_, ...rest } = wanted.functions.scale;
  assert.deepEqual(
    [info.name, info.argTypes, info.launchParamTags, info.argExtraTags],
    Object.values(rest),
  );
  assert.deepEqual(info.interface.block, interface_.block);
  assert.deepEqual(
    info.interface.blocks,
    interface_.blocks.map((each) => ({ name: "", ...each })),
  );
  assert.equal(info.interface.extra.unknown, true);
  assert.deepEqual(
    info.interface.params.map(({ name, kind, type, access, at }) => ({
      name,
      kind,
      type,
      access,
      at,
    })),
    [
      { name: "x", kind: "buffer", type: "float32", access: "rw", at: [0, 1] },
      { name: "n", kind: "scalar", type: "uint32", access: "", at: [0, 4] },
    ],
  );
  assert.equal(hex(found.shaders.get("scale")), wanted.code.scale);
});

test("tests/golden/README.md: constants", () => {
  const found = decode("const_loader", bytes("v1/const_loader.bytes"));
  const wanted = documented("v1/const_loader.bytes");
  for (const [name, { type, shape, data }] of Object.entries(wanted.constants)) {
    const constant = found.constants.get(name);
    assert.deepEqual([constant.type, constant.shape, hex(constant.data)], [type, shape, data]);
  }
  assert.deepEqual(Object.fromEntries(found.symbols), wanted.symbols);
});

test("every prefix of a good file is refused, and every flipped byte of its head", async () => {
  const whole = bytes("v1/tree.devmod");
  // One check refuses those that end behind the head.
  for (let size = 0; size < whole.length; size += size < 48 + 65 + 727 ? 1 : 29)
    await assert.rejects(useAll(whole.subarray(0, size)), FormatError);
  for (let at = 0; at < 48 + 65 + 727; at++) {
    const flipped = Uint8Array.from(whole);
    flipped[at] ^= 1 << (at % 8);
    await assert.rejects(useAll(flipped), FormatError, `byte ${at}`);
  }
});

test("functions that take the same are read alike, and those with an interface apart from those without", () => {
  const same = Buffer.from([0x90]); // an empty array
  const str = (text) => Buffer.concat([Buffer.from([0xa0 | text.length]), Buffer.from(text)]);
  const plain = (name) =>
    Buffer.concat([str(name), Buffer.from([0x94]), str("e"), same, same, same]);
  const known = (name, block) =>
    Buffer.concat([
      str(name),
      Buffer.from([0x95]),
      str("e"),
      same,
      same,
      same,
      Buffer.from([0x81]),
      str("block"),
      block,
    ]);
  const one = Buffer.from([0x93, 1, 2, 3]);
  const functions = [
    plain("a"),
    known("b", one),
    plain("c"),
    known("d", one),
    known("e", Buffer.from([0x93, 4, 5, 6])),
  ];
  const found = decode(
    "webgpu",
    Buffer.concat([Buffer.from([0x85]), ...functions, Buffer.from([0x80])]),
  ).functions;
  assert.deepEqual(
    [...found.values()].map((info) => info.interface?.block ?? null),
    [null, [1, 2, 3], null, [1, 2, 3], [4, 5, 6]],
  );
});

test("a parameter of no known kind, or with another access", () => {
  const same = Buffer.from([0x90]); // an empty array
  const str = (text) => Buffer.concat([Buffer.from([0xa0 | text.length]), Buffer.from(text)]);
  const types = Buffer.from([0x91, 0x93, 3, 64, 1]);
  const param = (key, value) =>
    Buffer.concat([
      Buffer.from([0x83]),
      str("name"),
      str("x"),
      str("kind"),
      key === "kind" ? value : str("buffer"),
      str("access"),
      key === "access" ? value : str(""),
    ]);
  const module = (key, value) =>
    Buffer.concat([
      Buffer.from([0x81]),
      str("f"),
      Buffer.from([0x95]),
      str("e"),
      types,
      same,
      same,
      Buffer.from([0x81]),
      str("params"),
      Buffer.from([0x91]),
      param(key, value),
      Buffer.from([0x80]),
    ]);
  const where = "the bytes of the webgpu module: fmap of 'f', interface: the parameter 'x' has ";
  for (const [key, value, text] of [
    [
      "kind",
      str("bufer"),
      "the kind 'bufer'; a kind is one of buffer, scalar, uniform, local, image, sampler, at byte 3",
    ],
    [
      "kind",
      Buffer.from([7]),
      "the kind 7; a kind is one of buffer, scalar, uniform, local, image, sampler, at byte 3",
    ],
    ["access", str("x"), "the access 'x'; an access is 'r', 'w', 'rw' or '', at byte 3"],
    [
      "access",
      Buffer.from([0xc0]),
      "the access None; an access is 'r', 'w', 'rw' or '', at byte 3",
    ],
  ]) {
    assert.throws(
      () => useFunctions(decode("webgpu", module(key, value)).functions),
      (error) => error instanceof FormatError && error.message === where + text,
      text,
    );
  }
});

test("an error shows nothing of a file that drives a terminal, whatever part of a message it is", async () => {
  const index = Buffer.from([0x81, 0xa6, ...Buffer.from("\x1b[2J\u009b"), 0xc1]);
  const head = Buffer.concat([
    Buffer.from([0x89]),
    Buffer.from("devmod\n"),
    Buffer.from([6, 0, 0, 0, index.length, 0, 0, 0]),
  ]);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", index));
  const data = Buffer.concat([head, digest, index, Buffer.alloc(64)]);
  await assert.rejects(useAll(data), (error) => {
    assert.ok(error instanceof FormatError);
    assert.match(error.message, /: \\x1b\[2J\\x9b: /);
    assert.doesNotMatch(error.message, /[\x00-\x1f\x7f-\x9f]/);
    return true;
  });
});

const LATER = JSON.parse(readFileSync(new URL("later/expectations.json", GOLDEN), "utf8")).files;
for (const [name, { javascript: wanted }] of Object.entries(LATER)) {
  test(`of a later devmod: ${name}`, async () => {
    const bundle = await (await open(bytes(`later/${name}`))).readAll();
    assert.deepEqual(
      bundle.modules.map(({ kind, functionNames }) => ({ kind, functions: [...functionNames] })),
      wanted.map(({ kind, functions }) => ({ kind, functions })),
    );
    for (const [number, { kind, error, sources, newer = {}, damaged = {} }] of wanted.entries()) {
      const module = bundle.modules[number];
      const refused = (text) => (found) => found instanceof FormatError && found.message === text;
      if (error) {
        await assert.rejects(module.bytes(), refused(error));
        if (module.features.length) assert.equal((await module.functions()).size, 0);
      }
      if (sources) await assert.rejects(module.sources(), refused(sources));
      if (error || kind === "bundle") continue;
      await module.bytes();
      if (kind === "program") continue; // its functions are read when one is used
      for (const [key, info] of await module.functions())
        assert.equal(info.error?.message, newer[key] ?? damaged[key]);
    }
  });
}

test("a constant of a file is read alone, and the bytes of its module have it in its place", async () => {
  const { modules } = await open(bytes("v1/constants.devmod"));
  const loader = modules.find(({ functionNames }) => functionNames.includes("all"));
  const { constants } = await loader.contents();
  assert.deepEqual(
    [...constants].map(([name, { data, part }]) => [name, data, part]),
    [
      ["i", null, 0],
      ["twice", null, 1],
      ["w", null, 2],
    ],
  );
  const { type, shape, data } = await loader.constant("w");
  assert.deepEqual([type, shape, data.length], ["float32", [32, 32], 4096]);
  assert.deepEqual(new Float32Array(data.slice().buffer).slice(0, 3), new Float32Array([0, 1, 2]));
  assert.equal(await loader.constant("other"), null);
  const whole = decode("const_loader", await loader.bytes());
  for (const name of ["i", "twice", "w"])
    assert.deepEqual(whole.constants.get(name).data, (await loader.constant(name)).data);
});
