// A module's bytes: a sequence of msgpack objects, one for each field of its kind. docs/formats.md has the layout.

import { joined } from "./bytes.js";
import { dtypeName } from "./dtypes.js";
import { FormatError, listNames, repr, quoteName } from "./errors.js";
import { readInterface } from "./interface.js";
import { Reader } from "./msgpack.js";
import { readShaders, repeatedSize } from "./repeats.js";
import { tuple } from "./texels.js";

/** @import { DType } from "./dtypes.js" */
/** @import { Interface } from "./interface.js" */
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

/**
 * The description of a function in the fmap.
 * @typedef {object} FunctionInfo
 * @property {string} name The entry point.
 * @property {string[]} argTypes
 * @property {string[]} launchParamTags
 * @property {number[]} argExtraTags
 * @property {Interface | null} interface
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
  const known = { 4: [], 5: [] };
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
        result.functions = reader.readPairs((name) =>
          readInfo(reader, `fmap of ${quoteName(name)}`, known),
        );
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

/** @typedef {Record<4 | 5, { bytes: Uint8Array, containers: number, result: Omit<FunctionInfo, "name"> }[]>} Known */

/**
 * @param {Reader} reader
 * @param {string} subject
 * @param {Known} known The cached arguments of earlier functions, by the number of fields.
 * @returns {FunctionInfo}
 */
function readInfo(reader, subject, known) {
  const start = reader.at;
  reader.field = subject;
  const count = reader.readArray();
  if (count !== 4 && count !== 5)
    throw reader.error(`expected an array of 4 or 5, found one of ${count}`, start);
  reader.field = `${subject}, name`;
  const name = reader.readStr();
  // An array of four fields may begin like one of five, so they are cached separately.
  return {
    name,
    ...reader.shared(known[count], () => readArguments(reader, subject, name, start, count === 5)),
  };
}

/**
 * @param {Reader} reader
 * @param {string} subject
 * @param {string} name
 * @param {number} start
 * @param {boolean} fifth Whether the function has an interface.
 * @returns {Omit<FunctionInfo, "name">}
 */
function readArguments(reader, subject, name, start, fifth) {
  reader.field = `${subject}, arg_types`;
  const argTypes = reader.readList(() => dtypeName(readDtype(reader)));
  reader.field = `${subject}, launch_param_tags`;
  const launchParamTags = reader.readList(() => reader.readStr());
  reader.field = `${subject}, arg_extra_tags`;
  const argExtraTags = reader.readList(() => reader.readInt(-(2 ** 31), 2 ** 31 - 1));
  reader.field = `${subject}, interface`;
  const refuse = (/** @type {string} */ problem) => reader.error(problem, start);
  const found = fifth ? readInterface(reader.readMapObject(), refuse) : null;
  const values =
    found?.params.reduce((count, { pack }) => count + (pack.length || 1), 0) ?? argTypes.length;
  if (values !== argTypes.length)
    throw refuse(
      `the function ${repr(name)} has ${argTypes.length} arg_types and an interface of ${values} values`,
    );
  return { argTypes, launchParamTags, argExtraTags, interface: found };
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
  return `${found} bytes for ${type} of shape ${tuple(shape)}, which takes ${size}`;
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
