// The arguments of a call of a program: by position and by name, their lengths, and the shapes of all arrays. Nothing here uses the device.

import { argument } from "./plan.js";
import { padded } from "./device.js";
import { bufferBinding, hostArray, imageBinding, overlaps } from "./arguments.js";
import { ArgumentError, bytesText, listNames, repr, restated } from "./errors.js";
import { COMPARISONS, evaluate, ExpressionError, expressionText, namesIn } from "./expressions.js";
import { didYouMean } from "./near.js";
import { isInteger, unitOf } from "./programs.js";
import {
  ConversionError,
  describeValue,
  isRecord,
  isTooLarge,
  packerOf,
  realOf,
  rounded,
} from "./scalars.js";
import { isPicture, PICTURE_FORMATS, tuple } from "./texels.js";

/** @import { Expression } from "./expressions.js" */
/** @import { Image } from "./images.js" */
/** @import { Encode } from "./launch.js" */
/** @import { Param } from "./interface.js" */
/** @import { Declared, Program, Repeat, Scalar } from "./programs.js" */

/** Returns the error for a text and an argument. @typedef {(text: string, argument?: string) => ArgumentError} Refuse */
/**
 * An array of a call: the bytes of the host, a binding of a device buffer, an image of the device, or a picture. `bytes` are its size, and
 * `extent` the height and the width of an image or a picture.
 * @typedef {object} Taken
 * @property {Declared} declared
 * @property {Uint8Array | null} host
 * @property {GPUBufferBinding | null} binding
 * @property {Image | GPUTexture | null} image
 * @property {ImageData | ImageBitmap | null} picture
 * @property {number} bytes
 * @property {[number, number] | null} extent
 */
/** @typedef {{ taken: Map<string, Taken>, scalars: Map<string, number | bigint | boolean>, lengths: Map<string, bigint>, given: Map<string, unknown> }} Arguments */

/**
 * What a call has beside its arguments, for lengths and for which arrays the host gives. `cleared` has the arrays that are zero when the
 * first step uses them, `turns` the number of turns of each repeat, and `places` the numbers of the arrays in the shared memory of each form, and the sizes of that. `launches` encode
 * the steps for the resources and the scalars in `key`, `steps` has the number of the step of each (-1 for none), and `owned` are the buffers of
 * the scalars.
 * @typedef {object} Plan
 * @property {Shapes} shapes
 * @property {Map<Repeat, number>} turns
 * @property {Set<string>} cleared
 * @property {[string, Map<string, number>, number[]][]} places
 * @property {Encode[]} launches
 * @property {number[]} steps
 * @property {unknown[]} key
 * @property {GPUBuffer[]} owned
 */

/** Options of a kernel's launch, and Python's word for shared memory. */
const LAUNCH = ["grid", "threads", "block", "shared_memory"];

/**
 * Check the arguments of a call, and return them by name.
 * @param {Program} program
 * @param {readonly unknown[]} args By position; a record behind them has more by name.
 * @param {GPUDevice} device
 * @param {boolean} bound
 * @param {Refuse} error
 * @returns {Arguments}
 */
export function readArguments(program, args, device, bound, error) {
  const given = arrange(program, args, error);
  /** @type {Arguments} */
  const result = { taken: new Map(), scalars: new Map(), lengths: new Map(), given };
  for (const scalar of program.scalars)
    result.scalars.set(scalar.name, readScalar(scalar, given.get(scalar.name), error));
  for (const name of program.lengthNames)
    if (given.has(name)) result.lengths.set(name, readLength(name, given.get(name), error));
  for (const declared of program.arrays("input", "update", "output", "state")) {
    const value = given.get(declared.name);
    if (declared.role === "output" && (value === undefined || value === null)) continue;
    const refuse = (/** @type {string} */ reason) =>
      error(`the argument ${repr(declared.name)} ${reason}`, declared.name);
    result.taken.set(
      declared.name,
      restated(() => take(declared, value, device, bound), ConversionError, refuse),
    );
  }
  checkOverlaps([...result.taken.values()], error);
  return result;
}

/**
 * Return a length that a call gives.
 * @param {string} name
 * @param {unknown} length
 * @param {Refuse} error
 */
