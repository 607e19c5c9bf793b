// A module's bytes: the fields of its kind, each one msgpack object, one after the other. docs/formats.md has the layout.

import { dtypeName, parseDtype } from "./dtypes.js";
import { FormatError, quoted, repr, shown } from "./errors.js";
import { isMap } from "./head.js";
import { Reader } from "./msgpack.js";

/** @import { DType } from "./dtypes.js" */
/** @import { Value } from "./msgpack.js" */

/** The kinds whose bytes are known here: their fields, their default format, and which of their formats are text. */
/** @type {Record<string, { fields: string[], format: string, text: string[] }>} */
const KINDS = {
  cuda: { fields: ["fmt", "fmap", "code"], format: "cuda", text: ["cuda", "ptx"] },
  rocm: { fields: ["fmt", "fmap", "code"], format: "hsaco", text: ["hip"] },
  opencl: { fields: ["fmt", "fmap", "code"], format: "cl", text: ["cl"] },
  hexagon: { fields: ["fmt", "fmap", "code"], format: "so", text: [] },
  metal: { fields: ["fmt", "fmap", "shaders"], format: "metal", text: ["metal"] },
  vulkan: { fields: ["fmt", "fmap", "shaders"], format: "spv", text: [] },
  webgpu: { fields: ["fmap", "shaders"], format: "wgsl", text: ["wgsl"] },
};
const FAR = 2n ** 63n - 1n;
const MAX_DIMENSIONS = 64;
export const PARAM_KINDS = /** @type {const} */ (["buffer", "scalar", "uniform", "local", "image", "sampler"]);

/**
 * Where an argument or a block lies: an index, a pair, "push", or nothing where order is the place.
 * @typedef {number | [number, number] | "push" | null} Place
 */
/**
 * One argument of a function. `type` is that of a buffer's elements or of the scalar, "" where it is not known.
 * @typedef {object} Param
 * @property {string} name
 * @property {typeof PARAM_KINDS[number]} kind
 * @property {string} type
 * @property {"" | "r" | "w" | "rw"} access
 * @property {Place} at
 * @property {number} align
 * @property {number} least The bytes that a buffer must have at least; 0 where that is not known.
 */
/**
 * How a function takes its arguments, as reflection found it at build time. `extra` has the keys that are not known here.
 * @typedef {object} Interface
 * @property {Param[]} params
 * @property {{ at: Place, size: number }[]} blocks
 * @property {[number, number, number] | null} block
 * @property {Record<string, unknown>} extra
 */
/**
 * What is known of a function before it runs.
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
 * What a module's bytes hold. `code` is the one payload, `shaders` those of a kind with several.
 * @typedef {object} Contents
 * @property {string} format
 * @property {Map<string, FunctionInfo>} functions
 * @property {Uint8Array | null} code
 * @property {Map<string, Uint8Array>} shaders
 * @property {Map<string, Constant>} constants
 * @property {Map<string, string[]>} symbols
 */

/**
 * What is in a module's bytes; null for a kind that is not known here.
 * @param {string} kind
 * @param {Uint8Array} data
 * @returns {Contents | null}
 */
export function decode(kind, data) {
  const reader = new Reader(data, `the bytes of the ${kind} module`, kind);
  /** @type {Contents} */
  const made = { format: "", functions: new Map(), code: null, shaders: new Map(), constants: new Map(), symbols: new Map() };
  if (kind === "const_loader") readConstants(reader, made);
  else {
    const spec = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
    if (!spec) return null;
    made.format = spec.format;
    for (const field of spec.fields) {
      reader.field = field === "shaders" ? "code" : field;
      if (field === "fmt") made.format = reader.readStr();
      else if (field === "fmap") readFmap(reader, made.functions);
      else if (field === "code") made.code = reader.readBin();
      else readShaders(reader, made.shaders);
    }
  }
  reader.finish();
  if (kind === "const_loader") checkSymbols(made);
  return made;
}

/**
 * The text of a module as its kind has it: its code where that is text, else "".
 * @param {string} kind
 * @param {Contents} contents
 */
export function sourceText(kind, contents) {
  if (!Object.hasOwn(KINDS, kind) || !KINDS[kind]?.text.includes(contents.format)) return "";
  const parts = contents.code ? [contents.code] : [...contents.shaders.values()];
  return [...new Set(parts.map((part) => new TextDecoder().decode(part)))].join("\n");
}

/** @typedef {Record<4 | 5, { bytes: Uint8Array, values: number, made: Omit<FunctionInfo, "name"> }[]>} Known */

/**
 * @param {Reader} reader
 * @param {Map<string, FunctionInfo>} fmap
 */
