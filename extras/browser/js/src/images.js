// Images and samplers on a device. The words and the messages are those of devmod in Python (devmod_runtime/_device/image.py).

import { chosenDevice, readBack, runGuarded, TextureUsage, Usage } from "./device.js";
import { bytesText, LaunchError, quoteName, repr } from "./errors.js";
import { CHANNELS, IMAGE_FORMATS, storageFeature } from "./formats.js";
import { didYouMean } from "./near.js";
import { describeValue } from "./scalars.js";
import {
  argumentError,
  arrayOf,
  checkPicture,
  formatOf,
  isPicture,
  numbersOf,
  PICTURE_FORMATS,
  tuple,
} from "./texels.js";

/** @import { ImageFormat } from "./formats.js" */
/** @import { Texels } from "./texels.js" */

/** @typedef {"nearest" | "linear"} Filter */
/** @typedef {"clamp" | "repeat" | "mirror"} Address */

/** The formats of `imageFrom` by element type, without the channels. @type {Readonly<Record<string, string>>} */
const DEFAULT_TYPES = {
  uint8: "8unorm",
  int8: "8snorm",
  uint16: "16uint",
  int16: "16sint",
  float16: "16float",
  uint32: "32uint",
  int32: "32sint",
  float32: "32float",
};
/** @type {Readonly<Record<Filter, GPUFilterMode>>} */
const FILTERS = { nearest: "nearest", linear: "linear" };
/** @type {Readonly<Record<Address, GPUAddressMode>>} */
const ADDRESSES = { clamp: "clamp-to-edge", repeat: "repeat", mirror: "mirror-repeat" };

/** An image in a device's memory: `image` and `imageFrom` return one. */
export class Image {
  #destroyed = false;

  /**
   * @param {GPUDevice} device
   * @param {readonly number[]} shape
   * @param {string} format
   * @param {number} layers
   * @param {GPUTexture} handle
   */
  constructor(device, shape, format, layers, handle) {
    /** The device that has its memory. */
    this.device = device;
    /** Its width, height and depth in texels: x first, like a grid. */
    this.shape = shape;
    /** Its format, as in "rgba8unorm". */
    this.format = format;
    /** The number of its layers; 0 if it is no array of images. */
    this.layers = layers;
    /** WebGPU's object. */
    this.handle = handle;
  }

  /** Its type as in an interface: "1d", "2d", "3d" or "2d_array". */
  get type() {
    return `${this.shape.length}d${this.layers ? "_array" : ""}`;
  }

  /** The shape of its numbers: layers, depth, height, width, channels. A texel of one channel has no dimension for it. */
  get arrayShape() {
    const { channels } = this.#texel;
    return [
      ...(this.layers ? [this.layers] : []),
      ...[...this.shape].reverse(),
      ...(channels > 1 ? [channels] : []),
    ];
  }

  /** Whether `destroy` was called. */
  get destroyed() {
    return this.#destroyed;
  }

  get #texel() {
    return /** @type {ImageFormat} */ (IMAGE_FORMATS.get(this.format));
  }

  /**
   * Return a copy of its numbers in the order of `arrayShape`, after the work that is queued. Numbers of float16 are a Uint16Array of
   * their bits in browsers without Float16Array.
   * @returns {Promise<Texels>}
   */
  async read() {
    this.#check("read");
    const { device } = this;
    const [width, height, depth] = extentOf(this);
    const row = width * this.#texel.texelBytes;
    const pitch = Math.ceil(row / 256) * 256; // WebGPU's rule for copies to buffers
    const size = pitch * height * depth;
    const most = device.limits.maxBufferSize;
    if (size > most)
      throw new LaunchError(
        `read: the copy of the image takes ${bytesText(size)}, but the limit of this device is ${most} (maxBufferSize)`,
      );
    const { result, staging } = await runGuarded(device, "read", () => {
      const result = new Uint8Array(row * height * depth);
      const buffer = device.createBuffer({ size, usage: Usage.MAP_READ | Usage.COPY_DST });
      const encoder = device.createCommandEncoder();
      encoder.copyTextureToBuffer(
        { texture: this.handle },
        { buffer, bytesPerRow: pitch, rowsPerImage: height },
        [width, height, depth],
      );
      device.queue.submit([encoder.finish()]);
      return { result, staging: buffer };
    });
    try {
      const padded = await readBack(device, "read", staging);
      for (let at = 0; at < height * depth; at++)
        result.set(padded.subarray(at * pitch, at * pitch + row), at * row);
    } finally {
      staging.destroy();
    }
    return arrayOf(this.#texel.dtype, result.buffer);
  }

  /**
   * Copy numbers or a picture to the image, after the work that is queued.
   * @param {ArrayBufferView | ArrayBuffer | ImageData | ImageBitmap} source Numbers in the order of `arrayShape`, or a picture of the same
   *   width and height.
   */
  async copyFrom(source) {
    this.#check("copyFrom");
    await runGuarded(this.device, "copyFrom", () => writeImage(this, source));
  }

  /** Free its memory after the queued work. It cannot be used again. */
  destroy() {
    this.#destroyed = true;
    this.handle.destroy();
  }

  /** @param {string} method */
  #check(method) {
    if (this.#destroyed) throw argumentError(method, "", "the image was destroyed");
  }
}