export function readLength(name, length, error) {
  if (typeof length === "bigint" || Number.isSafeInteger(length))
    return BigInt(/** @type {number} */ (length));
  throw error(`the length ${repr(name)} is an integer, got ${describeValue(length)}`, name);
}

/**
 * @param {Program} program
 * @param {readonly unknown[]} args
 * @param {Refuse} error
 */
function arrange(program, args, error) {
  const names = program.parameters.map(({ name }) => name);
  const outputs = program.arrays("output").map(({ name }) => name);
  const states = program.arrays("state").map(({ name }) => name);
  const last = args.at(-1);
  const isBinding = isRecord(last) && typeof last.buffer === "object" && !names.includes("buffer");
  const named = isRecord(last) && !isBinding ? { ...last } : {};
  const byPosition = isRecord(last) && !isBinding ? args.slice(0, -1) : args;
  if (states.length) {
    Object.assign(named, stateOf(states, named, error));
    delete named.state;
  }
  if (byPosition.length > names.length) {
    throw error(
      `it takes ${names.length} ${names.length === 1 ? "argument" : "arguments"} by position, ${listNames(names)}; ${byPosition.length} given`,
    );
  }
  const values = new Map(byPosition.map((value, at) => [String(names[at]), value]));
  for (const [name, value] of Object.entries(named)) {
    if (values.has(name))
      throw error(`the argument ${repr(name)} is given by position and by name`, name);
    if (![...names, ...outputs, ...states, ...program.lengthNames].includes(name)) {
      const why =
        "the steps of a program have their own, which follow from the shapes and the scalars of the call";
      if (LAUNCH.includes(name)) throw error(`it takes no ${name}: ${why}`, name);
      const known = [...names, ...outputs];
      throw error(
        `it has no argument ${repr(name)}; it has ${listNames(known)}${didYouMean(name, known)}`,
        name,
      );
    }
    values.set(name, value);
  }
  for (const { name, value } of program.scalars)
    if (!values.has(name) && value !== null) values.set(name, value);
  const missing = names.filter((name) => !values.has(name));
  if (missing.length) throw error(`it also needs ${listNames(missing)}`, missing[0]);
  return values;
}

/**
 * Return the arrays of the state that a call gives.
 * @param {string[]} states
 * @param {Record<string, unknown>} named
 * @param {Refuse} error
 */
function stateOf(states, named, error) {
  const { state } = named;
  if (state === undefined || state === null) {
    throw error(
      `it has a state, ${listNames(states)}: s = await f.state() makes it, and f(…, { state: s }) uses it`,
      "state",
    );
  }
  if (!isRecord(state) || states.some((each) => !(each in state))) {
    const got = isRecord(state) ? listNames(Object.keys(state)) : describeValue(state);
    throw error(
      `state takes what f.state() returns, arrays by name: ${listNames(states)}; got ${got}`,
      "state",
    );
  }
  const alone = states.find((each) => each in named);
  if (alone) throw error(`${repr(alone)} is of the state, which state gives`, alone);
  return Object.fromEntries(states.map((each) => [each, state[each]]));
}

/**
 * Return a scalar of a call, rounded to its type.
 * @param {Scalar} scalar
 * @param {unknown} value
 * @param {Refuse} error
 * @returns {number | bigint | boolean}
 */
function readScalar({ name, type }, value, error) {
  restated(
    () => {
      (packerOf(type, 0) ?? realOf)(value);
      if (type === "bfloat16" && isTooLarge(realOf(value), type))
        throw new ConversionError(`${value} does not fit ${type}`);
    },
    ConversionError,
    (reason) => error(`the argument ${repr(name)}: ${reason}`, name),
  );
  if (isInteger(type)) return BigInt(/** @type {bigint} */ (value));
  return type === "bool" ? Boolean(value) : rounded(type, realOf(value));
}

/**
 * @param {Declared} declared
 * @param {unknown} value
 * @param {GPUDevice} device
 * @param {boolean} bound
 * @returns {Taken}
 */