function readFmap(reader, fmap) {
  /** @type {Known} */
  const known = { 4: [], 5: [] };
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    reader.field = "fmap";
    const name = reader.readKey(fmap);
    fmap.set(name, readInfo(reader, `fmap of ${shown(name)}`, known));
  }
}

/**
 * @param {Reader} reader
 * @param {string} where
 * @param {Known} known What functions before it have behind their names, by the number of their fields.
 * @returns {FunctionInfo}
 */
function readInfo(reader, where, known) {
  const start = reader.at;
  reader.field = where;
  const count = reader.readArray();
  if (count !== 4 && count !== 5) throw reader.error(`expected an array of 4 or 5, found one of ${count}`, start);
  reader.field = `${where}, name`;
  const name = reader.readStr();
  // What has four fields may begin as what has five, so they are remembered apart.
  return { name, ...reader.shared(known[count], () => readArguments(reader, where, name, start, count === 5)) };
}

/**
 * @param {Reader} reader
 * @param {string} where
 * @param {string} name
 * @param {number} start
 * @param {boolean} fifth Whether there is an interface.
 * @returns {Omit<FunctionInfo, "name">}
 */
function readArguments(reader, where, name, start, fifth) {
  reader.field = `${where}, arg_types`;
  const argTypes = [];
  for (let items = reader.readArray(); items > 0; items--) argTypes.push(dtypeName(readDtype(reader)));
  reader.field = `${where}, launch_param_tags`;
  const launchParamTags = [];
  for (let items = reader.readArray(); items > 0; items--) launchParamTags.push(reader.readStr());
  reader.field = `${where}, arg_extra_tags`;
  const argExtraTags = [];
  for (let items = reader.readArray(); items > 0; items--) argExtraTags.push(reader.readInt(-(2 ** 31), 2 ** 31 - 1));
  reader.field = `${where}, interface`;
  const refuse = (/** @type {string} */ problem) => reader.error(problem, start);
  const found = fifth ? readInterface(reader.readMapObject(), refuse) : null;
  if (found && found.params.length !== argTypes.length) {
    throw refuse(`the function ${repr(name)} has ${argTypes.length} arg_types and an interface of ${found.params.length} params`);
  }
  return { argTypes, launchParamTags, argExtraTags, interface: found };
}

/**
 * @param {Reader} reader
 * @returns {DType}
 */
function readDtype(reader) {
  const start = reader.at;
  const count = reader.readArray();
  if (count !== 3) throw reader.error(`expected a type as [code, bits, lanes], found an array of ${count}`, start);
  return { code: reader.readInt(0, 0xff), bits: reader.readInt(0, 0xff), lanes: reader.readInt(0, 0xffff) };
}

/**
 * @param {Reader} reader
 * @param {Map<string, Uint8Array>} shaders
 */
function readShaders(reader, shaders) {
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    const name = reader.readKey(shaders);
    shaders.set(name, reader.readBin());
  }
}

// -- the interface

/** @typedef {(problem: string) => FormatError} Refuse */

/**
 * @param {{ [key: string]: Value }} map
 * @param {Refuse} refuse
 * @returns {Interface}
 */
function readInterface(map, refuse) {
  const { params = [], blocks = [], block = null, ...extra } = map;
  if (!Array.isArray(params) || !Array.isArray(blocks)) throw refuse("the params and blocks of an interface are lists");
  /** @type {[number, number, number] | null} */
  let fixed = null;
  if (block !== null) {
    if (!Array.isArray(block) || block.length !== 3) throw refuse("a fixed block of threads is three numbers");
    fixed = /** @type {[number, number, number]} */ (block.map((count) => counted(count, "a fixed block of threads", refuse)));
  }
  return {
    params: params.map((param) => readParam(param, refuse)),
    blocks: blocks.map((entry) => readBlock(entry, refuse)),
    block: fixed,
    extra,
  };
}

/**
 * @param {Value} value
 * @param {Refuse} refuse
 * @returns {Param}
 */
function readParam(value, refuse) {
  if (!isMap(value)) throw refuse("a parameter is a map with string keys");
  for (const key of ["name", "kind"]) if (!(key in value)) throw refuse(`a parameter has no '${key}'`);
  const { name, kind, type = "", access = "", at = null, align = 0, least = 0 } = value;
  if (typeof name !== "string") throw refuse("a parameter's name is a string");
  const where = `the parameter ${shown(name)}`;
  if (typeof kind !== "string" || !PARAM_KINDS.includes(/** @type {Param["kind"]} */ (kind))) {
    const given = typeof kind === "string" ? `the kind ${shown(kind)}` : "a kind that is no string";
    throw refuse(`${where} has ${given}; a kind is one of ${PARAM_KINDS.join(", ")}`);
  }
  if (access !== "" && access !== "r" && access !== "w" && access !== "rw") {
    const given = typeof access === "string" ? `the access ${shown(access)}` : "an access that is no string";
    throw refuse(`${where} has ${given}; an access is 'r', 'w', 'rw' or ''`);
  }
  if (typeof type !== "string") throw refuse(`${where} has a type that is not a string`);
  if (type && !parseDtype(type)) throw refuse(`${shown(type)} is not a type`);
  return {
    name,
    kind: /** @type {Param["kind"]} */ (kind),
    type,
    access,
    at: readPlace(at, where, refuse),
    align: counted(align, `the alignment of ${where}`, refuse),
    least: isCount(least) ? Number(least) : 0, // a key that core's reader does not know, so nothing of it is refused here
  };
}

