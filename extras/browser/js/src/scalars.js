// Conversion of scalars to little-endian bytes. Values that do not fit are refused, never truncated.

import { parseDtype } from "./dtypes.js";
import { bytesText, quoteName, restated } from "./errors.js";

/** A value cannot be converted. The message begins with the value and continues "argument 'x'". */
export class ConversionError extends Error {
  /**
   * @param {string} message
   * @param {string} [path] Where in a struct the reason is, as in `p.parts[1].n`.
   */
  constructor(message, path = "") {
    super(message);
    this.path = path;
  }
}

/**
 * The value of a scalar argument: a number, a boolean, a sequence of lanes, or the bytes of a struct.
 * @typedef {number | bigint | boolean | readonly (number | bigint | boolean)[] | ArrayBuffer | ArrayBufferView} Scalar
 */
/** @typedef {(value: unknown) => Uint8Array} Packer */

/**
 * Return the converter of a type; null if WGSL does not support the type.
 * @param {string} name As in "int32", "float16x4", or "uint8xN" for a struct of N bytes.
 * @param {number} align If it is more than 0, "uint8xN" is a struct.
 * @returns {Packer | null}
 */
export function packerOf(name, align) {
  const dtype = parseDtype(name);
  if (!dtype || dtype.lanes < 1) return null;
  const { code, bits, lanes } = dtype;
  if (code === 1 && bits === 8 && (align || lanes > 4)) return (value) => structBytes(value, lanes);
  const one = laneOf(code, bits, lanes === 1 ? name : name.slice(0, name.lastIndexOf("x")));
  if (!one) return null;
  const { width } = one;
  return (value) => {
    const result = new Uint8Array(width * lanes);
    const view = new DataView(result.buffer);
    if (lanes === 1) {
      one.put(view, 0, value);
      return result;
    }
    const listed = Array.isArray(value) || (ArrayBuffer.isView(value) && "length" in value);
    if (!listed)
      throw new ConversionError(`${describeValue(value)} is not a sequence of ${lanes} lanes`);
    const items = /** @type {ArrayLike<unknown>} */ (/** @type {unknown} */ (value));
    if (items.length !== lanes)
      throw new ConversionError(
        `${items.length} lanes cannot be passed as ${name}, which has ${lanes} lanes`,
      );
    for (let lane = 0; lane < lanes; lane++) {
      restated(
        () => one.put(view, lane * width, items[lane]),
        ConversionError,
        (reason) => new ConversionError(`lane ${lane}: ${reason}`),
      );
    }
    return result;
  };
}

/** @typedef {(view: DataView, at: number, value: unknown) => void} Put */

/**
 * @param {number} code
 * @param {number} bits
 * @param {string} name
 * @returns {{ width: number, put: Put } | null}
 */
function laneOf(code, bits, name) {
  if ((code === 6 && bits === 8) || (code === 1 && bits === 1)) {
    return {
      width: 4,
      put: (view, at, value) => view.setUint32(at, Number(booleanOf(value)), true),
    };
  }
  if (code === 0 || code === 1) {
    const low = code === 0 ? -(2n ** BigInt(bits - 1 < 0 ? 0 : bits - 1)) : 0n;
    const high = code === 0 ? -low - 1n : 2n ** BigInt(bits) - 1n;
    /** @type {Put} */
    const put = (view, at, value) => {
      const whole = BigInt.asUintN(bits, wholeOf(value, name, low, high));
      for (let byte = 0; byte < bits / 8; byte++)
        view.setUint8(at + byte, Number((whole >> BigInt(8 * byte)) & 255n));
    };
    return [8, 16, 32, 64].includes(bits) ? { width: bits / 8, put } : null;
  }
  if (code === 2 && (bits === 32 || bits === 16)) {
    /** @type {Put} */
    const put = (view, at, value) => {
      const number = realOf(value);
      if (isTooLarge(number, name)) throw new ConversionError(`${number} does not fit ${name}`);
      if (bits === 32) view.setFloat32(at, number, true);
      else view.setUint16(at, halfOf(number), true);
    };
    return { width: bits / 8, put };
  }
  return null; // WGSL does not support the type
}

/**
 * Whether a finite number is infinite in a type of floats.
 * @param {number} number
 * @param {string} type
 */
export function isTooLarge(number, type) {
  return Number.isFinite(number) && !Number.isFinite(rounded(type, number));
}

/**
 * Return the bytes of a type: in a block, where a bool takes 4; or as an array element, where three lanes take the space of four.
 * @param {string} type
 * @param {boolean} [element]
 */