function take(declared, value, device, bound) {
  const { name, role, type, format, texel } = declared;
  /** @type {Taken} */
  const result = {
    declared,
    host: null,
    binding: null,
    image: null,
    picture: null,
    bytes: 0,
    extent: null,
  };
  const wanted = argument({ number: 0, name, type, written: role !== "input" });
  Object.assign(wanted, { taker: "program", least: 0, unit: unitOf(declared) });
  if (texel) {
    if (isPicture(value) && PICTURE_FORMATS.includes(format) && !bound)
      return { ...result, picture: value, extent: [value.height, value.width] };
    if (!ArrayBuffer.isView(value) || bound) {
      wanted.image = /** @type {Param} */ ({
        name,
        kind: "image",
        type: "2d",
        format,
        sample: texel.sample,
        access: "rw",
      });
      const { handle } = imageBinding(wanted, value, device);
      if (!("width" in handle))
        throw new ConversionError(
          "is a GPUTextureView, whose size is unknown; pass the GPUTexture",
        );
      const { width, height } = /** @type {GPUTexture} */ (handle);
      return {
        ...result,
        image: /** @type {Image | GPUTexture} */ (value),
        extent: [height, width],
      };
    }
  }
  const binding = texel ? null : bufferBinding(wanted, value, device);
  if (binding) return { ...result, binding, bytes: Number(binding.size) };
  const { bytes } = hostArray(wanted, value, bound, device);
  return { ...result, host: bytes, bytes: bytes.length };
}

/**
 * Throw ArgumentError if an array that the program writes has memory of another argument.
 * @param {Taken[]} all
 * @param {Refuse} error
 */
function checkOverlaps(all, error) {
  const places = all.map(({ host, binding, image, declared }) => ({
    declared,
    memory: host?.buffer ?? binding?.buffer ?? (image && "handle" in image ? image.handle : image),
    start: host?.byteOffset ?? binding?.offset ?? 0,
    size: host?.length ?? binding?.size ?? 1,
  }));
  places.forEach((two, number) => {
    for (const one of places.slice(0, number)) {
      if (!overlaps(one, two) || (one.declared.role === "input" && two.declared.role === "input"))
        continue;
      const text = `overlaps the argument ${repr(one.declared.name)}, and the program writes to one of them; pass a copy of it`;
      throw error(`the argument ${repr(two.declared.name)} ${text}`, two.declared.name);
    }
  });
}

/**
 * Return the values of the names in shapes, from the sizes of the arrays, the constants, and the lengths that the call gives.
 * @param {Program} program
 * @param {Arguments} args
 * @param {ReadonlyMap<string, { shape: readonly (number | bigint)[] }>} constants
 * @param {Refuse} error
 */
export function bindLengths(program, { taken, scalars, lengths }, constants, error) {
  /** @type {Map<string, bigint>} */
  const values = new Map(lengths);
  for (const { name, type } of program.scalars)
    if (isInteger(type)) values.set(name, /** @type {bigint} */ (scalars.get(name)));
  const arrays = program
    .arrays("input", "update", "state")
    .map((each) => /** @type {Taken} */ (taken.get(each.name)));
  /** The shapes that are known, of images and constants. @type {[Declared, readonly (number | bigint)[]][]} */
  const known = arrays.flatMap(({ declared, extent }) => (extent ? [[declared, extent]] : []));
  for (const each of program.arrays("constant"))
    known.push([each, constants.get(each.name)?.shape ?? []]);
  for (const [{ shape }, found] of known) bindNames(shape, found, values);
  let open = arrays.filter(({ extent }) => !extent);
  for (let count = NaN; count !== open.length; ) {
    count = open.length;
    open = open.filter((each) => !bindOne(each, values, error));
  }
  for (const {
    declared: { name, shape },
    bytes,
  } of open) {
    const unknown = [...new Set(shape.flatMap(namesIn))].filter((each) => !values.has(each));
    throw error(
      `the argument ${repr(name)} of ${bytesText(bytes)} leaves the lengths ${listNames(unknown)} open; give them by name: ${unknown[0]}: …`,
      name,
    );
  }
  for (const [{ name, shape }, found] of known) {
    valuesOf(name, shape, values, error).forEach((number, at) => {
      if (number !== BigInt(found[at] ?? 0))
        throw error(differs(name, found, at, /** @type {Expression} */ (shape[at]), number), name);
    });
  }
  for (const { declared, bytes, host, extent } of arrays)
    if (!extent)
      checkSize(
        declared,
        bytes,
        Boolean(host),
        valuesOf(declared.name, declared.shape, values, error),
        error,
      );
  return values;
}

