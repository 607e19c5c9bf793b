// Constants of a pipeline (WGSL's override), as the interface carries them; docs/kernels.md.

import { ArgumentError, FormatError, quoted, repr, shown } from "./errors.js";
import { isMap } from "./head.js";
import { packerOf, Unfit } from "./scalars.js";

/** @import { Interface } from "./wire.js" */

const TYPES = ["bool", "int32", "uint32", "float32", "float16"];

/**
 * @typedef {object} Constant
 * @property {string} name "" where it is not known
 * @property {number | null} id The number that WebGPU goes by; null where it goes by the name.
 * @property {string} type
 * @property {boolean} needed Whether it has no default, so that it must be set.
 */

/**
 * The constants that an interface carries.
 * @param {Interface | null} interface_
 * @returns {Constant[]}
 */
function constantsOf(interface_) {
  const listed = interface_?.extra.constants ?? [];
  if (!Array.isArray(listed)) throw new FormatError("the constants of an interface are a list", { kind: "webgpu" });
  return listed.map((each) => {
    const { name = "", id = null, type, default: known = null } = isMap(each) ? each : {};
    const sound = typeof name === "string" && typeof type === "string" && TYPES.includes(type);
    if (!sound || !(id === null || (Number.isInteger(id) && Number(id) >= 0)) || (id === null && !name)) {
      throw new FormatError("a constant of the interface is none: it has a name or an id, and a type", { kind: "webgpu" });
    }
    return { name, id: id === null ? null : Number(id), type: String(type), needed: known === null };
  });
}

/**
 * The constants as WebGPU takes them, and the block of threads that comes of them; null where it is not known.
 * @param {string} described The function, for messages.
 * @param {Interface | null} interface_
 * @param {Record<string, number | bigint | boolean>} given
 * @param {ReadonlyMap<number, number>} [before] What was set before, by the constants' positions.
 * @returns {{ values: Record<string, number>, block: [number, number, number] | null, missing: string[], set: Map<number, number> }}
 *   `missing` are those that have no value yet.
 */
export function specialized(described, interface_, given, before = new Map()) {
  const constants = constantsOf(interface_);
  /** @type {Map<number, number>} */
  const now = new Map();
  for (const [name, value] of Object.entries(given)) {
    const wrong = (/** @type {string} */ text) => new ArgumentError(`${described} ${text}`, { kind: "webgpu", argument: name });
    let position = constants.findIndex((each) => each.name === name);
    if (position < 0 && /^\d{1,10}$/.test(name)) position = constants.findIndex((each) => each.id === Number(name));
    const constant = constants[position];
    if (!constant) {
      throw wrong(`has no constant ${shown(name)} to specialize; it has: ${quoted(constants.map((each) => each.name || String(each.id)))}`);
    }
    const known = repr(constant.name || String(constant.id));
    if (now.has(position)) throw wrong(`is given the constant ${known} twice, by its name and by its number`);
    try {
      packerOf(constant.type, 0)?.(value);
      if (!Number.isFinite(Number(value))) throw new Unfit(`${value} is not finite, and a constant of WebGPU has to be`);
    } catch (error) {
      throw error instanceof Unfit ? wrong(`cannot take the constant ${known}: ${error.message}`) : error;
    }
    now.set(position, Number(value));
  }
  const found = new Map([...before, ...now]);
  /** @type {Record<string, number>} */
  const values = Object.create(null);
  for (const [position, value] of found) {
    const { name, id } = /** @type {Constant} */ (constants[position]);
    values[id === null ? name : String(id)] = value;
  }
  const missing = constants.flatMap((each, position) => (each.needed && !found.has(position) ? [each.name || String(each.id)] : []));
  return { values, block: blockOf(described, interface_, constants.length, found), missing, set: found };
}

/**
 * @param {string} described
 * @param {Interface | null} interface_
 * @param {number} count
 * @param {Map<number, number>} found
 * @returns {[number, number, number] | null}
 */
function blockOf(described, interface_, count, found) {
  const sources = interface_?.extra.block_constants;
  if (!interface_?.block || sources === undefined) return interface_?.block ?? null;
  const sound = (/** @type {unknown} */ part, /** @type {number} */ low) =>
    Number.isInteger(part) && Number(part) >= low && Number(part) < count;
  const holds =
    Array.isArray(sources) &&
    sources.length === 3 &&
    sources.every((each) => (Array.isArray(each) ? each.every((part) => sound(part, 0)) : sound(each, -1)));
  if (!holds) throw new FormatError(`${described} has a list block_constants that is not three positions of constants`, { kind: "webgpu" });
  const made = interface_.block.map((size, axis) => {
    const source = /** @type {unknown[]} */ (sources)[axis];
    if (Array.isArray(source)) return source.some((part) => found.has(part)) ? NaN : size;
    const value = found.get(Number(source));
    if (value !== undefined && value < 1) {
      throw new ArgumentError(`${described}: a block has at least 1 thread in ${"xyz"[axis]}, not ${value}`, { kind: "webgpu" });
    }
    return value ?? size;
  });
  return made.some(Number.isNaN) ? null : /** @type {[number, number, number]} */ (made);
}
