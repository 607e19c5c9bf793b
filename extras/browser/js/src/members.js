// The members of structs that are passed by value: their map in the interface, and the rules of their layout. docs/formats.md has both.

import { listOf, readCount, readCounts, readType, typeName } from "./checks.js";
import { parseDtype } from "./dtypes.js";
import { bytesText, quoteName, repr } from "./errors.js";
import { isMap } from "./msgpack.js";

/** @import { Refuse } from "./checks.js" */
/** @import { Value } from "./msgpack.js" */

/** The number of structs that may enclose a member. */
const MAX_DEPTH = 16;
/** The limit on the dimensions of an array. */
const MAX_DIMENSIONS = 16;

/**
 * One member of a struct that is passed by value. `offset` counts from the start of the enclosing struct. A nested struct has
 * `members` and a `size` in bytes, other members have a `type`. An array has a `shape`, and `strides` in bytes.
 * @typedef {object} Member
 * @property {string} name
 * @property {string} type
 * @property {number} offset
 * @property {Member[]} members
 * @property {number} size
 * @property {number[]} shape
 * @property {number[]} strides
 */
/**
 * @param {Value} value
 * @param {number} depth The number of structs that enclose the member.
 * @param {Refuse} refuse
 * @returns {Member}
 */
export function readMember(value, depth, refuse) {
  if (depth >= MAX_DEPTH) throw refuse(`more than ${MAX_DEPTH} structs enclose a member`);
  if (!isMap(value)) throw refuse(`a member is a map with string keys, not ${typeName(value)}`);
  for (const key of ["name", "offset"])
    if (!(key in value)) throw refuse(`a member has no '${key}'`);
  const { name, offset, type = "", members = [], size = 0n, shape = [], strides = [] } = value;
  const inner = listOf(members, "the members of a member are", refuse).map((each) =>
    readMember(each, depth + 1, refuse),
  );
  if (typeof name !== "string") throw refuse(`a member's name is a string, not ${typeName(name)}`);
  const subject = `the member ${repr(name)}`;
  if (typeof type !== "string")
    throw refuse(`${subject} has a type that is not a string: ${typeName(type)}`);
  if (Boolean(type) === Boolean(inner.length)) {
    throw refuse(
      `${subject} has ${type ? "a type and members" : "neither a type nor members"}; it has one of them`,
    );
  }
  const result = {
    name,
    type: readType(type, subject, refuse),
    offset: readCount(offset, `the offset of ${subject}`, refuse),
    members: inner,
    size: readCount(size, `the size of ${subject}`, refuse),
    shape: readCounts(shape, `the shape of ${subject}`, refuse),
    strides: readCounts(strides, `the strides of ${subject}`, refuse),
  };
  if (result.shape.length !== result.strides.length) {
    throw refuse(
      `${subject} has a shape of ${result.shape.length} dimensions and ${result.strides.length} strides`,
    );
  }
  return result;
}

/**
 * Return the bytes of a member, or of one element if it is an array. Lanes have no padding.
 * @param {Member} member
 */
export function elementBytes({ type, size, members }) {
  if (members.length) return size;
  const { code = 0, bits = 0, lanes = 0 } = parseDtype(type) ?? {};
  // TVM's bool and untyped memory have one byte for each element.
  const one = (code === 1 && bits === 1 && lanes === 1) || (code === 3 && bits === 0) ? 8 : bits;
  return Math.ceil((one * lanes) / 8);
}

/**
 * Return whether an argument is not a struct but one array or matrix: it has one member at its start, without a name.
 * @param {Member[]} members
 */
export function isValue([first, ...others]) {
  return first !== undefined && !others.length && !first.name && !first.offset;
}

/**
 * Check that the members of a struct of `size` bytes are inside it and do not overlap, and those of nested structs.
 * @param {Member[]} members
 * @param {number} size
 * @param {string} subject
 * @param {Refuse} refuse
 * @param {number} [depth]
 */
export function checkMembers(members, size, subject, refuse, depth = 0) {
  if (depth >= MAX_DEPTH) throw refuse(`more than ${MAX_DEPTH} structs enclose a member`);
  /** @type {{ start: number, end: number, path: string }[]} */
  const spans = [];
  /** @type {Set<string>} */
  const names = new Set();
  for (const member of members) {
    const path = `the member ${quoteName(member.name)} of ${subject}`;
    if (member.name && names.has(member.name))
      throw refuse(`${subject} has two members ${quoteName(member.name)}`);
    names.add(member.name);
    if (member.members.length) {
      if (!member.size) throw refuse(`${path} is a struct without a size`);
      checkMembers(member.members, member.size, path, refuse, depth + 1);
    } else {
      const { code, bits = 0, lanes } = parseDtype(member.type) ?? {};
      if (bits % 8 && !(code === 1 && bits === 1 && lanes === 1)) {
        throw refuse(`${path} has the type ${member.type}, which is not a whole number of bytes`);
      }
    }
    const [start, end] = [member.offset, member.offset + extentOf(member, path, refuse)];
    if (end === start || end > size)
      throw refuse(`${path} has bytes ${start} to ${end}, and the struct has ${bytesText(size)}`);
    spans.push({ start, end, path });
  }
  spans.sort((one, other) => one.start - other.start);
  spans.slice(1).forEach(({ start, path }, number) => {
    const { end } = /** @type {{ end: number }} */ (spans[number]);
    if (start < end)
      throw refuse(`${path} begins at byte ${start}, inside the member that ends at byte ${end}`);
  });
}

/**
 * Return the bytes from the first to the last element.
 * @param {Member} member
 * @param {string} path
 * @param {Refuse} refuse
 */
function extentOf(member, path, refuse) {
  const { shape, strides } = member;
  if (shape.length > MAX_DIMENSIONS)
    throw refuse(`${path} has ${shape.length} dimensions; expected at most ${MAX_DIMENSIONS}`);
  let length = elementBytes(member);
  for (let at = shape.length - 1; at >= 0; at--) {
    const [count, stride] = [
      /** @type {number} */ (shape[at]),
      /** @type {number} */ (strides[at]),
    ];
    if (!count) throw refuse(`${path} is an array of no elements`);
    if (stride < length)
      throw refuse(`${path} has a stride of ${bytesText(stride)}; expected at least ${length}`);
    length += (count - 1) * stride;
  }
  return length;
}
