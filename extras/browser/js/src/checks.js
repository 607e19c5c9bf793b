// Checks of the values that the interface of a file has, with the messages of devmod's reader in Python.

import { parseDtype } from "./dtypes.js";
import { bytesText, repr } from "./errors.js";
import { isMap } from "./msgpack.js";

/** Returns the error for a problem. @typedef {(problem: string) => Error} Refuse */

const MAX_INT64 = 2n ** 63n - 1n;
/** The needs of functions in docs/arrays-and-devices.md, and those of a reader. */
const KNOWN_NEEDS = new Set([
  "fp16",
  "fp64",
  "int64_atomics",
  "subgroups",
  "subgroup_size",
  "images",
  "image_writes_3d",
  "launch_constants",
  "processor",
  "tuned",
  "repeat",
]);

/**
 * @param {unknown} value
 * @param {string} subject With the verb, as in "the params of an interface are".
 * @param {Refuse} refuse
 * @returns {import("./msgpack.js").Value[]}
 */
export function listOf(value, subject, refuse) {
  if (!Array.isArray(value)) throw refuse(`${subject} a list, not ${typeName(value)}`);
  return value;
}

/**
 * @param {unknown} value
 * @param {string} subject
 * @param {Refuse} refuse
 */
export function readCounts(value, subject, refuse) {
  return listOf(value, `${subject} is`, refuse).map((each) => readCount(each, subject, refuse));
}

/**
 * @param {unknown} type
 * @param {string} subject
 * @param {Refuse} refuse
 */
export function readType(type, subject, refuse) {
  if (typeof type !== "string")
    throw refuse(`${subject} has a type that is not a string: ${typeName(type)}`);
  if (type && !parseDtype(type)) throw refuse(notType(type));
  return type;
}

/** Whether a text is an identifier of Python. @param {string} text */
export function isIdentifier(text) {
  return /^[\p{XIDS}_][\p{XIDC}]*$/u.test(text);
}

/** Return the sentence about a text that is no type. @param {string} type */
export function notType(type) {
  const examples = "'float32', 'int64', 'uint8', 'bool', 'bfloat16', 'handle'";
  return `${repr(type)} is not a type: expected a name such as ${examples}, or one with lanes such as 'float16x4'`;
}

/**
 * Return the needs that this devmod-webgpu does not know.
 * @param {unknown} needs Those of an interface, which may have any value.
 */
export function unknownNeeds(needs) {
  if (!Array.isArray(needs) || !needs.every((each) => typeof each === "string")) return [];
  return [...new Set(needs)].filter((each) => !KNOWN_NEEDS.has(each)).sort();
}

/**
 * Whether a value is an integer of msgpack from 0 to 2**63 - 1. A float is none.
 * @param {unknown} value
 */
export function isCount(value) {
  return typeof value === "bigint" && value >= 0 && value <= MAX_INT64;
}

/**
 * @param {unknown} value
 * @param {string} subject
 * @param {Refuse} refuse
 * @param {number} [least]
 */
export function readCount(value, subject, refuse, least = 0) {
  if (!isCount(value) || Number(value) < least)
    throw refuse(`${subject} is invalid: expected an int of at least ${least}, got ${show(value)}`);
  return Number(value);
}

/**
 * Return a value of msgpack as Python's reader shows it.
 * @param {unknown} value
 * @returns {string}
 */
export function show(value) {
  if (typeof value === "string") return repr(value);
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
  if (isMap(value))
    return `{${Object.entries(value)
      .map(([key, each]) => `${repr(key)}: ${show(each)}`)
      .join(", ")}}`;
  if (Number.isInteger(value) && Math.abs(Number(value)) < 1e16) return `${value}.0`;
  return value instanceof Uint8Array ? bytesText(value.length) : String(value);
}

/** Return the name of a value's type in Python. @param {unknown} value */
export function typeName(value) {
  if (value === null || value === undefined) return "NoneType";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "string") return "str";
  if (typeof value === "bigint") return "int";
  if (typeof value === "number") return "float";
  if (Array.isArray(value)) return "list";
  return value instanceof Uint8Array ? "bytes" : "dict";
}
