// The contents of arrays: fills, files of NumPy and of raw numbers, and images.

import { parseDtype } from "./devmod-webgpu/dtypes.js";
import { halfOf } from "./devmod-webgpu/scalars.js";
import { readNpy } from "./npy.js";

/** The typed arrays of the element types that the page makes and shows. */
export const ARRAYS = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  float16: Uint16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  float32: Float32Array,
};

/**
 * Return how the elements of a buffer lie in memory: the base type, the lanes with a value, the lanes with their padding, and the
 * typed array of one lane. Structs and unknown types are bytes.
 */
export function elementOf(type, align) {
  const lanes = Math.max(parseDtype(type)?.lanes ?? 1, 1);
  const base = lanes > 1 ? type.slice(0, type.lastIndexOf("x")) : type;
  if (align || !Object.hasOwn(ARRAYS, base)) {
    const bytes = Math.ceil((lanes * (parseDtype(type)?.bits || 8)) / 8);
    return { base: "uint8", lanes: bytes, stride: bytes, Array: Uint8Array, opaque: true };
  }
  return {
    base,
    lanes,
    stride: lanes === 3 && base !== "uint8" ? 4 : lanes,
    Array: ARRAYS[base],
    opaque: false,
  };
}

/** Return the bytes of one element. */
export function unitOf({ stride, Array }) {
  return stride * Array.BYTES_PER_ELEMENT;
}

/** The fills of numbers, by their name on the page. Each returns the value of a lane by its number. */
export const FILLS = {
  zeros: () => () => 0,
  ones: () => () => 1,
  range: () => (number) => number,
  random: ({ base }, seed) => {
    const next = randomNumbers(seed);
    return base.startsWith("float") ? () => next() : () => Math.floor(next() * 256);
  },
};

/** Return an array of `count` elements. */
export function filled(element, count, fill, seed) {
  const { base, lanes, stride, Array } = element;
  const result = new Array(count * stride);
  const value = FILLS[fill](element, seed);
  if (fill === "zeros") return result;
  for (let at = 0, number = 0; at < result.length; at++) {
    if (at % stride < lanes)
      result[at] = base === "float16" ? halfOf(value(number++)) : value(number++);
  }
  return result;
}

/** Return a generator of numbers from 0 to 1, the same for the same seed (mulberry32). */
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Return the value of a lane as a number. */
export function numberOf({ base }, lane) {
  if (base !== "float16") return lane;
  const exponent = (lane >> 10) & 31;
  const fraction = lane & 1023;
  const sign = lane & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  const whole = exponent ? 1024 : 0; // a subnormal number has none
  return sign * 2 ** (Math.max(exponent, 1) - 25) * (whole + fraction);
}

/**
 * Return the elements of a file, and their shape: an array of NumPy, raw numbers, little-endian, or the pixels of an image.
 * Raise Error, with a text for the user, if the file does not fit the element type.
 */
export async function fromFile(element, file) {
  if (file.type.startsWith("image/")) return fromImage(element, file);
  const bytes = await file.arrayBuffer();
  const array = readNpy(bytes, file.name);
  if (array) return fromNpy(element, array, file.name);
  const unit = unitOf(element);
  if (bytes.byteLength % unit)
    throw new Error(
      `${file.name} has ${bytes.byteLength} bytes, which is not a whole number of elements of ${unit} bytes`,
    );
  if (!bytes.byteLength) throw new Error(`${file.name} is empty`);
  return { data: new element.Array(bytes), shape: [bytes.byteLength / unit] };
}

