// A module's bytes: a sequence of msgpack objects, one for each field of its kind. docs/formats.md has the layout.

import { joined } from "./bytes.js";
import { unknownNeeds } from "./checks.js";
import { dtypeName } from "./dtypes.js";
import { bytesText, FormatError, listNames, NewerError, quoteName, repr } from "./errors.js";
import { readInterface } from "./interface.js";
import { Reader, TOO_DEEP } from "./msgpack.js";
import { readShaders, repeatedSize } from "./repeats.js";
import { tuple } from "./texels.js";

/** @import { DType } from "./dtypes.js" */
/** @import { Interface } from "./interface.js" */
/** @import { Value } from "./msgpack.js" */
/** @import { Repeats } from "./repeats.js" */

/** The known kinds: their fields, their default format, and their formats that are text. */
/** @type {Record<string, { fields: string[], format: string, text: string[] }>} */
const KINDS = {
  cuda: { fields: ["fmt", "fmap", "code"], format: "cuda", text: ["cuda", "ptx"] },
  rocm: { fields: ["fmt", "fmap", "code"], format: "hsaco", text: ["hip"] },
  opencl: { fields: ["fmt", "fmap", "code"], format: "cl", text: ["cl"] },
  hexagon: { fields: ["fmt", "fmap", "code"], format: "so", text: [] },
  metal: { fields: ["fmt", "fmap", "shaders"], format: "metal", text: ["metal"] },
  vulkan: { fields: ["fmt", "fmap", "shaders"], format: "spv", text: [] },
  webgpu: { fields: ["fmap", "shaders"], format: "wgsl", text: ["wgsl"] },
  program: { fields: ["fmt", "fmap", "shaders"], format: "steps1", text: [] },
};
const MAX_INT64 = 2n ** 63n - 1n;
const MAX_DIMENSIONS = 64;
/** The items of a function: those of TVM, and with the interface and the variants. */
const LEAST_ITEMS = 4,
  MOST_ITEMS = 6;

/**
 * The description of a function in the fmap.
 * @typedef {object} FunctionInfo
 * @property {string} name The entry point.
 * @property {string[]} argTypes
 * @property {string[]} launchParamTags
 * @property {number[]} argExtraTags
 * @property {Interface | null} interface
 * @property {FormatError} [error] Why the function cannot be used: its interface is damaged, or only a newer devmod-webgpu reads it.
 */
/**
 * A named tensor of a const_loader module: its type, shape, and elements in C order, little-endian.
 * @typedef {{ type: string, shape: (number | bigint)[], data: Uint8Array }} Constant
 */
/**
 * A constant in the bytes of a file: its elements, or null with the position of the part that has them. `size` is that of the elements, and `start` and `end`
 * are those of the elements or the position in the bytes.
 * @typedef {Omit<Constant, "data"> & { data: Uint8Array | null, part: number, size: bigint, start: number, end: number }} StoredConstant
 */
/**
 * The contents of a module's bytes. `code` is the payload; `shaders` are the payloads of a kind with several.
 * @typedef {object} Contents
 * @property {string} format
 * @property {Map<string, FunctionInfo>} functions
 * @property {Uint8Array | null} code
 * @property {Map<string, Uint8Array>} shaders
 * @property {Map<string, StoredConstant>} constants Those of a large file may be parts: `Module.constant` returns one.
 * @property {Map<string, string[]>} symbols
 */

/**
 * Decode a module's bytes; with `repeats` and a number of parts, those in a file. Return null for an unknown kind.
 * @param {string} kind
 * @param {Uint8Array} data
 * @param {Repeats} [repeats]
 * @param {number} [parts]
 * @returns {Contents | null}
 */