/**
 * Give the unknown names in a shape their values.
 * @param {readonly Expression[]} shape
 * @param {readonly (number | bigint)[]} found
 * @param {Map<string, bigint>} values
 */
export function bindNames(shape, found, values) {
  shape.forEach((length, at) => {
    if (typeof length === "string" && !values.has(length))
      values.set(length, BigInt(found[at] ?? 0));
  });
}

/**
 * Give the one unknown name in the shape of an array its value. Return false if there are several, or one within an expression.
 * @param {Taken} taken
 * @param {Map<string, bigint>} values
 * @param {Refuse} error
 */
function bindOne({ declared, bytes }, values, error) {
  const { name, shape } = declared;
  const unknown = new Set(shape.flatMap(namesIn).filter((each) => !values.has(each)));
  if (!unknown.size) return true;
  const [length = ""] = unknown;
  const others = shape.filter((each) => each !== length);
  const each = valuesOf(
    name,
    others.filter((one) => !namesIn(one).some((known) => unknown.has(known))),
    values,
    error,
  ).reduce((one, other) => one * other, 1n);
  if (unknown.size > 1 || others.some((one) => namesIn(one).includes(length)) || each < 1n)
    return false;
  const count = Math.floor(bytes / unitOf(declared) / Number(each));
  const times = shape.length - others.length; // [n, n] is square
  values.set(length, BigInt(times === 1 ? count : Math.floor(count ** (1 / times) + 1e-9)));
  return true;
}

/**
 * @param {string} name
 * @param {Expression[]} shape
 * @param {ReadonlyMap<string, bigint>} values
 * @param {Refuse} error
 */
export function valuesOf(name, shape, values, error) {
  return restated(
    () => shape.map((each) => evaluate(each, values)),
    ExpressionError,
    (reason) => error(`the shape of ${repr(name)}: ${reason}`, name),
  );
}

/**
 * @param {string} name
 * @param {readonly (number | bigint)[]} found
 * @param {number} at
 * @param {Expression} expected
 * @param {bigint} number
 */
function differs(name, found, at, expected, number) {
  const text = expressionText(expected);
  const value = text === String(number) ? "" : `, which is ${number}`;
  return `the argument ${repr(name)} has the shape ${tuple(found)}; dimension ${at + 1} is ${found[at]}, and expected is ${text}${value}`;
}

/**
 * Throw ArgumentError if an array has another number of elements than its shape. A device buffer is padded to 4 bytes.
 * @param {Declared} declared
 * @param {number} bytes
 * @param {boolean} exact
 * @param {readonly bigint[]} lengths
 * @param {Refuse} error
 */
export function checkSize(declared, bytes, exact, lengths, error) {
  const { name, role, shape } = declared;
  const unit = unitOf(declared);
  const count = Number(lengths.reduce((one, other) => one * other, 1n));
  if (
    bytes === (exact ? count * unit : padded(count * unit)) &&
    lengths.every((each) => each >= 0n)
  )
    return;
  const found = [Math.floor(bytes / unit)];
  if (role === "output")
    throw error(
      `the argument ${repr(name)} has ${found} elements, and the program returns ${tuple(lengths)}`,
      name,
    );
  if (shape.length === 1)
    throw error(
      differs(
        name,
        found,
        0,
        /** @type {Expression} */ (shape[0]),
        /** @type {bigint} */ (lengths[0]),
      ),
      name,
    );
  const text = shape.map((each) => expressionText(each)).join(", ");
  throw error(
    `the argument ${repr(name)} has ${found} elements, and expected are ${count}: its shape [${text}] is ${tuple(lengths)}`,
    name,
  );
}

/**
 * The values of the names of a call, and the lengths and the bytes of the program's outputs and temporaries.
 * @typedef {{ values: ReadonlyMap<string, bigint>, lengths: Map<string, number[]>, bytes: Map<string, number> }} Shapes
 */

/**
 * Return the values of the names inside expressions, for a message: " with columns=6". An
 * expression that is a name has its value in the message already.
 * @param {Expression[]} expressions
 * @param {ReadonlyMap<string, bigint>} values
 * @returns {string}
 */
