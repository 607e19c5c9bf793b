// The interface of a function: its map in the fmap. The messages are those of devmod's reader in Python (tests/golden/bad).

import { isCount, listOf, readCount, readType, show, typeName } from "./checks.js";
import { isMap, withNumbers } from "./msgpack.js";
import { checkMembers, readMember } from "./members.js";
import { parseDtype } from "./dtypes.js";

/** @import { Refuse } from "./checks.js" */
/** @import { Member } from "./members.js" */
/** @import { Value } from "./msgpack.js" */

const PARAM_KINDS = /** @type {const} */ ([
  "buffer",
  "scalar",
  "uniform",
  "local",
  "image",
  "sampler",
]);
const IMAGE_TYPES = /** @type {readonly unknown[]} */ ([
  "",
  "1d",
  "2d",
  "3d",
  "1d_array",
  "2d_array",
  "1d_buffer",
]);
const SAMPLES = /** @type {readonly unknown[]} */ (["", "float", "int", "uint"]);

/**
 * The place of an argument or a block: an index, a pair, "push", or null if the order is the place.
 * @typedef {number | [number, number] | "push" | null} Place
 */
/**
 * One argument of a function. `type` is the type of a buffer's elements or of the scalar, or "1d", "2d", … for an image; "" if unknown.
 * @typedef {object} Param
 * @property {string} name
 * @property {typeof PARAM_KINDS[number]} kind
 * @property {string} type
 * @property {"" | "r" | "w" | "rw"} access
 * @property {Place} at
 * @property {number} align
 * @property {number} size The bytes that the kernel declares for a buffer; 0 if unknown.
 * @property {Member[]} members The members of a struct by value, or of the structs in a buffer; [] if they are unknown.
 * @property {number} least The minimum size of a buffer in bytes; 0 if unknown.
 * @property {string} format The format of an image that the shader declares, as in "rgba8unorm"; "" if images of several formats fit.
 * @property {"" | "float" | "int" | "uint"} sample What the kernel reads from an image or writes to it; "" if unknown.
 * @property {string[]} pack The values of a buffer in the kernel, as in "count:uint64"; [] if it takes the address alone.
 * @property {Record<string, unknown>} extra The other keys. Their integers are bigints.
 */
/**
 * The places and types of a function's arguments, from reflection at build time. `block` is the fixed block of threads,
 * `defaultBlock` the block of a call that names none. `extra` has the other keys.
 * @typedef {object} Interface
 * @property {Param[]} params
 * @property {{ at: Place, size: number, name: string }[]} blocks A call may give the scalars of a block with a name as one record.
 * @property {[number, number, number] | null} block
 * @property {[number, number, number] | null} defaultBlock
 * @property {boolean} openBlock Whether the kernel gives the same result with every block.
 * @property {number | { perThread: number }} sharedMemory Dynamic shared memory in bytes, or for each thread; WebGPU has none.
 * @property {string[]} needs What the device must have: "fp16", "subgroups", …
 * @property {number | null} subgroup The number of threads in a subgroup with which the kernel must run; null for any.
 * @property {Record<string, unknown>} extra
 */

/**
 * @param {{ [key: string]: Value }} map Its integers are bigints.
 * @param {Refuse} refuse
 * @returns {Interface}
 */
export function readInterface(map, refuse) {
  const {
    params = [],
    blocks = [],
    block = null,
    default_block = null,
    open_block = false,
    shared_memory = 0n,
    needs = [],
    subgroup = null,
    ...extra
  } = map;
  if (typeof open_block !== "boolean")
    throw refuse(`open_block is a boolean, not ${typeName(open_block)}`);
  return {
    params: listOf(params, "the params of an interface are", refuse).map((param) =>
      readParam(param, refuse),
    ),
    blocks: listOf(blocks, "the blocks of an interface are", refuse).map((entry) =>
      readBlock(entry, refuse),
    ),
    openBlock: open_block,
    block: readThreads(block, "a fixed block of threads", 0, refuse),
    defaultBlock: readThreads(default_block, "a default block of threads", 1, refuse),
    sharedMemory: readSharedMemory(shared_memory, refuse),
    needs: readNames(listOf(needs, "the needs of an interface are", refuse), refuse),
    subgroup:
      subgroup === null ? null : readCount(subgroup, "the subgroup of an interface", refuse, 1),
    extra: withNumbers(extra),
  };
}