/**
 * Return WebGPU's size of an image.
 * @param {Image} image
 * @returns {[number, number, number]}
 */
function extentOf({ shape: [width = 1, height = 1, depth = 1], layers }) {
  return [width, height, layers || depth];
}

/**
 * Queue a copy of numbers or of a picture to an image.
 * @param {Image} image
 * @param {ArrayBufferView | ArrayBuffer | ImageData | ImageBitmap} source
 */
export function writeImage(image, source) {
  const { device, handle, format, type, shape, layers } = image;
  const text = `an image of ${format} with the shape ${tuple(shape)}${layers ? ` and ${layers} layers` : ""}`;
  const extent = extentOf(image);
  const { dtype, texelBytes } = /** @type {ImageFormat} */ (IMAGE_FORMATS.get(format));
  if (isPicture(source)) {
    checkPicture("copyFrom", format);
    const { width, height } = source;
    if (type !== "2d" || width !== extent[0] || height !== extent[1]) {
      throw argumentError(
        "copyFrom",
        "source",
        `the source is a picture of ${width} × ${height} pixels; expected one for ${text}`,
      );
    }
    device.queue.copyExternalImageToTexture({ source }, { texture: handle }, extent);
    return;
  }
  const { bytes, type: given } = numbersOf("copyFrom", source);
  const expected = extent[0] * extent[1] * extent[2] * texelBytes;
  if ((given && given !== dtype) || bytes.length !== expected) {
    const found = given
      ? `an array of ${bytesText(bytes.length)} of ${given}`
      : bytesText(bytes.length);
    throw argumentError(
      "copyFrom",
      "source",
      `the source is ${found}; expected ${bytesText(expected)} of ${dtype} for ${text}`,
    );
  }
  device.queue.writeTexture(
    { texture: handle },
    bytes,
    { bytesPerRow: extent[0] * texelBytes, rowsPerImage: extent[1] },
    extent,
  );
}

/** The rules by which a kernel reads between and beyond the texels of an image: `sampler` returns one. */
export class Sampler {
  /**
   * @param {GPUDevice} device
   * @param {Filter} filter
   * @param {Address} address
   * @param {GPUSampler} handle
   */
  constructor(device, filter, address, handle) {
    /** The device. */
    this.device = device;
    /** "nearest" or "linear". */
    this.filter = filter;
    /** "clamp", "repeat" or "mirror". */
    this.address = address;
    /** WebGPU's object. */
    this.handle = handle;
  }
}

/**
 * Create an image of zeros.
 * @param {number | readonly number[]} shape The width, or the width, the height and the depth, in texels: x first, like a grid.
 * @param {string} format As in "rgba8unorm" or "r32float".
 * @param {{ layers?: number, device?: GPUDevice }} [options] `layers` is the number of layers of an array of images; 0 for no array. The
 *   device is by default the package's own.
 * @returns {Promise<Image>}
 */
