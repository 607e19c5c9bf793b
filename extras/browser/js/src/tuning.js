// The variants of a tuned function, each as a function that is not tuned. Records of times are not read: the first variant that fits is launched.

import { isIdentifier, listOf, show, typeName, unknownNeeds } from "./checks.js";
import { parseDtype } from "./dtypes.js";
import { invalidFunction, listNames, NewerError, quoteName, restated } from "./errors.js";
import { evaluate, ExpressionError, LEAST, MOST, namesIn, readExpression } from "./expressions.js";
import { readInterface } from "./interface.js";
import { isMap, withNumbers } from "./msgpack.js";
import { callError, label } from "./plan.js";
import { BlockBytes } from "./records.js";
import { ConversionError } from "./scalars.js";

/** @import { Refuse } from "./checks.js" */
/** @import { Expression } from "./expressions.js" */
/** @import { Interface, Param } from "./interface.js" */
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
 * @property {Map<string, bigint>} numbers The constants that are integers in each variant.
 * @property {Expression[]} grid Its own grid; [] if the call gives it.
 */
/**
 * What the file has of a variant: its values, in the order of the constants, its expressions, and its own interface.
 * @typedef {{ values: Value[], grid: Expression[], block: Expression[], own: Value }} Fields
 */
/**
 * The variants of a tuned function, and what they have in common. `numbers` are the constants that are integers in each variant.
 * @typedef {{ constants: string[], numbers: string[], isSpecialized: boolean, variants: Fields[] }} Tuning
 */

/**
 * Return the variants of a tuned function, in their order. All are checked; the interface and the block of one are when it is taken.
 * A variant with an interface that only a newer devmod-webgpu reads is left out.
 * @param {string} description The function, for messages.
 * @param {FunctionInfo} info
 * @returns {Generator<Variant>}
 */
export function* variantsOf(description, info) {
  const refuse = (/** @type {string} */ problem) => invalidFunction(`${description}: ${problem}`);
  const tuning = readTuning(/** @type {Interface} */ (info.interface), refuse);
  /** @type {NewerError | null} */
  let newer = null;
  let count = 0;
  for (const fields of tuning.variants) {
    try {
      yield variantOf(info, tuning, fields, refuse);
      count++;
    } catch (error) {
      if (!(error instanceof NewerError)) throw error;
      newer ??= error;
    }
  }
  if (newer && !count) throw newer;
}

/**
 * @param {Interface} known
 * @param {Refuse} refuse
 * @returns {Tuning}
 */
function readTuning({ params, extra }, refuse) {
  const tune = readMap(extra.tune, "the key tune", ["constants", "variants"], refuse);
  const constants = readNames(tune, "constants", refuse);
  const sizes = readNames(tune, "sizes", refuse);
  const integers = params.filter(isInteger).map(({ name }) => name);
  checkKnown(sizes, integers, "sizes", refuse);
  const maps = listOf(tune.variants, "the variants of a function are", refuse);
  if (!constants.length || !maps.length || maps.length > MAX_VARIANTS) {
    const expected = `expected at least one constant, and 1 to ${MAX_VARIANTS} variants`;
    throw refuse(
      `a tuned function has ${constants.length} constants and ${maps.length} variants; ${expected}`,
    );
  }

  const all = maps.map((each) => readMap(each, "a variant", ["values"], refuse));
  const values = all.map((each) => readValues(each, constants, refuse));
  const different = new Set(values.map((each) => JSON.stringify(each.map(keyOf))));
  if (different.size < values.length) throw refuse("two variants have equal values");
  const numbers = constants.filter((_, at) => values.every((each) => typeof each[at] === "bigint"));
  const names = [...numbers, ...integers.filter((name) => !constants.includes(name))];
  const grid = expressionsOf("grid", tune.grid, names, [], refuse);
  const block = expressionsOf("block", tune.block, numbers, [], refuse);
  const variants = all.map((each, at) => ({
    values: /** @type {Value[]} */ (values[at]),
    grid: expressionsOf("grid", each.grid, names, grid, refuse),
    block: expressionsOf("block", each.block, numbers, block, refuse),
    own: each.interface ?? null,
  }));
  if (new Set(variants.map((each) => each.grid.length > 0)).size > 1)
    throw refuse("some variants have a grid, and others have none");
  return { constants, numbers, isSpecialized: tune.specialized === true, variants };
}

/**
 * Whether an argument is one integer.
 * @param {Param} param
 */
function isInteger({ kind, type, members }) {
  const { code = 2, lanes } = parseDtype(type) ?? {};
  return kind === "scalar" && code < 2 && lanes === 1 && !members.length;
}

/**
 * @param {unknown} value
 * @param {string} subject
 * @param {string[]} needed The keys that the map must have.
 * @param {Refuse} refuse
 */
function readMap(value, subject, needed, refuse) {
  if (!isMap(value)) throw refuse(`${subject} is a map with string keys, not ${typeName(value)}`);
  for (const key of needed) if (!(key in value)) throw refuse(`${subject} has no '${key}'`);
  return /** @type {{ [key: string]: Value }} */ (value);
}

/**
 * Return the identifiers in a list of a map.
 * @param {{ [key: string]: Value }} tune
 * @param {string} key
 * @param {Refuse} refuse
 */