export function givenValues(expressions, values) {
  const inside = expressions.filter((each) => typeof each !== "string");
  const names = [...new Set(inside.flatMap((each) => [...namesIn(each)]))];
  if (!names.length) return "";
  return ` with ${names.map((name) => `${name}=${values.get(name)}`).join(", ")}`;
}

/**
 * Return the shapes of a call. Throw ArgumentError if the program requires others.
 * @param {Program} program
 * @param {ReadonlyMap<string, bigint>} values The values of the names.
 * @param {GPUSupportedLimits} limits
 * @param {Refuse} error
 * @returns {Shapes}
 */
export function shapesOf(program, values, limits, error) {
  for (const [name, left, right] of program.requires) {
    const number = (/** @type {Expression} */ side) =>
      restated(
        () => evaluate(side, values),
        ExpressionError,
        (reason) => error(`requires: ${reason}`),
      );
    const [one, other] = [number(left), number(right)];
    if (COMPARISONS[name]?.(one, other)) continue;
    throw error(
      `it requires ${expressionText(left)} ${name} ${expressionText(right)}, and that is ${one} ${name} ${other}${givenValues([left, right], values)}`,
    );
  }
  const measured = program
    .arrays("output", "temporary")
    .map((array) => /** @type {const} */ ([array.name, measure(array, values, limits, error)]));
  return {
    values,
    lengths: new Map(measured.map(([name, [lengths]]) => [name, lengths])),
    bytes: new Map(measured.map(([name, [, bytes]]) => [name, bytes])),
  };
}

/**
 * Return the lengths and the bytes of an array. Throw ArgumentError if it cannot have them.
 * @param {Declared} array
 * @param {ReadonlyMap<string, bigint>} values
 * @param {GPUSupportedLimits} limits
 * @param {Refuse} error
 * @returns {[number[], number]}
 */
export function measure(array, values, limits, error) {
  const { name, shape, format } = array;
  const lengths = valuesOf(name, shape, values, error);
  if (lengths.some((each) => each < 0n))
    throw error(
      `the shape of ${repr(name)} is ${tuple(lengths)}, which has a negative length`,
      name,
    );
  if (format && lengths.includes(0n))
    throw error(
      `the shape of the image ${repr(name)} is ${tuple(lengths)}; expected lengths of 1 or more`,
      name,
    );
  const unit = BigInt(unitOf(array));
  if (lengths.reduce((one, other) => one * (other || 1n), unit) >= 2n ** 63n) {
    throw error(
      `the array ${repr(name)} of shape ${tuple(lengths)} has more bytes than 64 bits can count`,
      name,
    );
  }
  const bytes = lengths.reduce((one, other) => one * other, unit);
  const problem = limitProblem(array, lengths, bytes, limits);
  if (problem) throw error(problem, name);
  return [lengths.map(Number), Number(bytes)];
}

/**
 * Return the limit of a device that an array exceeds, as a sentence; "" for none.
 * @param {Declared} array
 * @param {readonly bigint[]} lengths
 * @param {bigint} bytes
 * @param {GPUSupportedLimits} limits
 */
function limitProblem({ name, format }, lengths, bytes, limits) {
  /** @type {("maxTextureDimension2D" | "maxStorageBufferBindingSize" | "maxBufferSize")[]} */
  const names = format
    ? ["maxTextureDimension2D"]
    : ["maxStorageBufferBindingSize", "maxBufferSize"];
  const limit = names.find((each) =>
    (format ? lengths : [bytes]).some((amount) => amount > limits[each]),
  );
  if (!limit) return "";
  const what = format
    ? `the image ${repr(name)} has the shape ${tuple(lengths)}`
    : `the array ${repr(name)} has ${bytesText(bytes)}`;
  return `${what}, but the limit of this device is ${limits[limit]} (${limit})`;
}

/**
 * Throw the first limit of a device that an array of fixed size exceeds.
 * @param {Program} program
 * @param {GPUSupportedLimits} limits
 */
export function fixedProblem(program, limits) {
  for (const array of program.arrays()) {
    if (!array.shape.every((each) => typeof each === "bigint")) continue;
    const lengths = /** @type {bigint[]} */ (array.shape);
    const problem = limitProblem(
      array,
      lengths,
      lengths.reduce((one, other) => one * other, BigInt(unitOf(array))),
      limits,
    );
    if (problem) return problem;
  }
  return "";
}
