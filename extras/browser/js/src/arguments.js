// The arguments of a call: host arrays, device buffers, and blocks of scalars.

import { TextureUsage, Usage } from "./device.js";
import { elementType, parseDtype, TYPED_ARRAYS } from "./dtypes.js";
import { IMAGE_FORMATS, isFilterable, VIEWS } from "./formats.js";
import { Image, Sampler } from "./images.js";
import { callError, label } from "./plan.js";
import { describeValue, ConversionError, viewOf } from "./scalars.js";

/** @import { Argument, Plan, Spot } from "./plan.js" */
/** @import { Shape } from "./shape.js" */

/**
 * The bytes of a host array, and the arguments that it is passed as.
 * @typedef {object} Host
 * @property {Argument[]} args
 * @property {Uint8Array} bytes
 * @property {boolean} written
 */

/**
 * An image or a sampler of a call: the caller's object of WebGPU, what a bind group takes, and whether it needs a layout that filters, or
 * one that does not.
 * @typedef {{ handle: object, resource: () => GPUBindingResource, filters: boolean | null }} Texture
 */

/**
 * Return the binding of a device buffer; null for other values.
 * @param {Argument} argument
 * @param {unknown} value
 * @param {GPUDevice} device
 * @returns {GPUBufferBinding | null}
 */
export function bufferBinding(argument, value, device) {
  if (typeof GPUBuffer === "undefined" || typeof value !== "object" || value === null) return null;
  const binding =
    value instanceof GPUBuffer ? { buffer: value } : /** @type {GPUBufferBinding} */ (value);
  if (!(binding.buffer instanceof GPUBuffer)) return null;
  const { buffer, offset = 0, size = buffer.size - offset } = binding;
  if (!(buffer.usage & Usage.STORAGE))
    throw new ConversionError("is a GPUBuffer without the usage STORAGE, which kernels need");
  if (![offset, size].every((each) => Number.isSafeInteger(each) && each >= 0)) {
    throw new ConversionError(
      `is bound with offset ${describeValue(offset)} and size ${describeValue(size)}, which are not counts of bytes`,
    );
  }
  const step = device.limits.minStorageBufferOffsetAlignment;
  if (offset % step)
    throw new ConversionError(
      `has the offset ${offset}, expected a multiple of ${step} on this device`,
    );
  if (size < 4 || size % 4 || offset + size > buffer.size) {
    throw new ConversionError(
      `has ${size} bytes at offset ${offset} of a buffer of ${buffer.size} bytes, expected a multiple of 4 bytes within the buffer`,
    );
  }
  checkBytes(argument, size, device);
  return { buffer, offset, size };
}

/**
 * Return the binding of an image.
 * @param {Argument} argument
 * @param {unknown} value
 * @param {GPUDevice} device
 * @returns {Texture}
 */
export function imageBinding({ image, taker }, value, device) {
  const param = /** @type {NonNullable<Argument["image"]>} */ (image);
  if (typeof GPUTextureView !== "undefined" && value instanceof GPUTextureView)
    return { handle: value, resource: () => value, filters: null };
  const handle =
    value instanceof Image
      ? value.handle
      : typeof GPUTexture !== "undefined" && value instanceof GPUTexture
        ? value
        : null;
  if (!handle) {
    const expected = "an image, such as await imageFrom(picture), whose format you choose";
    throw new ConversionError(`is ${describeValue(value)}, and the ${taker} takes ${expected}`);
  }
  if (value instanceof Image) checkOwn(value, device);
  const isArray =
    value instanceof Image
      ? value.layers > 0
      : handle.depthOrArrayLayers > 1 || param.type === "2d_array";
  const type = `${handle.dimension}${handle.dimension === "2d" && isArray ? "_array" : ""}`;
  if (type !== param.type)
    throw new ConversionError(`is an image of type ${type}, and the ${taker} takes ${param.type}`);
  const { format } = handle;
  if (param.format && format !== param.format)
    throw new ConversionError(`is an image of ${format}, and the ${taker} takes ${param.format}`);
  const sample = IMAGE_FORMATS.get(format)?.sample; // the caller's texture may have a format of another kind
  if (param.sample && sample && sample !== param.sample) {
    throw new ConversionError(
      `is an image of ${format}, whose texels are ${sample}, and the ${taker} takes ${param.sample}`,
    );
  }
  const usage = param.format ? "STORAGE_BINDING" : "TEXTURE_BINDING";
  if (taker === "kernel" && !(handle.usage & TextureUsage[usage]))
    throw new ConversionError(`is a GPUTexture without the usage ${usage}, which the kernel needs`);
  const dimension = /** @type {GPUTextureViewDimension} */ (VIEWS[type]);
  const view = () =>
    handle.createView(param.format ? { dimension, mipLevelCount: 1 } : { dimension });
  return {
    handle,
    resource: view,
    filters: param.format || isFilterable(device, format) ? null : false,
  };
}