/**
 * @param {Value[]} names
 * @param {Refuse} refuse
 */
function readNames(names, refuse) {
  if (!names.every((name) => typeof name === "string"))
    throw refuse(`the needs of an interface are strings, not ${show(names)}`);
  return [...new Set(/** @type {string[]} */ (names))].sort();
}

/**
 * @param {Value} value
 * @param {string} subject
 * @param {number} least
 * @param {Refuse} refuse
 */
function readThreads(value, subject, least, refuse) {
  if (value === null) return null;
  if (!Array.isArray(value) || value.length !== 3)
    throw refuse(`${subject} is three numbers, not ${show(value)}`);
  const counts = value.map((count) => readCount(count, subject, refuse, least));
  return /** @type {[number, number, number]} */ (counts);
}

/**
 * @param {Value} value
 * @param {Refuse} refuse
 * @returns {Param}
 */
function readParam(value, refuse) {
  if (!isMap(value)) throw refuse(`a parameter is a map with string keys, not ${typeName(value)}`);
  for (const key of ["name", "kind"])
    if (!(key in value)) throw refuse(`a parameter has no '${key}'`);
  const {
    name,
    kind,
    type = "",
    access = "",
    at = null,
    align = 0n,
    size = 0n,
    members = [],
    default: known = null,
    least = 0,
    ...others
  } = value;
  const { format = "", sample = "", pack = [], ...extra } = others;
  const subject = `the parameter ${show(name)}`;
  const inner = listOf(members, `the members of ${subject} are`, refuse);
  const [word, count] = known === null ? ["", 0n] : readDefault(known, subject, refuse);
  const packed = listOf(pack, `the values of ${subject} are`, refuse);
  if (typeof name !== "string")
    throw refuse(`a parameter's name is a string, not ${typeName(name)}`);
  if (typeof kind !== "string" || !PARAM_KINDS.includes(/** @type {Param["kind"]} */ (kind))) {
    throw refuse(
      `${subject} has the kind ${show(kind)}; a kind is one of ${PARAM_KINDS.join(", ")}`,
    );
  }
  if (access !== "" && access !== "r" && access !== "w" && access !== "rw") {
    throw refuse(`${subject} has the access ${show(access)}; an access is 'r', 'w', 'rw' or ''`);
  }
  const isImage = kind === "image";
  if (isImage && typeof type === "string" && !IMAGE_TYPES.includes(type)) {
    throw refuse(
      `${subject} has the type ${show(type)}; the type of an image is one of ${IMAGE_TYPES.slice(1).join(", ")}`,
    );
  }
  if (
    isImage
      ? typeof format !== "string" || !SAMPLES.includes(sample)
      : format !== "" || sample !== ""
  ) {
    throw refuse(
      `${subject} of kind ${kind} has the format ${show(format)} and the sample ${show(sample)}; expected those of an image`,
    );
  }
  const result = {
    name,
    kind: /** @type {Param["kind"]} */ (kind),
    type: isImage && typeof type === "string" ? type : readType(type, subject, refuse),
    access: /** @type {Param["access"]} */ (access),
    align: readCount(align, `the alignment of ${subject}`, refuse),
    size: readCount(size, `the size of ${subject}`, refuse),
    members: inner.map((each) => readMember(each, 0, refuse)),
    least: isCount(least) ? Number(least) : 0, // core's reader ignores this key, so this reader refuses no value of it
    format: String(format),
    sample: /** @type {Param["sample"]} */ (sample),
    pack: /** @type {string[]} */ (packed),
    extra,
  };
  if (inner.length && kind !== "buffer" && kind !== "scalar" && kind !== "uniform") {
    throw refuse(
      `${subject} is of kind ${kind} and has members; only a buffer, a scalar or a uniform has members`,
    );
  }
  if (inner.length) {
    const { code, bits, lanes } = parseDtype(result.type) ?? {};
    if (code !== 1 || bits !== 8)
      throw refuse(
        `${subject} has members and the type ${show(type)}; the type of a struct of N bytes is 'uint8xN'`,
      );
    checkMembers(result.members, Number(lanes), subject, refuse);
  }
  if (word && kind !== (word === "value" ? "scalar" : "local")) {
    const size = word === "bytes" ? count : `per_thread=${count}`;
    const text = word === "value" ? count : `Local(${size})`;
    const expected =
      "a Local for the kind local, or an int from 0 to 2**63 - 1 for the kind scalar";
    throw refuse(
      `${subject} has an invalid default: expected ${expected}, got ${text} for ${kind}`,
    );
  }
  if (packed.length && (kind !== "buffer" || !isPack(packed))) {
    const text = show(pack);
    const expected =
      "a buffer with 'ptr:handle' and different values such as 'count:uint64', 'shape0:int32', 'stride0:int64'";
    throw refuse(
      `${subject} of kind ${kind} has the pack ${text.length <= 60 ? text : `${text.slice(0, 59)}…`}; expected ${expected}`,
    );
  }
  return { ...result, at: readPlace(at, subject, refuse) };
}

