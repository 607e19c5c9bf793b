// A module's bytes: a sequence of msgpack objects, one for each field of its kind. docs/formats.md has the layout.

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
 * The contents of a module's bytes. `code` is the payload; `shaders` are the payloads of a kind with several.
 * @typedef {object} Contents
 * @property {string} format
 * @property {Map<string, FunctionInfo>} functions
 * @property {Uint8Array | null} code
 * @property {Map<string, Uint8Array>} shaders
 * @property {Map<string, Constant>} constants
 * @property {Map<string, string[]>} symbols
 */

/**
 * Decode a module's bytes; with `repeats`, those in a file. Return null for an unknown kind.
 * @param {string} kind
 * @param {Uint8Array} data
 * @param {Repeats} [repeats]
 * @returns {Contents | null}
 */
export function decode(kind, data, repeats = []) {
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
  reader.wholes = kind === "program";
  /** @type {Known} */
  const known = { 4: [], 5: [] };
  if (repeats.length && (kind === "const_loader" || (spec && !spec.fields.includes("shaders")))) {
    throw reader.error("repeats, which only shaders have");
  }
  if (kind === "const_loader") readConstants(reader, result);
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
 */
function readConstants(reader, result) {
  reader.field = "constants";
  result.constants = reader.readPairs((name) => {
    reader.field = `constant ${quoteName(name)}`;
    return readConstant(reader);
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
 * @returns {Constant}
 */
function readConstant(reader) {
  const start = reader.at;
  const count = reader.readArray();
  if (count !== 3)
    throw reader.error(`expected [type, shape, elements], found an array of ${count}`, start);
  const dtype = readDtype(reader);
  const shape = reader.readList(() => reader.readBig(0, MAX_INT64));
  if (shape.length > MAX_DIMENSIONS)
    throw reader.error(`${shape.length} dimensions, and the maximum is ${MAX_DIMENSIONS}`, start);
  const at = reader.at;
  const data = reader.readBin();
  const expected = sizeOf(dtype, shape);
  const type = dtypeName(dtype);
  if (BigInt(data.length) !== expected) {
    throw reader.error(
      `${data.length} bytes for ${type} of shape ${tuple(shape)}, which takes ${expected}`,
      at,
    );
  }
  return { type, shape, data };
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