export function decode(kind, data, repeats = [], parts = 0) {
  const reader = new Reader(
    data,
    `the bytes of the ${kind} module`,
    kind,
    data.length + repeatedSize(repeats),
  );
  /** @type {Contents} */
  const result = {
    format: "",
    functions: new Map(),
    code: null,
    shaders: new Map(),
    constants: new Map(),
    symbols: new Map(),
  };
  const spec = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  reader.wholes = true;
  /** @type {Known} */
  const known = { 4: [], 5: [], 6: [] };
  if (repeats.length && (kind === "const_loader" || (spec && !spec.fields.includes("shaders")))) {
    throw reader.error("repeats, which only shaders have");
  }
  if (kind === "const_loader") readConstants(reader, result, parts);
  else {
    if (!spec) return null;
    result.format = spec.format;
    for (const field of spec.fields) {
      reader.field = field === "shaders" ? "code" : field;
      if (field === "fmt") result.format = reader.readStr();
      else if (field === "fmap")
        result.functions = reader.readPairs((name) => readInfo(reader, name, known));
      else if (field === "code") result.code = reader.readBin();
      else result.shaders = readShaders(reader, repeats);
    }
  }
  reader.finish();
  if (kind === "const_loader") checkSymbols(result);
  return result;
}

/**
 * Return the code of a module if it is text, otherwise "".
 * @param {string} kind
 * @param {Contents} contents
 */
export function sourceText(kind, contents) {
  if (!Object.hasOwn(KINDS, kind) || !KINDS[kind]?.text.includes(contents.format)) return "";
  const parts = contents.code ? [contents.code] : [...new Set(contents.shaders.values())];
  return [...new Set(parts.map((part) => new TextDecoder().decode(part)))].join("\n");
}

/**
 * Read the sources beside a module's bytes.
 * @param {Uint8Array} data
 * @param {string} subject
 * @param {string} kind
 */
export function readSources(data, subject, kind) {
  const reader = new Reader(data, subject, kind);
  /** @type {Map<string, string | Uint8Array>} */
  const sources = new Map();
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    const name = (reader.field = reader.readKey(sources));
    const start = reader.at;
    const value = reader.readValue();
    if (typeof value !== "string" && !(value instanceof Uint8Array))
      throw reader.error("expected a string or a binary", start);
    sources.set(name, value);
  }
  reader.finish();
  return sources;
}

/**
 * The fields of a function behind its name. `problem` is why its interface is invalid, and `newer` are its unknown needs. `deep` is where an
 * item is nested too deeply.
 * @typedef {Pick<FunctionInfo, "argTypes" | "launchParamTags" | "argExtraTags" | "interface"> & { problem: string, newer: string[], deep: { item: string, offset: number } | null }} Fields
 */
/** @typedef {Record<number, { bytes: Uint8Array, containers: number, result: Fields }[]>} Known */

/** What is wrong with an interface. */
class Problem extends Error {}

/**
 * @param {Reader} reader
 * @param {string} key The name that callers use.
 * @param {Known} known The cached fields of earlier functions, by the number of items.
 * @returns {FunctionInfo}
 */
function readInfo(reader, key, known) {
  const start = reader.at;
  const subject = `fmap of ${quoteName(key)}`;
  reader.field = subject;
  const count = reader.readArray();
  if (count < LEAST_ITEMS || count > MOST_ITEMS) {
    throw reader.error(
      `expected an array of ${LEAST_ITEMS} to ${MOST_ITEMS}, found one of ${count}`,
      start,
    );
  }
  reader.field = `${subject}, name`;
  const name = reader.readStr();
  const begin = reader.at;
  // An array of four items may begin like one of five, so they are cached separately.
  const fields = reader.shared(known[count] ?? [], () => readFields(reader, subject, count));
  const { problem, newer, deep, ...info } = fields;
  if (deep) {
    reader.field = `${subject}, ${deep.item}`;
    return { name, ...info, error: reader.error(TOO_DEEP, begin + deep.offset) };
  }
  const reason = problem || valuesProblem(name, info);
  if (!reason) return { name, ...info };
  reader.field = `${subject}, interface`;
  const error = newer.length ? newerError(reader.kind, key, newer) : reader.error(reason, start);
  return { name, ...info, interface: null, error };
}

