// Structs by value: a record of the members, an array of them in order, or bytes, as the bytes of the layout that the kernel declares.

import { bytesText, listNames, quoteName, restated } from "./errors.js";
import { elementBytes, isValue } from "./members.js";
import { didYouMean } from "./near.js";
import { ConversionError, describeValue, isRecord, packerOf, viewOf } from "./scalars.js";

/** @import { Member } from "./members.js" */
/** @import { Packer, Scalar } from "./scalars.js" */

/**
 * A struct by the names of its members.
 * @typedef {{ readonly [member: string]: MemberValue }} Struct
 */
/**
 * The value of a member: a scalar, a nested struct, or an array of them.
 * @typedef {Scalar | Struct | readonly MemberValue[]} MemberValue
 */
/** Writes a value at a byte. `path` is the member's place in the argument. @typedef {(into: Uint8Array, at: number, value: unknown, path: string) => void} Write */

/** The content of a block, which a call gave as a record. */
export class BlockBytes {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
  }
}

/**
 * Return the converter of an argument with these members; null if WGSL does not support the type of a member.
 * @param {string} name The argument's name, with which the members' names in errors begin.
 * @param {Member[]} members
 * @param {number} size
 * @returns {Packer | null}
 */
export function recordPacker(name, members, size) {
  const [first] = members;
  const whole = first && isValue(members) ? elementOf(first) : structOf(members, size);
  return (
    whole &&
    ((value) => {
      const bytes = viewOf(value);
      const isRaw = [ArrayBuffer, DataView, Uint8Array].some((each) => value instanceof each);
      if (bytes && (bytes.length === size || isRaw)) return bytesOf(bytes, value, size);
      const result = new Uint8Array(size);
      restated(
        () => whole(result, 0, value, name),
        ConversionError,
        (reason, { path }) => {
          const member = path && path !== name ? `member ${quoteName(path)}: ` : "";
          return new ConversionError(member + reason, path);
        },
      );
      return result;
    })
  );
}

/**
 * @param {Uint8Array} bytes
 * @param {unknown} value
 * @param {number} size
 * @param {string} [path]
 */
function bytesOf(bytes, value, size, path) {
  if (bytes.length !== size)
    throw new ConversionError(
      `${describeValue(value)} of ${bytesText(bytes.length)} cannot be passed as uint8x${size}, which has ${bytesText(size)}`,
      path,
    );
  return bytes.slice();
}

/**
 * Return the writer of a member, with that of an array for each dimension.
 * @param {Member} member
 * @returns {Write | null}
 */
function elementOf(member) {
  const { members, size, shape, strides, type } = member;
  let write = members.length ? structOf(members, size) : numberOf(type, elementBytes(member));
  const lanes = members.length ? NaN : Number(/x(\d+)$/.exec(type)?.[1] ?? 1);
  for (let at = shape.length - 1; write && at >= 0; at--) {
    const inner = shape.slice(at + 1);
    write = arrayOf(
      write,
      Number(shape[at]),
      Number(strides[at]),
      lanes > 1 ? [...inner, lanes] : inner,
    );
  }
  return write;
}

/**
 * Return the writer of a number or a vector.
 * @param {string} type
 * @param {number} size
 * @returns {Write | null}
 */
function numberOf(type, size) {
  const pack = packerOf(type, 0);
  // A bool of a struct takes one byte; another bool takes four.
  const step = /^(bool|uint1)(x|$)/.test(type) ? 4 : 1;
  return (
    pack &&
    ((into, at, value, path) => {
      const bytes = restated(
        () => pack(value),
        ConversionError,
        (reason) => new ConversionError(reason, path),
      );
      for (let number = 0; number < size; number++)
        into[at + number] = /** @type {number} */ (bytes[number * step]);
    })
  );
}

/**
 * @param {Write} write
 * @param {number} count
 * @param {number} stride
 * @param {number[]} inner The lengths of an element, with its lanes; a typed array may have all numbers in one row.
 * @returns {Write}
 */
function arrayOf(write, count, stride, inner) {
  const each = inner.reduce((product, length) => product * length, 1);
  return (into, at, value, path) => {
    const typed = ArrayBuffer.isView(value) && "length" in value;
    if (!typed && !Array.isArray(value))
      throw new ConversionError(
        `${describeValue(value)} is not a sequence of ${count} elements`,
        path,
      );
    const items = /** @type {unknown[]} */ (/** @type {unknown} */ (value));
    const flat = typed && inner.length > 0 && items.length === count * each;
    if (!flat && items.length !== count)
      throw new ConversionError(`expected ${count} elements, got ${items.length}`, path);
    for (let number = 0; number < count; number++) {
      const item = flat
        ? /** @type {Float32Array} */ (value).subarray(number * each, (number + 1) * each)
        : items[number];
      write(into, at + number * stride, item, `${path}[${number}]`);
    }
  };
}

/**
 * @param {Member[]} members
 * @param {number} size
 * @returns {Write | null}
 */
function structOf(members, size) {
  const names = members.map(({ name }) => name);
  const writes = members.map(elementOf);
  if (!writes.every((write) => write !== null)) return null;
  return (into, at, value, path) => {
    const bytes = viewOf(value);
    if (bytes) {
      into.set(bytesOf(bytes, value, size, path), at);
      return;
    }
    const values = valuesOf(value, names, size, path);
    members.forEach(({ name, offset }, number) =>
      writes[number]?.(into, at + offset, values[number], join(path, name)),
    );
  };
}

/**
 * Return the values of a struct's members in their order.
 * @param {unknown} value
 * @param {string[]} names
 * @param {number} size
 * @param {string} path
 * @returns {readonly unknown[]}
 */
function valuesOf(value, names, size, path) {
  const expected = listNames(names);
  if (Array.isArray(value)) {
    if (value.length !== names.length)
      throw new ConversionError(
        `expected ${names.length} values (${expected}), got ${value.length}`,
        path,
      );
    return value;
  }
  if (!isRecord(value)) {
    throw new ConversionError(
      `${describeValue(value)} is not a struct of ${bytesText(size)}; pass a record or an array of ${expected}, or bytes`,
      path,
    );
  }
  if (names.includes(""))
    throw new ConversionError(
      "the struct has members without names; pass an array of its values, or bytes",
      path,
    );
  for (const name of Object.keys(value)) {
    if (!names.includes(name))
      throw new ConversionError(
        `unknown; expected ${expected}${didYouMean(name, names)}`,
        join(path, name),
      );
  }
  for (const name of names)
    if (!Object.hasOwn(value, name))
      throw new ConversionError(`missing; expected ${expected}`, join(path, name));
  return names.map((name) => value[name]);
}

/**
 * @param {string} path
 * @param {string} name
 */
function join(path, name) {
  return path ? `${path}.${name}` : name;
}