export async function image(shape, format, options = {}) {
  const { layers = 0, device: on } = readOptions("image", options, ["layers", "device"]);
  const lengths = typeof shape === "number" ? [shape] : Array.isArray(shape) ? [...shape] : [];
  const texel = formatOf("image", format);
  if (
    lengths.length < 1 ||
    lengths.length > 3 ||
    !lengths.every((each) => Number.isSafeInteger(each) && each > 0)
  ) {
    const given = Array.isArray(shape) ? tuple(shape.map(describeValue)) : describeValue(shape);
    throw argumentError(
      "image",
      "shape",
      `expected a shape of 1 to 3 lengths of 1 or more, x first, got ${given}`,
    );
  }
  if (!Number.isSafeInteger(layers) || layers < 0 || (layers && lengths.length !== 2)) {
    const rule = "expected a number of layers, which only a 2-D image has in WebGPU";
    throw argumentError(
      "image",
      "layers",
      `${rule}, got layers=${describeValue(layers)} for the shape ${tuple(lengths)}`,
    );
  }
  const device = await chosenDevice(on, "image");
  checkExtent(device, lengths, layers);
  if (/16[us]norm$/.test(format) && !device.features.has("texture-formats-tier1")) {
    throw argumentError(
      "image",
      "format",
      `${format} needs the feature 'texture-formats-tier1', which this device does not support`,
    );
  }
  const [width = 1, height = 1, depth = 1] = lengths;
  return runGuarded(
    device,
    `an image of ${bytesText(texel.texelBytes * width * height * (layers || depth))}`,
    () => newImage(device, lengths, format, layers),
  );
}

/**
 * @param {GPUDevice} device
 * @param {readonly number[]} shape
 * @param {string} format
 * @param {number} [layers]
 */
export function newImage(device, shape, format, layers = 0) {
  const { TEXTURE_BINDING, STORAGE_BINDING, COPY_SRC, COPY_DST, RENDER_ATTACHMENT } = TextureUsage;
  const feature = storageFeature(format, "w");
  const isStorage = feature !== null && (!feature || device.features.has(feature));
  const takesPictures = shape.length === 2 && PICTURE_FORMATS.includes(format); // WebGPU draws them
  const usage =
    TEXTURE_BINDING |
    COPY_SRC |
    COPY_DST |
    (isStorage ? STORAGE_BINDING : 0) |
    (takesPictures ? RENDER_ATTACHMENT : 0);
  const [width = 1, height = 1, depth = 1] = shape;
  const handle = device.createTexture({
    size: [width, height, layers || depth],
    dimension: /** @type {GPUTextureDimension} */ (`${shape.length}d`),
    format: /** @type {GPUTextureFormat} */ (format),
    usage,
  });
  return new Image(device, Object.freeze([...shape]), format, layers, handle);
}

/**
 * Copy a picture, or the numbers of one, to a new 2-D image.
 * @param {ImageData | ImageBitmap | ArrayBufferView} source A picture, or a typed array with 1, 2 or 4 numbers for each texel, row by row.
 * @param {{ width?: number, height?: number, format?: string, device?: GPUDevice }} [options] `width` and `height` are required for a
 *   typed array. The format is by default rgba8unorm for a picture, and follows from the type and the number of elements of an array.
 * @returns {Promise<Image>}
 */
export async function imageFrom(source, options = {}) {
  const sides = /** @type {const} */ (["width", "height"]);
  const read = readOptions("imageFrom", options, [...sides, "format", "device"]);
  const { width, height, format, device } = read;
  if (isPicture(source)) {
    for (const name of sides) {
      const [given, own] = [read[name], source[name]];
      if (given !== undefined && given !== own)
        throw argumentError(
          "imageFrom",
          name,
          `the picture has the ${name} ${own}, got ${describeValue(given)}`,
        );
    }
    checkPicture("imageFrom", format ?? "rgba8unorm");
    return filled([source.width, source.height], format ?? "rgba8unorm", device, source);
  }
  const { type, bytes } = numbersOf("imageFrom", source);
  for (const name of sides) {
    const given = read[name];
    if (!Number.isSafeInteger(given) || Number(given) < 1) {
      throw argumentError(
        "imageFrom",
        name,
        `an array needs width and height, the numbers of its columns and rows; got ${name}=${describeValue(given)}`,
      );
    }
  }
  const [across, down] = [Number(width), Number(height)];
  if (format !== undefined) return filled([across, down], format, device, source);
  const typed = /** @type {{ BYTES_PER_ELEMENT?: number }} */ (source);
  const elements = bytes.length / (typed.BYTES_PER_ELEMENT ?? 1);
  const channels = elements / (across * down);
  const prefix = Object.keys(CHANNELS).find((each) => CHANNELS[each] === channels);
  const suffix = DEFAULT_TYPES[type];
  if (!prefix || !suffix) {
    throw argumentError(
      "imageFrom",
      "source",
      `expected 1, 2 or 4 numbers for each of ${across} × ${down} texels, of a type with a format; got ${elements} elements of ` +
        `${type || "unknown type"}; use image(shape, format) and copyFrom(array) for other images`,
    );
  }
  return filled([across, down], prefix + suffix, device, source);
}