/** Return the elements of an array of NumPy. The last length of an array of vectors is the number of their lanes. */
function fromNpy(element, { type, shape, data }, name) {
  const { base, lanes, stride, Array, opaque } = element;
  const wanted = opaque ? `${unitOf(element)} bytes each` : base;
  const unit = Array.BYTES_PER_ELEMENT;
  const isBytes = opaque && stride === 1 && ["bool", "uint8", "int8"].includes(type);
  if (opaque ? !isBytes : type !== base)
    throw new Error(
      `${name} has elements of ${type}, and the array has ${wanted}${opaque ? "" : `: save x.astype("${base}")`}`,
    );
  const count = shape.reduce((product, length) => product * length, 1);
  if (data.byteLength !== count * unit)
    throw new Error(
      `${name} has the shape ${shape.join(" × ")} and ${data.byteLength} bytes of ${type}; save it again`,
    );
  if (lanes === 1) return { data: new Array(data), shape: shape.length ? shape : [1], given: true };
  if (shape.at(-1) !== lanes)
    throw new Error(`the last length of ${name} is ${shape.at(-1)}, and vectors have ${lanes}`);
  const given = new Array(data);
  const padded = new Array((given.length / lanes) * stride);
  for (let at = 0; at < given.length; at++)
    padded[Math.floor(at / lanes) * stride + (at % lanes)] = given[at];
  return { data: padded, shape: shape.slice(0, -1), given: true };
}

/** What the pixels of an image are for an element type: the lanes of one pixel from its red, green, blue and alpha, 0 to 255. */
const PIXELS = {
  uint32: (r, g, b, a) => [(r | (g << 8) | (b << 16) | (a << 24)) >>> 0],
  int32: (r, g, b, a) => [r | (g << 8) | (b << 16) | (a << 24)],
  float32: (r, g, b) => [(0.2126 * r + 0.7152 * g + 0.0722 * b) / 255],
  float32x3: (r, g, b) => [r / 255, g / 255, b / 255],
  float32x4: (r, g, b, a) => [r / 255, g / 255, b / 255, a / 255],
};

async function fromImage(element, file) {
  const { base, lanes, stride, Array } = element;
  const name = lanes > 1 ? `${base}x${lanes}` : base;
  if (element.opaque || !Object.hasOwn(PIXELS, name)) {
    throw new Error(
      `an image cannot fill this array; it can fill arrays of ${Object.keys(PIXELS).join(", ")}`,
    );
  }
  const { width, height, data: pixels } = await pixelsOf(file);
  const data = new Array(width * height * stride);
  for (let at = 0; at < width * height; at++)
    data.set(PIXELS[name](...pixels.subarray(4 * at, 4 * at + 4)), at * stride);
  return { data, shape: [height, width] };
}

/**
 * Return the pixels of a picture as planes of a program's array [.., height, width]: red, green and blue if the length before is 3, and grey
 * otherwise. A picture is scaled, unless the array takes pictures of any size.
 */
export async function planesOf({ base, Array }, file, shape, isOpen) {
  const scale = { float32: 1 / 255, uint8: 1 }[base];
  if (!scale || shape.length < 2)
    throw new Error("a picture fills float32 or uint8 of the shape [.., height, width]");
  const [down, across] = shape.slice(-2);
  const { width, height, data: pixels } = await pixelsOf(file, isOpen ? undefined : [across, down]);
  const planes = shape.slice(0, -2).reduce((product, length) => product * length, 1);
  const data = new Array(planes * width * height);
  const colours = shape.at(-3) === 3;
  for (let at = 0; at < data.length; at++) {
    const [pixel, plane] = [4 * (at % (width * height)), Math.floor(at / (width * height)) % 3];
    const grey = 0.2126 * pixels[pixel] + 0.7152 * pixels[pixel + 1] + 0.0722 * pixels[pixel + 2];
    data[at] = scale * (colours ? pixels[pixel + plane] : grey);
  }
  return { data, shape: [...shape.slice(0, -2), height, width] };
}

/** Return the pixels of a picture file as an ImageData, scaled to a size if one is given. Raise Error, with a text for the user, if the browser cannot decode it. */
export async function pixelsOf(file, size) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" });
  } catch (error) {
    throw new Error(`this browser cannot decode ${file.name} as a picture: ${error.message}`);
  }
  const [width, height] = size ?? [bitmap.width, bitmap.height];
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(bitmap, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}
