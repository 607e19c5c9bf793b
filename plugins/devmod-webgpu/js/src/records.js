// Structs by value: a record of the members, or a sequence of them in order, as the struct's bytes. docs/formats.md has the layout.

import { listNames, repr } from "./errors.js";
import { didYouMean } from "./near.js";
import { isRecord } from "./order.js";
import { ConversionError, describeValue, packerOf, viewOf, widthOf } from "./scalars.js";

/** @import { Member } from "./interface.js" */
/** @import { Packer, Scalar } from "./scalars.js" */

/**
 * A struct by the names of its members.
 * @typedef {{ readonly [member: string]: MemberValue }} Struct
 */
/**
 * The value of a member: a scalar, a nested struct, or an array of them.
 * @typedef {Scalar | Struct | readonly MemberValue[]} MemberValue
 */
/** Writes a value into the bytes of the struct. @typedef {(into: Uint8Array, at: number, value: unknown) => void} Put */

/**
 * Return the converter of a struct; null if WGSL does not support the type of a member.
 * @param {number} size
 * @param {Member[]} members
 * @param {Packer} whole The converter of the struct's bytes.
 * @returns {Packer | null}
 */
export function recordPacker(size, members, whole) {
  const put = structOf(members, "");
  return put && ((value) => {
    if (viewOf(value)) return whole(value);
    const result = new Uint8Array(size);
    put(result, 0, value);
    return result;
  });
}

/**
 * @param {Member[]} members
 * @param {string} path The names of the enclosing structs, each with a period after it.
 * @returns {Put | null}
 */
function structOf(members, path) {
  const names = members.map(({ name }) => name);
  /** @type {Put[]} */
  const puts = [];
  for (const member of members) {
    const one = member.members.length ? structOf(member.members, `${path}${member.name}.`) : leafOf(member.type, path + member.name);
    if (!one) return null;
    puts.push(member.shape.length ? arrayOf(member, one, path + member.name, 0) : one);
  }
  const where = path ? `member ${repr(path.slice(0, -1))}: ` : "";
  return (into, at, value) => {
    const values = valuesOf(value, names, where);
    members.forEach(({ offset }, number) => /** @type {Put} */ (puts[number])(into, at + offset, values[number]));
  };
}

/**
 * @param {unknown} value
 * @param {string[]} names
 * @param {string} where
 * @returns {readonly unknown[]}
 */
function valuesOf(value, names, where) {
  if (Array.isArray(value)) {
    if (value.length === names.length) return value;
    throw new ConversionError(`${where}${value.length} values cannot be passed as a struct, which has ${names.length} members (${names.join(", ")})`);
  }
  if (!isRecord(value)) {
    throw new ConversionError(`${where}${describeValue(value)} is not a struct; pass a record of its members (${names.join(", ")})`);
  }
  for (const name of Object.keys(value)) {
    if (!names.includes(name)) throw new ConversionError(`${where}the struct has no member ${repr(name)}; it has: ${listNames(names)}${didYouMean(name, names)}`);
  }
  const missing = names.filter((name) => !Object.hasOwn(value, name));
  if (missing.length) throw new ConversionError(`${where}the struct misses ${missing.length === 1 ? "a member" : "members"}: ${listNames(missing)}`);
  return names.map((name) => value[name]);
}

/**
 * @param {string} type
 * @param {string} path
 * @returns {Put | null}
 */
function leafOf(type, path) {
  const pack = packerOf(type, 0);
  return pack && ((into, at, value) => {
    try {
      into.set(pack(value), at);
    } catch (error) {
      throw error instanceof ConversionError ? new ConversionError(`member ${repr(path)}: ${error.message}`) : error;
    }
  });
}

/**
 * @param {Member} member
 * @param {Put} one
 * @param {string} path
 * @param {number} dimension
 * @returns {Put}
 */
function arrayOf(member, one, path, dimension) {
  const length = /** @type {number} */ (member.shape[dimension]);
  const stride = /** @type {number} */ (member.strides[dimension]);
  const inner = dimension + 1 < member.shape.length ? arrayOf(member, one, path, dimension + 1) : one;
  return (into, at, value) => {
    const listed = Array.isArray(value) || (ArrayBuffer.isView(value) && "length" in value);
    if (!listed) throw new ConversionError(`member ${repr(path)}: ${describeValue(value)} is not a sequence of ${length} elements`);
    const items = /** @type {ArrayLike<unknown>} */ (/** @type {unknown} */ (value));
    if (items.length !== length) throw new ConversionError(`member ${repr(path)}: ${items.length} elements cannot be passed as an array of ${length}`);
    for (let number = 0; number < length; number++) inner(into, at + number * stride, items[number]);
  };
}

/**
 * Return the name of the first member that is not inside a struct of `size` bytes; "" if all are.
 * @param {Member[]} members
 * @param {number} size
 * @returns {string}
 */
export function memberOutside(members, size) {
  for (const { name, type, offset, members: inner, size: own, shape, strides } of members) {
    const within = inner.length ? memberOutside(inner, own) : "";
    if (within) return `${name}.${within}`;
    // An array without elements takes no bytes.
    const last = shape.reduce((end, length, at) => end + (length - 1) * /** @type {number} */ (strides[at]), 0);
    if (!shape.includes(0) && offset + last + (inner.length ? own : widthOf(type)) > size) return name;
  }
  return "";
}