function readNames(tune, key, refuse) {
  const { [key]: names = [] } = tune;
  const isName = (/** @type {Value} */ each) => typeof each === "string" && isIdentifier(each);
  if (
    !Array.isArray(names) ||
    names.length > MAX_NAMES ||
    !names.every(isName) ||
    new Set(names).size !== names.length
  ) {
    throw refuse(
      `the ${key} of a tuned function are ${show(names)}; expected at most ${MAX_NAMES} different identifiers`,
    );
  }
  return /** @type {string[]} */ (names);
}

/**
 * Return the values of a variant.
 * @param {{ [key: string]: Value }} map
 * @param {string[]} constants
 * @param {Refuse} refuse
 */
function readValues(map, constants, refuse) {
  const values = listOf(map.values, "the values of a variant are", refuse);
  if (values.length !== constants.length)
    throw refuse(`a variant has ${values.length} values for ${constants.length} constants`);
  for (const value of values) {
    if (!isConstant(value)) {
      const expected = "expected a boolean, an int of 64 bits, a finite float or a string";
      throw refuse(`a constant has the value ${show(value)}; ${expected}`);
    }
  }
  return values;
}

/**
 * Whether a constant can have a value.
 * @param {Value} value
 */
function isConstant(value) {
  if (typeof value === "bigint") return value >= LEAST && value <= MOST;
  if (typeof value === "number") return Number.isFinite(value);
  return typeof value === "boolean" || typeof value === "string";
}

/**
 * Return a text that equal values have in common. Numbers are equal by their values, and a boolean is 0 or 1.
 * @param {Value} value
 */
function keyOf(value) {
  if (typeof value === "string") return `text ${value}`;
  const isWhole = typeof value !== "number" || Number.isInteger(value);
  return isWhole ? String(BigInt(/** @type {bigint | number | boolean} */ (value))) : String(value);
}

/**
 * Return a variant with its interface and its block.
 * @param {FunctionInfo} info
 * @param {Tuning} tuning
 * @param {Fields} fields
 * @param {Refuse} refuse
 * @returns {Variant}
 */
function variantOf(
  info,
  { constants, numbers, isSpecialized },
  { values, grid, block, own },
  refuse,
) {
  /** @type {Map<string, bigint>} */
  const integers = new Map();
  /** @type {Record<string, unknown>} */
  const all = Object.create(null);
  constants.forEach((name, at) => {
    all[name] = values[at];
    if (numbers.includes(name)) integers.set(name, /** @type {bigint} */ (values[at]));
  });
  const set = isSpecialized ? withNumbers(all) : {};

  const known = /** @type {Interface} */ (info.interface);
  const { tune: _, ...extra } = known.extra;
  let plain = { ...known, extra };
  if (own !== null) {
    const map = readMap(own, "an interface", [], refuse);
    const needs = unknownNeeds(map.needs);
    const refuseOwn = (/** @type {string} */ problem) =>
      needs.length ? newerVariant(needs, refuse) : refuse(problem);
    plain = readInterface(map, refuseOwn);
    if (JSON.stringify(valuesOf(plain)) !== JSON.stringify(valuesOf(known)))
      throw refuseOwn("the interface of a variant has other parameters than the function");
    delete plain.extra.tune;
  }
  const needs = plain.needs.filter((need) => need !== "tuned");
  const threads = block.length ? tripleOf("block", block, integers, 1, refuse) : plain.block;
  return {
    info: { ...info, interface: { ...plain, block: threads, needs } },
    set: /** @type {Record<string, number>} */ (set),
    numbers: integers,
    grid,
  };
}

/**
 * Return the error for a variant with an interface that only a newer devmod-webgpu reads.
 * @param {string[]} needs
 * @param {Refuse} refuse
 */
function newerVariant(needs, refuse) {
  const problem = `a variant needs ${listNames(needs)}, which a newer devmod-webgpu reads`;
  return new NewerError(refuse(problem).message, { kind: "webgpu" });
}

/**
 * Return the names and the types of what a kernel takes.
 * @param {Interface} known
 */
function valuesOf({ params }) {
  return params.map(({ name, type, pack }) => [name, type, pack]);
}

/**
 * @param {string} key
 * @param {Value | undefined} list
 * @param {readonly string[]} known The names that may occur.
 * @param {Expression[]} missing What a map without the key has.
 * @param {Refuse} refuse
 */
function expressionsOf(key, list, known, missing, refuse) {
  if (list === undefined || list === null) return missing;
  const subject = `the ${key} of a tuned function`;
  if (!Array.isArray(list) || !list.length || list.length > 3)
    throw refuse(`${subject} is a list of one to three expressions`);
  return list.map((each) => {
    const value = restated(
      () => readExpression(each),
      ExpressionError,
      (reason) => refuse(`${subject} ${reason}`),
    );
    checkKnown(namesIn(value), known, key, refuse);
    return value;
  });
}

/**
 * @param {readonly string[]} names
 * @param {readonly string[]} known
 * @param {string} key
 * @param {Refuse} refuse
 */
function checkKnown(names, known, key, refuse) {
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw refuse(
    `the ${key} of a tuned function: unknown name ${quoteName(unknown)}; expected one of ${listNames(known)}`,
  );
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