/**
 * @param {number[]} shape
 * @param {string} format
 * @param {GPUDevice | undefined} device
 * @param {ImageData | ImageBitmap | ArrayBufferView} source
 */
async function filled(shape, format, device, source) {
  const made = await image(shape, format, device ? { device } : {});
  try {
    await made.copyFrom(source);
  } catch (error) {
    made.destroy();
    throw error;
  }
  return made;
}

/**
 * Create a sampler. Its coordinates are from 0 to 1.
 * @param {{ filter?: Filter, address?: Address, device?: GPUDevice }} [options] `filter` is "nearest" (default) for the nearest texel, or
 *   "linear" for the weighted mean of those around the place. `address` is what is read outside of the image: "clamp" (default) the texel
 *   at the edge, "repeat" the image again, "mirror" the image reversed.
 * @returns {Promise<Sampler>}
 */
export async function sampler(options = {}) {
  const {
    filter = "nearest",
    address = "clamp",
    device: on,
  } = readOptions("sampler", options, ["filter", "address", "device"]);
  for (const [name, value, known] of /** @type {const} */ ([
    ["filter", filter, FILTERS],
    ["address", address, ADDRESSES],
  ])) {
    if (typeof value === "string" && Object.hasOwn(known, value)) continue;
    const border =
      /** @type {unknown} */ (value) === "border" ? ", which WebGPU does not support" : "";
    throw argumentError(
      "sampler",
      name,
      `${name} is ${describeValue(value)}${border}; expected ${Object.keys(known).map(repr).join(", ")}`,
    );
  }
  const device = await chosenDevice(on, "sampler");
  return runGuarded(device, "sampler", () => newSampler(device, filter, address));
}

/**
 * @param {GPUDevice} device
 * @param {Filter} filter
 * @param {Address} address
 */
export function newSampler(device, filter, address) {
  const [mode, edge] = [FILTERS[filter], ADDRESSES[address]];
  const handle = device.createSampler({
    magFilter: mode,
    minFilter: mode,
    addressModeU: edge,
    addressModeV: edge,
    addressModeW: edge,
  });
  return new Sampler(device, filter, address, handle);
}

/**
 * @param {GPUDevice} device
 * @param {readonly number[]} shape
 * @param {number} layers
 */
export function checkExtent({ limits }, shape, layers) {
  const name =
    /** @type {"maxTextureDimension1D" | "maxTextureDimension2D" | "maxTextureDimension3D"} */ (
      `maxTextureDimension${shape.length}D`
    );
  for (const [extent, limit] of /** @type {const} */ ([
    [Math.max(...shape), name],
    [layers, "maxTextureArrayLayers"],
  ])) {
    if (extent <= limits[limit]) continue;
    const text = `${tuple(shape)}${layers ? ` with ${layers} layers` : ""}`;
    throw argumentError(
      "image",
      "shape",
      `this device supports no image of the shape ${text}: its ${limit} is ${limits[limit]}`,
    );
  }
}

/**
 * @template {object} T
 * @param {string} method
 * @param {T} options
 * @param {string[]} known
 */
function readOptions(method, options, known) {
  const other = Object.keys(options ?? {}).find((each) => !known.includes(each));
  if (other)
    throw argumentError(
      method,
      other,
      `there is no option ${quoteName(other)}; there is: ${known.join(", ")}${didYouMean(other, known)}`,
    );
  return options ?? /** @type {T} */ ({});
}
