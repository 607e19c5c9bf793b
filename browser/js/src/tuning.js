// The variants of a tuned function, each as a function that is not tuned. Records of times are not read: the first variant that fits is launched.

import { listOf, show } from "./checks.js";
import { invalidFunction, listNames, quoteName, restated } from "./errors.js";
import { evaluate, ExpressionError, namesIn, readExpression } from "./expressions.js";
import { readInterface } from "./interface.js";
import { isMap } from "./msgpack.js";
import { callError, label } from "./plan.js";
import { BlockBytes } from "./records.js";
import { ConversionError } from "./scalars.js";

/** @import { Refuse } from "./checks.js" */
/** @import { Expression } from "./expressions.js" */
/** @import { Interface } from "./interface.js" */
/** @import { Value } from "./msgpack.js" */
/** @import { Argument, Plan } from "./plan.js" */
/** @import { Triple } from "./shape.js" */
/** @import { FunctionInfo } from "./wire.js" */

const MAX_VARIANTS = 1024;
const MAX_NAMES = 16;

/**
 * A variant of a tuned function.
 * @typedef {object} Variant
 * @property {FunctionInfo} info The function with the interface of the variant.
 * @property {Record<string, number>} set The constants to set in the shader; none if the shader has them.
 * @property {Map<string, bigint>} numbers The constants that are whole numbers.
 * @property {Expression[]} grid Its own grid; [] if the call gives it.
 */

/**
 * Return the variants of a tuned function, in their order; each is checked when it is taken.
 * @param {string} description The function, for messages.
 * @param {FunctionInfo} info
 * @returns {Generator<Variant>}
 */
export function* variantsOf(description, info) {
  const known = /** @type {Interface} */ (info.interface);
  const refuse = (/** @type {string} */ problem) => invalidFunction(`${description}: ${problem}`);
  const tune = /** @type {{ [key: string]: Value }} */ (known.extra.tune);
  if (!isMap(tune)) throw refuse(`the key tune is a map with string keys, not ${show(tune)}`);
  const names = listOf(tune.constants, "the constants of a tuned function are", refuse);
  const variants = listOf(tune.variants, "the variants of a function are", refuse);
  const count = new Set(names.filter((name) => typeof name === "string" && name)).size;
  if (!count || count < names.length || count > MAX_NAMES)
    throw refuse(`the constants of a tuned function are 1 to ${MAX_NAMES} different names`);
  if (!variants.length || variants.length > MAX_VARIANTS)
    throw refuse(`a tuned function has 1 to ${MAX_VARIANTS} variants, not ${variants.length}`);
  for (const each of variants)
    yield readVariant(info, tune, /** @type {string[]} */ (names), each, refuse);
}

/**
 * @param {FunctionInfo} info
 * @param {{ [key: string]: Value }} tune
 * @param {string[]} names
 * @param {Value} each
 * @param {Refuse} refuse
 * @returns {Variant}
 */
function readVariant(info, tune, names, each, refuse) {
  const known = /** @type {Interface} */ (info.interface);
  const map = isMap(each) ? each : {};
  const values = listOf(map.values, "the values of a variant are", refuse);
  if (values.length !== names.length)
    throw refuse(`a variant has ${values.length} values for ${names.length} constants`);
  /** @type {Map<string, bigint>} */
  const numbers = new Map();
  /** @type {Record<string, number>} */
  const set = Object.create(null);
  names.forEach((name, at) => {
    const value = values[at];
    const isNumber = typeof value === "number" && Number.isFinite(value);
    if (!isNumber && !["bigint", "boolean", "string"].includes(typeof value))
      throw refuse(`the constant ${quoteName(name)} has the value ${show(value)}`);
    if (typeof value === "bigint" || (isNumber && Number.isInteger(value)))
      numbers.set(name, BigInt(value));
    if (tune.specialized === true) set[name] = /** @type {number} */ (value);
  });

  const plain = isMap(map.interface) ? readInterface(map.interface, refuse) : known;
  const form = (/** @type {Interface} */ { params }) =>
    JSON.stringify(params.map(({ name, type }) => [name, type]));
  if (form(plain) !== form(known))
    throw refuse("the interface of a variant has other parameters than the function");
  const integers = plain.params
    .filter(({ kind, type }) => kind === "scalar" && ["int32", "uint32"].includes(type))
    .map(({ name }) => name)
    .filter((name) => !names.includes(name));
  const grid = expressionsOf(
    "grid",
    map.grid ?? tune.grid,
    [...numbers.keys(), ...integers],
    refuse,
  );
  const sizes = expressionsOf("block", map.block ?? tune.block, [...numbers.keys()], refuse);
  const block = sizes.length ? tripleOf("block", sizes, numbers, 1, refuse) : plain.block;
  const { tune: _, ...extra } = plain.extra;
  const needs = plain.needs.filter((need) => need !== "tuned");
  return { info: { ...info, interface: { ...plain, block, needs, extra } }, set, numbers, grid };
}

