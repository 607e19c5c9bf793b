// Constants of a pipeline (WGSL's override), from the interface; see docs/calling.md.

import { CONSTANT_TYPES } from "./dtypes.js";
import { ArgumentError, invalidFunction, listNames, repr, restated, quoteName } from "./errors.js";
import { isMap } from "./msgpack.js";
import { packerOf, ConversionError } from "./scalars.js";

/** @import { Interface } from "./interface.js" */

/**
 * @typedef {object} Constant
 * @property {string} name "" if it is unknown
 * @property {number | null} id The number that identifies it; null if WebGPU uses the name.
 * @property {string} type
 * @property {boolean} needed Whether it has no default and must be set.
 */

/**
 * Return the constants of an interface.
 * @param {Interface | null} interface_
 * @returns {Constant[]}
 */
export function constantsOf(interface_) {
  const listed = interface_?.extra.constants ?? [];
  if (!Array.isArray(listed))
    throw invalidFunction("expected a list of constants in the interface");
  return listed.map((each) => {
    const { name = "", id = null, type, default: known = null } = isMap(each) ? each : {};
    const isValid =
      typeof name === "string" && typeof type === "string" && CONSTANT_TYPES.includes(type);
    if (
      !isValid ||
      !(id === null || (Number.isInteger(id) && Number(id) >= 0)) ||
      (id === null && !name)
    ) {
      throw invalidFunction(
        "a constant of the interface is invalid: expected a name or an id, and a type",
      );
    }
    return {
      name,
      id: id === null ? null : Number(id),
      type: String(type),
      needed: known === null,
    };
  });
}

/**
 * Return the constants in WebGPU's form, and the resulting block size; null if it is unknown.
 * @param {string} description The function, for messages.
 * @param {Interface | null} interface_
 * @param {Record<string, number | bigint | boolean>} given
 * @param {ReadonlyMap<number, number>} [before] The constants that were set before, by position.
 * @returns {{ values: Record<string, number>, block: [number, number, number] | null, missing: string[], set: Map<number, number> }}
 *   `missing` has the constants without a value.
 */
export function specialize(description, interface_, given, before = new Map()) {
  const constants = constantsOf(interface_);
  /** @type {Map<number, number>} */
  const now = new Map();
  for (const [name, value] of Object.entries(given)) {
    const argumentError = (/** @type {string} */ text) =>
      new ArgumentError(`${description} ${text}`, { argument: name });
    let position = constants.findIndex((each) => each.name === name);
    if (position < 0 && /^\d{1,10}$/.test(name))
      position = constants.findIndex((each) => each.id === Number(name));
    const constant = constants[position];
    if (!constant) {
      throw argumentError(
        `has no constant ${quoteName(name)} to specialize; it has: ${listNames(constants.map((each) => each.name || String(each.id)))}`,
      );
    }
    const known = repr(constant.name || String(constant.id));
    if (now.has(position))
      throw argumentError(`is given the constant ${known} twice, by its name and by its number`);
    const refuse = (/** @type {string} */ reason) =>
      argumentError(`cannot take the constant ${known}: ${reason}`);
    restated(() => packerOf(constant.type, 0)?.(value), ConversionError, refuse);
    if (!Number.isFinite(Number(value)))
      throw refuse(`${value} is not finite, expected a finite number`);
    now.set(position, Number(value));
  }
  const found = new Map([...before, ...now]);
  /** @type {Record<string, number>} */
  const values = Object.create(null);
  for (const [position, value] of found) {
    const { name, id } = /** @type {Constant} */ (constants[position]);
    values[id === null ? name : String(id)] = value;
  }
  const missing = constants.flatMap((each, position) =>
    each.needed && !found.has(position) ? [each.name || String(each.id)] : [],
  );
  return {
    values,
    block: blockOf(description, interface_, constants.length, found),
    missing,
    set: found,
  };
}

/**
 * @param {string} description
 * @param {Interface | null} interface_
 * @param {number} count
 * @param {Map<number, number>} found
 * @returns {[number, number, number] | null}
 */
function blockOf(description, interface_, count, found) {
  const sources = interface_?.extra.block_constants;
  if (!interface_?.block || sources === undefined) return interface_?.block ?? null;
  const isValid = (/** @type {unknown} */ part, /** @type {number} */ low) =>
    Number.isInteger(part) && Number(part) >= low && Number(part) < count;
  const holds =
    Array.isArray(sources) &&
    sources.length === 3 &&
    sources.every((each) =>
      Array.isArray(each) ? each.every((part) => isValid(part, 0)) : isValid(each, -1),
    );
  if (!holds)
    throw invalidFunction(
      `${description} has an invalid list block_constants: expected three positions of constants`,
    );
  const result = interface_.block.map((size, axis) => {
    const source = /** @type {unknown[]} */ (sources)[axis];
    if (Array.isArray(source)) return source.some((part) => found.has(part)) ? NaN : size;
    const value = found.get(Number(source));
    if (value !== undefined && value < 1) {
      throw new ArgumentError(
        `${description}: expected at least 1 thread in ${"xyz"[axis]}, got ${value}`,
      );
    }
    return value ?? size;
  });
  return result.some(Number.isNaN) ? null : /** @type {[number, number, number]} */ (result);
}