/**
 * Return the binding of a sampler.
 * @param {unknown} value
 * @param {GPUDevice} device
 * @returns {Texture}
 */
export function samplerBinding(value, device) {
  if (typeof GPUSampler !== "undefined" && value instanceof GPUSampler)
    return { handle: value, resource: () => value, filters: null };
  if (!(value instanceof Sampler))
    throw new ConversionError(
      `is ${describeValue(value)}, and the kernel takes a sampler, such as await sampler()`,
    );
  checkOwn(value, device);
  return {
    handle: value.handle,
    resource: () => value.handle,
    filters: value.filter === "linear" || null,
  };
}

/**
 * @param {Image | Sampler} value
 * @param {GPUDevice} device
 */
function checkOwn(value, device) {
  if (value.device !== device)
    throw new ConversionError("is on another device; make it on the device of the function");
  if (value instanceof Image && value.destroyed)
    throw new ConversionError("is an image that was destroyed");
}

/**
 * Throw ArgumentError if an image is passed twice and written, or if a linear sampler cannot read one of the images. Return whether the
 * layout of the call has linear samplers.
 * @param {Plan} plan
 * @param {Map<Argument, Texture>} textures
 * @param {string} problem Why the shader cannot have linear samplers; "" if it can.
 */
export function checkTextures(plan, textures, problem) {
  const entries = [...textures];
  entries.forEach(([second, { handle }], number) => {
    const [first] = entries.slice(0, number).find(([, other]) => other.handle === handle) ?? [];
    if (first?.image && [first, second].some(({ image }) => image?.access !== "r"))
      throw twice(plan, second, first, "is the same image as", BOUND_ONCE);
  });
  const [image] = entries.find(([, { filters }]) => filters === false) ?? [];
  const [sampler] = entries.find(([, { filters }]) => filters === true) ?? [];
  if (sampler && (image || problem)) {
    const why = image
      ? `${label(image)} is an image of 32-bit floats; together they need the feature 'float32-filterable', which this device does not ` +
        "support; pass an image of 16-bit floats, or a nearest sampler"
      : `the shader reads an image with it that cannot be filtered: ${problem}`;
    throw callError(plan, `: ${label(sampler)} is a linear sampler, and ${why}`, sampler);
  }
  return Boolean(sampler) || (!image && !problem);
}

/**
 * Return a typed array or an ArrayBuffer as host array.
 * @param {Argument} argument
 * @param {unknown} value
 * @param {boolean} bound
 * @param {GPUDevice} device
 * @returns {Host}
 */
export function hostArray(argument, value, bound, device) {
  const bytes = viewOf(value);
  const { type, struct, unit, written, taker } = argument;
  if (!bytes)
    throw new ConversionError(
      `is ${describeValue(value)}, and the ${taker} takes an array${type ? ` of ${elementsOf(argument)}` : ""}`,
    );
  if (bytes.buffer instanceof ArrayBuffer === false)
    throw new ConversionError("is in a SharedArrayBuffer; pass a copy");
  const given = elementType(value);
  const dtype = parseDtype(type);
  const base = dtype && !struct ? type.replace(/x\d+$/, "") : "";
  if (
    given &&
    base &&
    given !== base &&
    !(base === "bool" && given === (taker === "kernel" ? "uint32" : "uint8"))
  ) {
    const [wanted = ""] = Object.entries(TYPED_ARRAYS).find(([, name]) => name === base) ?? [];
    const convert =
      wanted && !/^u?int64$/.test(given)
        ? `; convert it before the call: array = ${wanted}.from(array)`
        : "";
    throw new ConversionError(
      `is an array of ${given}, and the ${taker} takes ${elementsOf(argument)}${convert}`,
    );
  }
  if (bytes.length % unit) {
    const each = struct ? elementsOf(argument) : `${type} of ${unit} bytes`;
    throw new ConversionError(`has ${bytes.length} bytes, which is not a whole number of ${each}`);
  }
  if (bound)
    throw new ConversionError(
      "is in the host's memory, and bind takes device buffers: pass a GPUBuffer",
    );
  checkBytes(argument, bytes.length, device);
  return { args: [argument], bytes, written };
}

/**
 * Check the number of an array's bytes.
 * @param {Argument} argument
 * @param {number} given
 * @param {GPUDevice} device
 */