/**
 * @param {Reader} reader
 * @param {string} subject
 * @param {number} count The number of items of the function.
 * @returns {Fields}
 */
function readFields(reader, subject, count) {
  const start = reader.at;
  reader.field = `${subject}, arg_types`;
  const argTypes = reader.readList(() => dtypeName(readDtype(reader)));
  reader.field = `${subject}, launch_param_tags`;
  const launchParamTags = reader.readList(() => reader.readStr());
  reader.field = `${subject}, arg_extra_tags`;
  const argExtraTags = reader.readList(() => reader.readInt(-(2 ** 31), 2 ** 31 - 1));
  reader.field = `${subject}, interface`;
  const map = count > LEAST_ITEMS ? reader.readItem() : null;
  reader.field = `${subject}, tune`;
  const tune = count === MOST_ITEMS ? reader.readTune() : null;
  if (typeof map !== "number" && typeof tune !== "number")
    return { argTypes, launchParamTags, argExtraTags, deep: null, ...readKnown(map, tune) };
  let deep = { item: "tune", offset: Number(tune) - start };
  if (typeof map === "number") deep = { item: "interface", offset: map - start };
  const none = { interface: null, problem: "", newer: [] };
  return { argTypes, launchParamTags, argExtraTags, deep, ...none };
}

/**
 * Return the interface of a function with its variants; or null, and why it is invalid.
 * @param {{ [key: string]: Value } | null} map
 * @param {{ [key: string]: Value } | null} tune
 * @returns {Pick<Fields, "interface" | "problem" | "newer">}
 */
function readKnown(map, tune) {
  if (!map) return { interface: null, problem: "", newer: [] };
  const newer = unknownNeeds(map.needs);
  const refuse = (/** @type {string} */ problem) => new Problem(problem);
  try {
    if ("tune" in map)
      throw refuse("the interface has the key 'tune', which is an item of the function");
    const found = readInterface(map, refuse);
    if (tune) found.extra.tune = tune;
    return { interface: found, problem: "", newer };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { interface: null, problem: error.message, newer };
  }
}

/**
 * Return why an interface has other values than the function; "" if it has the same.
 * @param {string} name
 * @param {Pick<FunctionInfo, "argTypes" | "interface">} info
 */
function valuesProblem(name, { argTypes, interface: known }) {
  if (!known) return "";
  const values = known.params.reduce((count, { pack }) => count + (pack.length || 1), 0);
  if (values === argTypes.length) return "";
  return `the function ${repr(name)} has ${argTypes.length} arg_types and an interface of ${values} values`;
}

/**
 * Return the error for a function with an interface that only a newer devmod-webgpu reads.
 * @param {string} kind
 * @param {string} name
 * @param {string[]} needs
 */
function newerError(kind, name, needs) {
  const subject = kind === "program" ? "the program" : `the ${kind} function`;
  return new NewerError(
    `${subject} ${quoteName(name)} needs ${listNames(needs)}, which a newer devmod-webgpu reads`,
    { kind, function: name },
  );
}

/**
 * @param {Reader} reader
 * @returns {DType}
 */
function readDtype(reader) {
  const start = reader.at;
  const count = reader.readArray();
  if (count !== 3)
    throw reader.error(`expected a type as [code, bits, lanes], found an array of ${count}`, start);
  return {
    code: reader.readInt(0, 0xff),
    bits: reader.readInt(0, 0xff),
    lanes: reader.readInt(0, 0xffff),
  };
}

// -- constants

/**
 * @param {Reader} reader
 * @param {Contents} result
 * @param {number} parts
 */