export function widthOf(type, element = false) {
  const dtype = parseDtype(type);
  if (!dtype) return 0;
  const { code, bits, lanes } = dtype;
  const width = (code === 6 && bits === 8) || (code === 1 && bits === 1) ? 32 : bits;
  return Math.ceil(
    (width * (element && lanes === 3 && !(code === 1 && bits === 8) ? 4 : lanes)) / 8,
  );
}

/**
 * Return the bits of a float16, rounded to nearest, ties to even.
 * @param {number} value
 */
export function halfOf(value) {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = Object.is(value, -0) || value < 0 ? 0x8000 : 0;
  const size = Math.abs(rounded("float16", value));
  if (size === Infinity) return sign | 0x7c00;
  // The exponent, at least that of the subnormal numbers.
  const exponent = Math.max(Math.floor(Math.log2(size)), -14);
  return sign | (size * 2 ** (10 - exponent) + (exponent + 14) * 1024);
}

/**
 * Return a number as the value that it has in a type of floats, to nearest, ties to even. One that is too large is infinite.
 * @param {string} type
 * @param {number} value
 */
export function rounded(type, value) {
  if (type === "float64" || !Number.isFinite(value) || !value) return value;
  if (type === "float32") return Math.fround(value);
  const [digits, least, end] = type === "float16" ? [11, -14, 2 ** 16] : [8, -126, 2 ** 128];
  const unit = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(value))), least) - digits + 1);
  const [floor, rest] = [Math.floor(value / unit), (value / unit) % 1];
  const up = Math.abs(rest) === 0.5 ? Math.abs(floor % 2) : Math.round(value / unit) - floor;
  const result = (floor + up) * unit;
  return Math.abs(result) >= end ? result * Infinity : result;
}

/** @param {unknown} value */
function booleanOf(value) {
  if (value === true || value === 1 || value === 1n) return true;
  if (value === false || value === 0 || value === 0n) return false;
  throw new ConversionError(`${describeValue(value)} is not a bool`);
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {bigint} low
 * @param {bigint} high
 */
function wholeOf(value, name, low, high) {
  const whole =
    typeof value === "boolean" || (typeof value === "number" && Number.isInteger(value))
      ? BigInt(value)
      : value;
  if (typeof whole !== "bigint")
    throw new ConversionError(`${describeValue(value)} is not a whole number`);
  if (whole < low || whole > high)
    throw new ConversionError(`${whole} does not fit ${name} (${low} to ${high})`);
  return whole;
}

/** @param {unknown} value */
export function realOf(value) {
  if (!["number", "bigint", "boolean"].includes(typeof value))
    throw new ConversionError(`${describeValue(value)} is not a number`);
  const real = Number(value);
  if (typeof value === "bigint" && !Number.isFinite(real))
    throw new ConversionError(`${describeValue(value)} does not fit a floating-point type`);
  return real;
}

/**
 * @param {unknown} value
 * @param {number} size
 */
function structBytes(value, size) {
  const bytes = viewOf(value);
  if (!bytes)
    throw new ConversionError(
      `${describeValue(value)} is not a struct of ${bytesText(size)}; pass an ArrayBuffer or a typed array of that size`,
    );
  if (bytes.length !== size)
    throw new ConversionError(
      `${describeValue(value)} of ${bytesText(bytes.length)} cannot be passed as a struct, which has ${bytesText(size)}`,
    );
  return bytes.slice();
}

/**
 * Return the bytes of an ArrayBuffer or a view of one; null for other values.
 * @param {unknown} value
 */
export function viewOf(value) {
  const [memory, ...place] =
    value instanceof ArrayBuffer
      ? [value]
      : ArrayBuffer.isView(value)
        ? [value.buffer, value.byteOffset, value.byteLength]
        : [];
  return memory
    ? restated(
        () => new Uint8Array(memory, ...place),
        TypeError,
        () => new ConversionError("is in an ArrayBuffer that was transferred; pass a copy"),
      )
    : null;
}

/**
 * Return whether a value is a plain object, and not an array, a buffer or another object of a class.
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isRecord(value) {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * Describe a value for a message: numbers by value, others by type.
 * @param {unknown} value
 */
export function describeValue(value) {
  if (value === null || ["number", "boolean", "undefined"].includes(typeof value))
    return String(value);
  if (typeof value === "bigint")
    return value.toString().length < 60 ? String(value) : "a bigint of many digits";
  if (typeof value === "string") return value.length < 30 ? quoteName(value) : "a string";
  if (typeof value === "function") return "a function";
  const name = /** @type {object} */ (value).constructor?.name || "object";
  return `${/^[aeio]/i.test(name) ? "an" : "a"} ${name}`;
}
