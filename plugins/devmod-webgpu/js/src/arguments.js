// The arguments of a call: arrays of the host, buffers of the device, and the blocks that scalars lie in.

import { Usage } from "./device.js";
import { parseDtype } from "./dtypes.js";
import { ArgumentError } from "./errors.js";
import { label } from "./plan.js";
import { told, Unfit, viewOf } from "./scalars.js";

/** @import { Argument, Plan, Spot } from "./plan.js" */
/** @import { Shape } from "./shape.js" */

/**
 * An array of the host, as bytes, and the arguments that it stands for.
 * @typedef {object} Host
 * @property {Argument[]} args
 * @property {Uint8Array} bytes
 * @property {boolean} written
 */

/** The element types of typed arrays. @type {Record<string, string>} */
const ELEMENTS = {
  Int8Array: "int8", Uint8Array: "uint8", Uint8ClampedArray: "uint8", Int16Array: "int16", Uint16Array: "uint16", Int32Array: "int32",
  Uint32Array: "uint32", Float16Array: "float16", Float32Array: "float32", Float64Array: "float64", BigInt64Array: "int64", BigUint64Array: "uint64",
};

/**
 * A buffer of the device as it is bound; null for what is none.
 * @param {Argument} argument
 * @param {unknown} value
 * @param {GPUDevice} device
 * @returns {GPUBufferBinding | null}
 */
export function bufferBinding(argument, value, device) {
  if (typeof GPUBuffer === "undefined" || typeof value !== "object" || value === null) return null;
  const binding = value instanceof GPUBuffer ? { buffer: value } : /** @type {GPUBufferBinding} */ (value);
  if (!(binding.buffer instanceof GPUBuffer)) return null;
  const { buffer, offset = 0, size = buffer.size - offset } = binding;
  if (!(buffer.usage & Usage.STORAGE)) throw new Unfit("is a GPUBuffer without the usage STORAGE, which kernels need");
  if (![offset, size].every((each) => Number.isSafeInteger(each) && each >= 0)) {
    throw new Unfit(`is bound with offset ${told(offset)} and size ${told(size)}, which are not counts of bytes`);
  }
  const step = device.limits.minStorageBufferOffsetAlignment;
  if (offset % step) throw new Unfit(`begins at byte ${offset} of its buffer, and this device wants a multiple of ${step}`);
  if (size < 4 || size % 4 || offset + size > buffer.size) {
    throw new Unfit(`is ${size} bytes at byte ${offset} of a buffer of ${buffer.size}; a multiple of 4 within it is due`);
  }
  if (size < argument.least) throw new Unfit(`has ${size} bytes, and the shader's variable takes at least ${argument.least}`);
  checkSize(size, device);
  return { buffer, offset, size };
}

/**
 * A typed array, or an ArrayBuffer where any bytes will do.
 * @param {Argument} argument
 * @param {unknown} value
 * @param {boolean} bound
 * @param {GPUDevice} device
 * @returns {Host}
 */
export function hostArray(argument, value, bound, device) {
  const bytes = viewOf(value);
  const { type, struct, unit, written } = argument;
  if (!bytes) throw new Unfit(`is ${told(value)}, and the kernel takes an array${type ? ` of ${elementsOf(argument)}` : ""}`);
  if (bytes.buffer instanceof ArrayBuffer === false) throw new Unfit("lies in shared memory; pass a copy of it");
  const given = ELEMENTS[/** @type {Record<symbol, string>} */ (value)[Symbol.toStringTag] ?? ""];
  const dtype = parseDtype(type);
  const base = dtype && !struct ? type.replace(/x\d+$/, "") : "";
  if (given && base && given !== base && !(base === "bool" && given === "uint32")) {
    throw new Unfit(`is an array of ${given}, and the kernel takes ${elementsOf(argument)}`);
  }
  if (bytes.length % unit) {
    const each = struct ? elementsOf(argument) : `${type} of ${unit} bytes`;
    throw new Unfit(`has ${bytes.length} bytes, which is no whole number of ${each}`);
  }
  if (bytes.length && bytes.length < argument.least) {
    throw new Unfit(`has ${bytes.length} bytes, and the shader's variable takes at least ${argument.least}`);
  }
  if (bound) throw new Unfit("is in the host's memory, and bind takes buffers of the device: pass a GPUBuffer");
  checkSize(bytes.length, device);
  return { args: [argument], bytes, written };
}

