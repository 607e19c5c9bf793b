// The formats of images, and which of them WebGPU's kernels can access. The table is that of devmod in Python.

import { quoteName } from "./errors.js";

/** @import { Param } from "./interface.js" */

/**
 * The format of an image's texels: the element type of its array, the numbers of a texel, what a kernel reads and writes, and the bytes.
 * @typedef {{ dtype: string, channels: number, sample: "float" | "int" | "uint", texelBytes: number }} ImageFormat
 */

/** @type {Readonly<Record<string, number>>} */
export const CHANNELS = { r: 1, rg: 2, rgba: 4 };
/** The element type, its bytes and the sample of each format without its channels. @type {[string, string, number, ImageFormat["sample"]][]} */
const TYPES = [
  ["8unorm", "uint8", 1, "float"],
  ["8snorm", "int8", 1, "float"],
  ["8uint", "uint8", 1, "uint"],
  ["8sint", "int8", 1, "int"],
  ["16unorm", "uint16", 2, "float"],
  ["16snorm", "int16", 2, "float"],
  ["16uint", "uint16", 2, "uint"],
  ["16sint", "int16", 2, "int"],
  ["16float", "float16", 2, "float"],
  ["32uint", "uint32", 4, "uint"],
  ["32sint", "int32", 4, "int"],
  ["32float", "float32", 4, "float"],
];
/** All formats by name. @type {ReadonlyMap<string, ImageFormat>} */
export const IMAGE_FORMATS = new Map([
  ...Object.entries(CHANNELS).flatMap(([prefix, channels]) =>
    TYPES.map(
      ([name, dtype, size, sample]) =>
        /** @type {const} */ ([
          prefix + name,
          { dtype, channels, sample, texelBytes: size * channels },
        ]),
    ),
  ),
  ["bgra8unorm", { dtype: "uint8", channels: 4, sample: "float", texelBytes: 4 }],
]);
/** The dimensions of WebGPU's views by the type of an image. It has no arrays of 1-D images. @type {Readonly<Record<string, GPUTextureViewDimension>>} */
export const VIEWS = { "1d": "1d", "2d": "2d", "3d": "3d", "2d_array": "2d-array" };

/**
 * Return why a WebGPU kernel cannot have a parameter of kind image, as the end of a sentence; "" if it can. A storage image has a format,
 * a sampled one has none.
 * @param {Pick<Param, "type" | "format" | "sample" | "access">} param
 */
export function paramProblem({ type, format, sample, access }) {
  if (!type)
    return "has no type of an image in its interface; compile the shader with this version of devmod";
  if (!Object.hasOwn(VIEWS, type))
    return `is an image of type ${type}, which WebGPU does not support`;
  if (format && !IMAGE_FORMATS.has(format))
    return `is an image of ${quoteName(format)}, which is not a known format`;
  if (format && !access) return "has no access in its interface";
  if (!format && access !== "r") return "is a written image without a format in its interface";
  return format || sample ? "" : "has neither a format nor a sample in its interface";
}

/**
 * Return the feature that a device needs for storage images of a format; "" for none, null if no device supports them.
 * @param {string} format
 * @param {Param["access"]} access
 */
export function storageFeature(format, access) {
  if (format === "bgra8unorm") return access === "w" ? "bgra8unorm-storage" : null;
  if (access === "rw" && !format.startsWith("r32")) {
    return /^(r|rgba)(8(unorm|uint|sint)|16(uint|sint|float)|32.*)$/.test(format)
      ? "texture-formats-tier2"
      : null;
  }
  return /^rgba(8.*|16(uint|sint|float))$|32/.test(format) ? "" : "texture-formats-tier1";
}

/**
 * Whether linear samplers can read images of a format on a device.
 * @param {GPUDevice} device
 * @param {string} format
 */
export function isFilterable(device, format) {
  return !format.endsWith("32float") || device.features.has("float32-filterable");
}