function readConstants(reader, result, parts) {
  reader.field = "constants";
  result.constants = reader.readPairs((name) => {
    reader.field = `constant ${quoteName(name)}`;
    return readConstant(reader, parts);
  });
  reader.field = "init symbols";
  result.symbols = reader.readPairs((symbol) => {
    reader.field = `init symbol ${quoteName(symbol)}`;
    result.functions.set(symbol, {
      name: symbol,
      argTypes: [],
      launchParamTags: [],
      argExtraTags: [],
      interface: null,
    });
    return reader.readList(() => reader.readStr());
  });
}

/**
 * @param {Reader} reader
 * @param {number} parts
 * @returns {StoredConstant}
 */
function readConstant(reader, parts) {
  const start = reader.at;
  const count = reader.readArray();
  if (count !== 3)
    throw reader.error(`expected [type, shape, elements], found an array of ${count}`, start);
  const dtype = readDtype(reader);
  const shape = reader.readList(() => reader.readBig(0, MAX_INT64));
  if (shape.length > MAX_DIMENSIONS)
    throw reader.error(`${shape.length} dimensions, and the maximum is ${MAX_DIMENSIONS}`, start);
  const at = reader.at;
  const size = sizeOf(dtype, shape);
  const type = dtypeName(dtype);
  if (parts && !reader.isAtBin()) {
    const part = reader.readInt(0, parts - 1);
    return { type, shape, data: null, part, size, start: at, end: reader.at };
  }
  const data = reader.readBin();
  const problem = sizeProblem(data.length, { type, shape, size });
  if (problem) throw reader.error(problem, at);
  return { type, shape, data, part: -1, size, start: at, end: reader.at };
}

/**
 * Return why a constant cannot have so many bytes; "" if it has them.
 * @param {number} found
 * @param {Pick<StoredConstant, "type" | "shape" | "size">} constant
 */
export function sizeProblem(found, { type, shape, size }) {
  if (BigInt(found) === size) return "";
  return `${bytesText(found)} for ${type} of shape ${tuple(shape)}, which takes ${size}`;
}

/**
 * Return the bytes of a module of constants with those of its parts, each as a binary in its place.
 * @param {Uint8Array} data
 * @param {Iterable<StoredConstant>} constants
 * @param {readonly Uint8Array[]} parts
 */
export function joinParts(data, constants, parts) {
  const pieces = [];
  let before = 0;
  for (const { part, start, end } of constants) {
    const found = part < 0 ? undefined : parts[part];
    if (!found) continue;
    pieces.push(data.subarray(before, start), binaryHead(found.length), found);
    before = end;
  }
  pieces.push(data.subarray(before));
  return joined(pieces);
}

/** @param {number} size */
function binaryHead(size) {
  const width = size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;
  const head = new Uint8Array(1 + width);
  head[0] = 0xc4 + (width >> 1);
  for (let at = 0; at < width; at++) head[width - at] = Math.floor(size / 256 ** at);
  return head;
}

/**
 * Return the bytes of a tensor. Elements below one byte are packed, except for TVM's bool (a uint of 1 bit), which takes a byte.
 * @param {DType} dtype
 * @param {(number | bigint)[]} shape
 */
function sizeOf({ code, bits, lanes }, shape) {
  const byte = (code === 1 && bits === 1 && lanes === 1) || (code === 3 && bits === 0); // TVM's bool, and untyped memory
  const width = byte ? 8 * lanes : bits * lanes;
  let count = 1n;
  for (const extent of shape) count *= BigInt(extent);
  return (count * BigInt(width) + 7n) / 8n;
}

/** @param {Contents} result */
function checkSymbols({ constants, symbols }) {
  for (const [symbol, names] of symbols) {
    const missing = names.filter((name) => !constants.has(name));
    if (missing.length) {
      throw new FormatError(
        `const_loader: the init symbol ${quoteName(symbol)} names constants that do not exist: ${listNames(missing)}`,
        {
          kind: "const_loader",
        },
      );
    }
  }
}
