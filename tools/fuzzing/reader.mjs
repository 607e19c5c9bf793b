// Reads what tools/fuzzing/javascript.py sends: lengths of a kind and of the bytes, the kind ("" for a bundle), the bytes. Answers a line of JSON. For the
// kind "*" the answer has all that is read of a bundle, for differential.py.

import { FormatError, open } from "../../extras/browser/js/src/index.js";
import { DevmodError, NewerError } from "../../extras/browser/js/src/errors.js";
import { evaluate, ExpressionError, namesIn } from "../../extras/browser/js/src/expressions.js";
import { Index } from "../../extras/browser/js/src/pages.js";
import { checkNames } from "../../extras/browser/js/src/programchecks.js";
import { readProgram } from "../../extras/browser/js/src/programs.js";
import { sourceOf } from "../../extras/browser/js/src/source.js";
import { variantsOf } from "../../extras/browser/js/src/tuning.js";
import { decode } from "../../extras/browser/js/src/wire.js";

/** Throw the error of the first function that is damaged. Python lists newer ones. */
function use(functions) {
  for (const { error } of functions.values()) if (error && !(error instanceof NewerError)) throw error;
}

async function read(kind, data) {
  if (kind) {
    use(decode(kind, data)?.functions ?? new Map());
    return "";
  }
  const bundle = await (await open(data)).readAll();
  const compressed = [];
  for (const module of bundle.modules) {
    if (module.offset === null) continue;
    const readings = [() => module.bytes(), async () => use(await module.functions()), () => module.sources()];
    for (const reading of readings) {
      await reading().catch((error) => {
        if (!(error instanceof FormatError && error.message.includes(" compressed with zstd, which browsers"))) throw error;
        compressed.push(error.message);
      });
    }
  }
  return compressed.join("\n");
}

const ARGUMENTS = new Map([
  ["n", 1000n],
  ["m", 5n],
]);

/** Return what a call returns; null if it throws an error of a class. */
function attempt(act, Type = DevmodError) {
  try {
    return act();
  } catch (error) {
    if (error instanceof Type) return null;
    throw error;
  }
}

function gridOf({ grid, numbers }) {
  const values = new Map([...ARGUMENTS, ...numbers]);
  if (!grid.flatMap(namesIn).every((name) => values.has(name))) return null;
  const sizes = attempt(() => grid.map((each) => evaluate(each, values)), ExpressionError);
  return sizes?.some((size) => size < 0n) ? null : sizes;
}

/** Return the variants of a function up to the first that is refused, which is null. */
function readVariants(name, info) {
  const found = [];
  if (!info.interface || info.interface.extra.tune === undefined) return found;
  const variants = variantsOf(name, info);
  for (;;) {
    const next = attempt(() => variants.next());
    if (next?.done) return found;
    if (!next) return [...found, null];
    const { set, info: own } = next.value;
    found.push({ set, grid: gridOf(next.value), threads: own.interface.block, own: own.interface });
  }
}

function readPrograms(name, info, shaders) {
  return attempt(() => {
    const program = readProgram(name, info, shaders.get(name));
    checkNames(program);
    return program.kernels;
  });
}

async function readContents(module) {
  const contents = await module.contents();
  await module.sources();
  const bytes = Buffer.from(await module.bytes()).toString("hex");
  if (!contents) return { bytes };
  const infos = [];
  for (const [name, info] of contents.functions) {
    const kernels = module.kind === "program" && !info.error ? readPrograms(name, info, contents.shaders) : [];
    const newer = info.error instanceof NewerError;
    infos.push({ ...info, newer, error: Boolean(info.error) && !newer, variants: readVariants(name, info), kernels });
  }
  const constants = {};
  for (const name of ["c", "d"])
    if (contents.constants.has(name)) constants[name] = { ...(await module.constant(name)), name };
  return { bytes, fmt: contents.format, infos, codes: contents.code ? [contents.code] : [...contents.shaders.values()], constants };
}

/** Return what is read of a bundle: its records, each with the contents of its bytes. */
async function readWhole(data) {
  const records = await (await Index.open(await sourceOf(data, {}))).readAll();
  const found = records.map((record, number) => ({ ...record, number }));
  for (const module of (await (await open(data)).readAll()).modules) {
    if (module.offset === null || module.features.length) continue;
    const record = found[module.number];
    try {
      Object.assign(record, await readContents(module));
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      const isUnsupported = error.message.includes(" compressed with zstd, which browsers") || error.message.includes("which a newer devmod-webgpu reads");
      if (!isUnsupported) throw error;
      record.unsupported = true;
    }
  }
  return found;
}

/** JSON has no other numbers, and no bytes. */
function toJson(_, value) {
  if (typeof value === "bigint") return Number(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value;
}

async function answer(kind, data) {
  try {
    if (kind === "*") return { ok: true, message: "", records: await readWhole(data) };
    return { ok: true, message: await read(kind, data) };
  } catch (error) {
    return { error: error instanceof FormatError ? "FormatError" : (error?.constructor?.name ?? typeof error), message: String(error?.message ?? error) };
  }
}

let held = Buffer.alloc(0);
for await (const chunk of process.stdin) {
  held = Buffer.concat([held, chunk]);
  while (held.length >= 8) {
    const [head, size] = [held.readUInt32LE(0), held.readUInt32LE(4)];
    if (held.length < 8 + head + size) break;
    const kind = held.subarray(8, 8 + head).toString("utf8");
    const data = Uint8Array.from(held.subarray(8 + head, 8 + head + size));
    held = held.subarray(8 + head + size);
    process.stdout.write(`${JSON.stringify(await answer(kind, data), toJson)}\n`);
  }
}
