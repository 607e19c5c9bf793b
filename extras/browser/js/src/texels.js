// The numbers and the pictures of which images are made, and their checks.

import { elementType, parseDtype, TYPED_ARRAYS } from "./dtypes.js";
import { ArgumentError, restated } from "./errors.js";
import { IMAGE_FORMATS } from "./formats.js";
import { didYouMean } from "./near.js";
import { ConversionError, describeValue, viewOf } from "./scalars.js";

/** @import { ImageFormat } from "./formats.js" */

/** The numbers of an image: a typed array of the format's element type. @typedef {ArrayBufferView & ArrayLike<number>} Texels */

/** The formats to which a browser converts a picture. */
export const PICTURE_FORMATS = [
  "r8unorm",
  "rg8unorm",
  "rgba8unorm",
  "bgra8unorm",
  "r16float",
  "rg16float",
  "rgba16float",
  "r32float",
  "rg32float",
  "rgba32float",
];

/**
 * @param {string} method
 * @param {unknown} format
 * @returns {ImageFormat}
 */
export function formatOf(method, format) {
  const found = typeof format === "string" && IMAGE_FORMATS.get(format);
  if (found) return found;
  const hint = typeof format === "string" ? didYouMean(format, [...IMAGE_FORMATS.keys()]) : "";
  const known = [...IMAGE_FORMATS.keys()].join(", ");
  throw argumentError(
    method,
    "format",
    `${describeValue(format)} is not a format of images; expected one of ${known}${hint}`,
  );
}

/**
 * Whether a value is a picture of the browser.
 * @param {unknown} value
 * @returns {value is ImageData | ImageBitmap}
 */
export function isPicture(value) {
  // Chromium's page ends with one whose data was transferred to another thread.
  if (globalThis.ImageData && value instanceof ImageData && !value.data.length)
    throw new ArgumentError("the ImageData was transferred and has no pixels; pass a copy");
  return [globalThis.ImageData, globalThis.ImageBitmap].some(
    (each) => each && value instanceof each,
  );
}

/**
 * @param {string} method
 * @param {string} format
 */
export function checkPicture(method, format) {
  formatOf(method, format);
  if (PICTURE_FORMATS.includes(format)) return;
  throw argumentError(
    method,
    "format",
    `a picture cannot be copied to an image of ${format}, only its numbers; expected one of ${PICTURE_FORMATS.join(", ")}`,
  );
}

/**
 * Return the bytes of an array, and its element type; "" for bytes without a type.
 * @param {string} method
 * @param {unknown} source
 */
export function numbersOf(method, source) {
  const bytes = restated(
    () => viewOf(source),
    ConversionError,
    (reason) => argumentError(method, "source", `the source ${reason}`),
  );
  if (!bytes)
    throw argumentError(
      method,
      "source",
      `the source is ${describeValue(source)}, expected an ImageData, an ImageBitmap or a typed array`,
    );
  if (bytes.buffer instanceof ArrayBuffer === false)
    throw argumentError(method, "source", "the source is in a SharedArrayBuffer; pass a copy");
  return { bytes: /** @type {Uint8Array<ArrayBuffer>} */ (bytes), type: elementType(source) };
}

/**
 * Return the elements of a buffer as a typed array.
 * @param {string} dtype
 * @param {ArrayBuffer} buffer
 * @returns {Texels}
 */
export function arrayOf(dtype, buffer) {
  const name = Object.keys(TYPED_ARRAYS).find((each) => TYPED_ARRAYS[each] === dtype) ?? "";
  const known = /** @type {Record<string, new (buffer: ArrayBuffer) => Texels>} */ (
    /** @type {unknown} */ (globalThis)
  );
  return new (known[name] ?? (parseDtype(dtype)?.bits === 16 ? Uint16Array : Uint8Array))(buffer);
}

/** @param {readonly unknown[]} parts */
export function tuple(parts) {
  return `(${parts.join(", ")}${parts.length === 1 ? "," : ""})`;
}

/**
 * @param {string} method
 * @param {string} argument
 * @param {string} text
 */
export function argumentError(method, argument, text) {
  return new ArgumentError(`${method}: ${text}`, { argument });
}