/**
 * @param {string} key
 * @param {Value | undefined} list
 * @param {readonly string[]} known The names that may occur.
 * @param {Refuse} refuse
 */
function expressionsOf(key, list, known, refuse) {
  if (list === undefined || list === null) return [];
  const subject = `the ${key} of a tuned function`;
  if (!Array.isArray(list) || !list.length || list.length > 3)
    throw refuse(`${subject} is a list of one to three expressions`);
  return list.map((each) => {
    const value = restated(
      () => readExpression(exact(each)),
      ExpressionError,
      (reason) => refuse(`${subject} ${reason}`),
    );
    const unknown = namesIn(value).find((name) => !known.includes(name));
    if (unknown !== undefined)
      throw refuse(
        `${subject}: unknown name ${quoteName(unknown)}; expected one of ${listNames(known)}`,
      );
    return value;
  });
}

/**
 * Return a value of an interface with its whole numbers as bigints.
 * @param {Value} value
 * @returns {Value}
 */
function exact(value) {
  if (Array.isArray(value)) return value.map(exact);
  return typeof value === "number" && Number.isInteger(value) ? BigInt(value) : value;
}

/**
 * Return the numbers of a grid or a block.
 * @param {string} noun
 * @param {Expression[]} expressions
 * @param {ReadonlyMap<string, bigint>} values
 * @param {number} least
 * @param {(problem: string) => Error} refuse
 * @returns {Triple}
 */
function tripleOf(noun, expressions, values, least, refuse) {
  const numbers = restated(
    () => expressions.map((each) => evaluate(each, values)),
    ExpressionError,
    refuse,
  );
  if (numbers.some((number) => number < least))
    throw refuse(`the ${noun} is ${numbers.join(" × ")}; expected at least ${least}`);
  const [x = 1, y = 1, z = 1] = numbers.map(Number);
  return [x, y, z];
}

/**
 * Return a variant whose constants were set. The shader has the others.
 * @param {Variant} variant
 * @param {Record<string, number | bigint | boolean>} constants
 * @returns {Variant}
 */
export function withConstants(variant, constants) {
  const numbers = new Map(variant.numbers);
  for (const [name, value] of Object.entries(constants))
    if (typeof value === "bigint" || Number.isInteger(value)) numbers.set(name, BigInt(value));
  return { ...variant, set: {}, numbers };
}

/**
 * Return the grid of a call, from a variant's own.
 * @param {Plan} plan
 * @param {Variant} variant
 * @param {object | undefined} options Those of the call, which must be none.
 * @param {(argument: Argument) => unknown} valueOf Returns the value of an argument.
 */
export function ownGrid(plan, variant, options, valueOf) {
  const [word] = Object.keys(options ?? {});
  if (word !== undefined)
    throw callError(plan, `has a grid of its own, and was given ${word}; omit ${word}`, word);
  const names = new Set(variant.grid.flatMap(namesIn));
  const values = new Map(variant.numbers);
  for (const argument of plan.args) {
    const { name } = argument;
    // A constant hides an argument of its name.
    if (names.has(name) && !values.has(name)) values.set(name, integerOf(plan, argument, valueOf));
  }
  return tripleOf("grid", variant.grid, values, 0, (problem) => callError(plan, `: ${problem}`));
}

/**
 * @param {Plan} plan
 * @param {Argument} argument
 * @param {(argument: Argument) => unknown} valueOf
 */
function integerOf(plan, argument, valueOf) {
  const value = valueOf(argument);
  const pack = /** @type {NonNullable<Argument["pack"]>} */ (argument.pack);
  const bytes =
    value instanceof BlockBytes
      ? value.bytes.subarray(argument.offset)
      : restated(
          () => pack(value),
          ConversionError,
          (reason) => callError(plan, `: ${label(argument)}: ${reason}`, argument),
        );
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return BigInt(argument.type === "int32" ? view.getInt32(0, true) : view.getUint32(0, true));
}