/**
 * @param {Value} value
 * @param {Refuse} refuse
 */
function readBlock(value, refuse) {
  if (!isMap(value)) throw refuse("a block is a map with string keys");
  for (const key of ["at", "size"]) if (!(key in value)) throw refuse(`a block has no '${key}'`);
  return { at: readPlace(value.at, "a block", refuse, true), size: counted(value.size, "the size of a block", refuse) };
}

/**
 * @param {unknown} at
 * @param {string} where
 * @param {Refuse} refuse
 * @param {boolean} [push]
 * @returns {Place}
 */
function readPlace(at, where, refuse, push = false) {
  if (at === null || (push && at === "push")) return at;
  const parts = Array.isArray(at) ? at : [at];
  if ((!Array.isArray(at) || at.length === 2) && parts.every(isCount)) {
    const [first, second] = parts.map(Number);
    return /** @type {Place} */ (Array.isArray(at) ? [first, second] : first);
  }
  throw refuse(`${where} has a place that is no index and no pair of indices`);
}

/** @param {unknown} value */
function isCount(value) {
  return (typeof value === "bigint" || (typeof value === "number" && Number.isInteger(value))) && value >= 0 && value <= FAR;
}

/**
 * @param {unknown} value
 * @param {string} what
 * @param {Refuse} refuse
 */
function counted(value, what, refuse) {
  if (!isCount(value)) throw refuse(`${what} is a number from 0 up`);
  return Number(value);
}

// -- constants

/**
 * @param {Reader} reader
 * @param {Contents} made
 */
function readConstants(reader, made) {
  reader.field = "constants";
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    reader.field = "constants";
    const name = reader.readKey(made.constants);
    reader.field = `constant ${shown(name)}`;
    made.constants.set(name, readConstant(reader));
  }
  reader.field = "init symbols";
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    reader.field = "init symbols";
    const symbol = reader.readKey(made.symbols);
    reader.field = `init symbol ${shown(symbol)}`;
    /** @type {string[]} */
    const names = [];
    for (let items = reader.readArray(); items > 0; items--) names.push(reader.readStr());
    made.symbols.set(symbol, names);
    made.functions.set(symbol, { name: symbol, argTypes: [], launchParamTags: [], argExtraTags: [], interface: null });
  }
}

/**
 * @param {Reader} reader
 * @returns {Constant}
 */
function readConstant(reader) {
  const start = reader.at;
  const count = reader.readArray();
  if (count !== 3) throw reader.error(`expected [type, shape, elements], found an array of ${count}`, start);
  const dtype = readDtype(reader);
  const dimensions = reader.readArray();
  if (dimensions > MAX_DIMENSIONS) throw reader.error(`${dimensions} dimensions, and the most there are is ${MAX_DIMENSIONS}`, start);
  const shape = [];
  for (let left = dimensions; left > 0; left--) shape.push(reader.readBig(0, FAR));
  const at = reader.at;
  const data = reader.readBin();
  const due = sizeOf(dtype, shape);
  const type = dtypeName(dtype);
  if (BigInt(data.length) !== due) {
    const shown = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
    throw reader.error(`${data.length} bytes for ${type} of shape ${shown}, which takes ${due}`, at);
  }
  return { type, shape, data };
}

/**
 * The bytes of a tensor. Elements of less than a byte lie packed, but for TVM's bool (a uint of 1 bit), which takes one.
 * @param {DType} dtype
 * @param {(number | bigint)[]} shape
 */
function sizeOf({ code, bits, lanes }, shape) {
  const width = code === 1 && bits === 1 && lanes === 1 ? 8 : bits * lanes;
  let count = 1n;
  for (const extent of shape) count *= BigInt(extent);
  return (count * BigInt(width) + 7n) / 8n;
}

/** @param {Contents} made */
function checkSymbols({ constants, symbols }) {
  for (const [symbol, names] of symbols) {
    const missing = names.filter((name) => !constants.has(name));
    if (missing.length) {
      throw new FormatError(`const_loader: the init symbol ${shown(symbol)} is handed constants that are not there: ${quoted(missing)}`, {
        kind: "const_loader",
      });
    }
  }
}