/**
 * Whether these are different values of an array, with shapes that are numbered from 0; without shapes, the strides are.
 * @param {Value[]} values
 */
function isPack(values) {
  const names = values.map((value) =>
    typeof value === "string" ? (value.split(":")[0] ?? "") : "",
  );
  const [shapes, strides] = ["shape", "stride"].map((word) =>
    Math.min(names.filter((name) => name.startsWith(word)).length, 16),
  );
  const axes = (/** @type {string} */ word, /** @type {number | undefined} */ count) =>
    Array.from({ length: count ?? 0 }, (_, axis) => `${word}${axis}`);
  const numbers = ["count", ...axes("shape", shapes), ...axes("stride", shapes || strides)];
  const valid = new Set([
    "ptr:handle",
    ...numbers.flatMap((name) =>
      ["int32", "uint32", "int64", "uint64"].map((type) => `${name}:${type}`),
    ),
  ]);
  return (
    names.includes("ptr") &&
    new Set(names).size === values.length &&
    values.every((value) => typeof value === "string" && valid.has(value))
  );
}

/**
 * @param {Value} value
 * @param {Refuse} refuse
 */
function readSharedMemory(value, refuse) {
  const subject = "the shared memory of an interface";
  if (!isMap(value)) return readCount(value, subject, refuse);
  const { per_thread: perThread = null, ...others } = value;
  if (isCount(perThread) && Number(perThread) >= 1 && !Object.keys(others).length)
    return { perThread: Number(perThread) };
  throw refuse(
    `${subject} is invalid: expected an int of at least 0, or a map with the key per_thread and an int of at least 1, got ${show(value)}`,
  );
}

/**
 * Return the key of a default and its number.
 * @param {Value} value
 * @param {string} subject
 * @param {Refuse} refuse
 */
function readDefault(value, subject, refuse) {
  const [[key, count] = ["", 0n], ...others] = isMap(value) ? Object.entries(value) : [];
  const isKnown = key === "value" || key === "bytes" || key === "per_thread";
  const least = key === "value" ? 0 : 1;
  if (isKnown && !others.length && isCount(count) && Number(count) >= least) return [key, count];
  throw refuse(
    `${subject} has an invalid default: expected a map with one key, bytes or per_thread with an int of at least 1, or value with an int of ` +
      `at least 0, got ${show(value)}`,
  );
}

/**
 * @param {Value} value
 * @param {Refuse} refuse
 */
function readBlock(value, refuse) {
  if (!isMap(value)) throw refuse(`a block is a map with string keys, not ${typeName(value)}`);
  for (const key of ["at", "size"]) if (!(key in value)) throw refuse(`a block has no '${key}'`);
  const { name = "" } = value;
  if (typeof name !== "string") throw refuse(`a block's name is a string, not ${typeName(name)}`);
  const size = readCount(value.size, "the size of a block", refuse);
  return { at: readPlace(value.at, "a block", refuse, true), size, name };
}

/**
 * @param {unknown} at
 * @param {string} subject
 * @param {Refuse} refuse
 * @param {boolean} [push]
 * @returns {Place}
 */
function readPlace(at, subject, refuse, push = false) {
  if (at === null || (push && at === "push")) return at;
  const parts = Array.isArray(at) ? at : [at];
  if ((!Array.isArray(at) || at.length === 2) && parts.every(isCount)) {
    const [first, second] = parts.map(Number);
    return /** @type {Place} */ (Array.isArray(at) ? [first, second] : first);
  }
  throw refuse(`${subject} has the place ${show(at)}; a place is an index or a pair of indices`);
}