/** @param {Argument} argument */
function elementsOf({ type, struct, unit }) {
  return struct ? `structs of ${unit} bytes` : type;
}

/**
 * @param {number} size
 * @param {GPUDevice} device
 */
function checkSize(size, { limits }) {
  for (const name of /** @type {const} */ (["maxStorageBufferBindingSize", "maxBufferSize"])) {
    if (size > limits[name]) throw new Unfit(`has ${size} bytes, and this device takes at most ${limits[name]} (${name})`);
  }
}

/**
 * The same memory given twice is one buffer. WebGPU binds no buffer twice that a kernel may write to.
 * @param {Plan} plan
 * @param {Host[]} given
 * @returns {Host[]}
 */
export function shareHosts(plan, given) {
  /** @type {Host[]} */
  const made = [];
  for (const host of given) {
    const other = made.find(({ bytes }) => overlaps(bytes, host.bytes));
    if (!other) {
      made.push(host);
      continue;
    }
    const [first] = /** @type {[Argument]} */ (other.args);
    const [second] = /** @type {[Argument]} */ (host.args);
    const same = other.bytes.byteOffset === host.bytes.byteOffset && other.bytes.length === host.bytes.length;
    if (other.written || host.written) {
      throw twice(plan, second, first, same ? "is the same memory as" : "overlaps", same ? BOUND_ONCE : "they could not be put back together");
    }
    if (same) other.args.push(second);
    else made.push(host);
  }
  return made;
}

const BOUND_ONCE = "WebGPU binds nothing twice that is written";

/**
 * ArgumentError where a buffer of the device is given twice as WebGPU has it not: for reading and writing, or for writing to the same part.
 * @param {Plan} plan
 * @param {Map<Argument, GPUBufferBinding>} buffers
 */
export function checkShared(plan, buffers) {
  const given = [...buffers];
  given.forEach(([second, { buffer, offset = 0, size = 0 }], number) => {
    for (const [first, other] of given.slice(0, number)) {
      if (other.buffer !== buffer || !(first.written || second.written)) continue;
      const apart = offset >= (other.offset ?? 0) + (other.size ?? 0) || (other.offset ?? 0) >= offset + size;
      if (first.written !== second.written) throw twice(plan, second, first, "lies in the same GPUBuffer as", BOUND_ONCE);
      if (!apart) throw twice(plan, second, first, "is the same memory as", BOUND_ONCE);
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
  return new ArgumentError(
    `${plan.described}: ${label(second)} ${how} ${label(first)}, and the kernel may write to one of them: ${why}; pass a copy of it`,
    { kind: "webgpu", argument: second.name || String(second.number + 1) },
  );
}

/**
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
function overlaps(one, other) {
  if (one.buffer !== other.buffer || !one.length || !other.length) return false;
  return one.byteOffset < other.byteOffset + other.length && other.byteOffset < one.byteOffset + one.length;
}

/**
 * The bytes of the blocks that scalars lie in.
 * @param {Plan} plan
 * @param {Map<Argument, Uint8Array>} scalars
 * @param {Shape} shape
 * @returns {{ spot: Spot, data: Uint8Array }[]}
 */
export function packBlocks(plan, scalars, shape) {
  const made = plan.blocks.map(({ spot, size }) => ({ spot, data: new Uint8Array(size) }));
  for (const [argument, data] of scalars) if (!argument.spot) made[argument.block]?.data.set(data, argument.offset);
  const last = made.at(-1);
  // TVM's shaders return where their block is greater than this, so it is the last block there is.
  if (plan.packed >= 0 && last) new DataView(last.data.buffer).setUint32(plan.packed, shape.grid[0] - 1, true);
  return made;
}