function checkBytes({ size, least }, given, { limits }) {
  if (given < size)
    throw new ConversionError(
      `has ${given} bytes, and the kernel declares ${size}; pass an array of ${size} bytes or more`,
    );
  if (given && given < least)
    throw new ConversionError(
      `has ${given} bytes, but the shader's variable needs at least ${least}`,
    );
  for (const name of /** @type {const} */ (["maxStorageBufferBindingSize", "maxBufferSize"])) {
    if (given > limits[name])
      throw new ConversionError(
        `has ${given} bytes, but the limit of this device is ${limits[name]} (${name})`,
      );
  }
}

/** @param {Argument} argument */
function elementsOf({ type, struct, unit }) {
  return struct ? `structs of ${unit} bytes` : type;
}

/**
 * Merge arguments with the same memory into one buffer. WebGPU forbids two bindings of one buffer if the kernel may write to it.
 * @param {Plan} plan
 * @param {Host[]} given
 * @returns {Host[]}
 */
export function shareHosts(plan, given) {
  /** @type {Host[]} */
  const result = [];
  for (const host of given) {
    const other = result.find(({ bytes }) => overlaps(partOf(bytes), partOf(host.bytes)));
    if (!other) {
      result.push(host);
      continue;
    }
    const [first] = /** @type {[Argument]} */ (other.args);
    const [second] = /** @type {[Argument]} */ (host.args);
    const same =
      other.bytes.byteOffset === host.bytes.byteOffset && other.bytes.length === host.bytes.length;
    if (other.written || host.written) {
      throw twice(
        plan,
        second,
        first,
        same ? "is the same memory as" : "overlaps",
        same ? BOUND_ONCE : "their results cannot be combined",
      );
    }
    if (same) other.args.push(second);
    else result.push(host);
  }
  return result;
}

const BOUND_ONCE = "WebGPU forbids that";

/**
 * Throw ArgumentError if a device buffer is passed twice for reading and writing, or for writing to the same part. WebGPU forbids both.
 * @param {Plan} plan
 * @param {Map<Argument, GPUBufferBinding>} buffers
 */
export function checkShared(plan, buffers) {
  const given = [...buffers];
  given.forEach(([second, { buffer, offset = 0, size = 0 }], number) => {
    for (const [first, other] of given.slice(0, number)) {
      if (other.buffer !== buffer || !(first.written || second.written)) continue;
      if (first.written !== second.written)
        throw twice(plan, second, first, "lies in the same GPUBuffer as", BOUND_ONCE);
      const part = { memory: other.buffer, start: other.offset ?? 0, size: other.size ?? 0 };
      if (overlaps(part, { memory: buffer, start: offset, size }))
        throw twice(plan, second, first, "is the same memory as", BOUND_ONCE);
    }
  });
}

/**
 * @param {Plan} plan
 * @param {Argument} second
 * @param {Argument} first
 * @param {string} how
 * @param {string} why
 */
function twice(plan, second, first, how, why) {
  return callError(
    plan,
    `: ${label(second)} ${how} ${label(first)}, and the kernel may write to one of them: ${why}; pass a copy of it`,
    second,
  );
}

/** A part of a memory. @typedef {{ memory: object | null | undefined, start: number, size: number }} Part */

/**
 * @param {Part} one
 * @param {Part} other
 */
export function overlaps(one, other) {
  if (!one.memory || one.memory !== other.memory || !one.size || !other.size) return false;
  return one.start < other.start + other.size && other.start < one.start + one.size;
}

/**
 * @param {Uint8Array} bytes
 * @returns {Part}
 */
function partOf({ buffer, byteOffset, length }) {
  return { memory: buffer, start: byteOffset, size: length };
}

/**
 * Return the bytes of the blocks of scalars.
 * @param {Plan} plan
 * @param {Map<Argument, Uint8Array>} scalars
 * @param {ReadonlyMap<number, Uint8Array>} contents Those of blocks that are given as a whole.
 * @param {Shape} shape
 * @returns {{ spot: Spot, data: Uint8Array }[]}
 */
export function packBlocks(plan, scalars, contents, shape) {
  const result = plan.blocks.map(({ spot, size }, number) => ({
    spot,
    data: contents.get(number) ?? new Uint8Array(size),
  }));
  for (const [argument, data] of scalars)
    if (!argument.spot) result[argument.block]?.data.set(data, argument.offset);
  const last = result.at(-1);
  // TVM's shaders return if their block number is greater than this, so it is the number of the last block.
  if (plan.packed !== null && last)
    new DataView(last.data.buffer).setUint32(plan.packed, shape.grid[0] - 1, true);
  return result;
}
