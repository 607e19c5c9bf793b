// The device that kernels run on. It is requested at its first use, and again after a loss.

import {
  ArgumentError,
  DeviceLostError,
  DeviceNotFoundError,
  DevmodError,
  LaunchError,
  NewerError,
  describeError,
} from "./errors.js";
import { kept } from "./kept.js";
import { describeValue } from "./scalars.js";

/** WebGPU's flags, with the numbers of its specification (TypeScript declares WebGPU's types but not these globals). */
export const Usage = /** @type {const} */ ({
  MAP_READ: 0x01,
  COPY_SRC: 0x04,
  COPY_DST: 0x08,
  UNIFORM: 0x40,
  STORAGE: 0x80,
  QUERY_RESOLVE: 0x200,
});
export const TextureUsage = /** @type {const} */ ({
  COPY_SRC: 0x01,
  COPY_DST: 0x02,
  TEXTURE_BINDING: 0x04,
  STORAGE_BINDING: 0x08,
  RENDER_ATTACHMENT: 0x10,
});
const MAP_FOR_READING = 0x01;
export const COMPUTE_STAGE = 0x04;

/** The limits that are requested at the adapter's maximum. The defaults of WebGPU are small. */
const LIMITS = /** @type {const} */ ([
  "maxBindGroups",
  "maxBindingsPerBindGroup",
  "maxStorageBuffersPerShaderStage",
  "maxUniformBuffersPerShaderStage",
  "maxSampledTexturesPerShaderStage",
  "maxStorageTexturesPerShaderStage",
  "maxSamplersPerShaderStage",
  "maxTextureDimension1D",
  "maxTextureDimension2D",
  "maxTextureDimension3D",
  "maxTextureArrayLayers",
  "maxUniformBufferBindingSize",
  "maxStorageBufferBindingSize",
  "maxBufferSize",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
]);
/** The features that kernels use. */
const FEATURES = /** @type {GPUFeatureName[]} */ ([
  "shader-f16",
  "subgroups",
  "subgroup-size-control",
  "float32-filterable",
  "bgra8unorm-storage",
  "texture-formats-tier1",
  "texture-formats-tier2",
  "timestamp-query", // for the times of a program's steps
]);

/** The package's own device. @type {Map<"device", Promise<GPUDevice>>} */
const shared = new Map();
/** The reasons of lost devices; null for one that is there. @type {WeakMap<GPUDevice, GPUDeviceLostInfo | null>} */
const lost = new WeakMap();
/** The devices that `defaultDevice` created, and replaces after a loss. @type {WeakSet<GPUDevice>} */
const defaultDevices = new WeakSet();

/**
 * Request a device with the limits of the adapter, and with the features that kernels use.
 * @param {GPURequestAdapterOptions} [options]
 * @returns {Promise<GPUDevice>}
 */
export async function requestDevice(options = { powerPreference: "high-performance" }) {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) {
    const insecure = globalThis.isSecureContext === false;
    throw new DeviceNotFoundError(
      insecure
        ? "WebGPU is not available on this page: browsers enable it only on pages served over https or from localhost"
        : "this browser does not support WebGPU, so no kernel can run. Chrome and Edge 113, Safari 26, Firefox 141 and newer support it; " +
            "on Linux it may need to be enabled (chrome://flags/#enable-unsafe-webgpu, dom.webgpu.enabled)",
    );
  }
  const adapter = await requested("adapter", gpu.requestAdapter(options));
  if (!adapter) {
    throw new DeviceNotFoundError(
      "this browser supports WebGPU but found no adapter: there is no supported GPU, or its driver is blocked (see chrome://gpu or about:support)",
    );
  }
  /** @type {Record<string, number>} */
  const requiredLimits = {};
  for (const name of LIMITS) {
    const limit = adapter.limits[name];
    if (typeof limit === "number") requiredLimits[name] = limit;
  }
  const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
  const device = await requested(
    "device",
    adapter.requestDevice({ requiredLimits, requiredFeatures }),
  );
  watch(device);
  return device;
}

/**
 * Wait for an adapter or a device.
 * @template T
 * @param {string} what
 * @param {Promise<T>} answer
 */
function requested(what, answer) {
  return answer.catch((error) => {
    throw new DeviceNotFoundError(`requesting a WebGPU ${what} failed: ${describeError(error)}`, {
      cause: error,
    });
  });
}

/** Return this package's device. It is requested at its first use, and again after a loss. @returns {Promise<GPUDevice>} */
export async function defaultDevice() {
  const pending = kept(shared, "device", () => requestDevice());
  const device = await pending;
  defaultDevices.add(device);
  if (!lost.get(device)) return device;
  if (shared.get("device") === pending) shared.delete("device");
  return defaultDevice();
}

/**
 * Return the caller's device, or else this package's. Throw DeviceLostError if it is lost.
 * @param {GPUDevice | undefined} given
 * @param {string} description What was to be done, for messages.
 */
export async function chosenDevice(given, description) {
  if (given && typeof given.createShaderModule !== "function") {
    throw new ArgumentError(
      `${description} expects a GPUDevice as its device, got ${describeValue(given)}`,
      { argument: "device" },
    );
  }
  const device = given ?? (await defaultDevice());
  watch(device);
  checkNotLost(device, description);
  return device;
}

/**
 * Return what is made of the first candidate that a device can run.
 * @template T, R
 * @param {Iterable<T>} candidates
 * @param {(candidate: T) => Promise<R>} make
 * @param {(errors: DevmodError[]) => unknown} refuse Returns what is thrown if there is none, from the error of each.
 */
export async function firstThatRuns(candidates, make, refuse) {
  /** @type {DevmodError[]} */
  const errors = [];
  for (const each of candidates) {
    try {
      return await make(each);
    } catch (error) {
      if (!(error instanceof DeviceNotFoundError || error instanceof NewerError)) throw error;
      errors.push(error);
    }
  }
  throw refuse(errors);
}

/**
 * Record the loss of a device.
 * @param {GPUDevice} device
 */
function watch(device) {
  if (lost.has(device)) return;
  lost.set(device, null);
  device.lost.then((info) => lost.set(device, info));
}

/**
 * Throw DeviceLostError if the device is lost.
 * @param {GPUDevice} device
 * @param {string} description What was to be done, for the message.
 */
export function checkNotLost(device, description) {
  const info = lost.get(device);
  if (info) {
    const why =
      info.reason === "destroyed"
        ? "it was destroyed"
        : info.message || "the driver gave no reason";
    const next = defaultDevices.has(device)
      ? "Ask for the function again: it then uses a new device"
      : "Ask for the function again, with a new device of yours";
    throw new DeviceLostError(`${description}: the GPU device was lost (${why}). ${next}`);
  }
}

/**
 * Run `work`, and throw the errors that the device reports for it, or its loss.
 * @template T
 * @param {GPUDevice} device
 * @param {string} description
 * @param {() => T} work It must not await, because all code shares the stack of the device's error scopes.
 * @returns {Promise<T>}
 */
export async function runGuarded(device, description, work) {
  checkNotLost(device, description);
  device.pushErrorScope("validation");
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("internal");
  /** @type {T | undefined} */
  let result;
  /** An exception that WebGPU throws at once, such as for a buffer's size that is too large. @type {unknown} */
  let raised = null;
  try {
    result = work();
  } catch (error) {
    raised = error;
  }
  const scopes = [device.popErrorScope(), device.popErrorScope(), device.popErrorScope()];
  /** @type {(GPUError | null)[]} */
  const reported = await Promise.all(scopes).catch((error) => {
    raised ??= error;
    return [];
  });
  if (raised) await checkLostAfterError(device, description);
  if (raised instanceof DevmodError) throw raised;
  if (raised) throw new LaunchError(`${description}: ${describeError(raised)}`, { cause: raised });
  checkNotLost(device, description);
  const error = reported.find(Boolean);
  if (error) {
    const memory = error instanceof GPUOutOfMemoryError ? "out of device memory: " : "";
    throw new LaunchError(`${description}: ${memory}${describeError(error.message)}`);
  }
  return /** @type {T} */ (result);
}

/**
 * Return the bytes that an array takes on a device.
 * @param {number} bytes
 */
export function padded(bytes) {
  return Math.max(4, Math.ceil(bytes / 4) * 4);
}

/**
 * Return a new buffer for the arrays of kernels.
 * @param {GPUDevice} device
 * @param {number} size
 * @param {number} [least] The bytes that it has at least: by default the element that a shader needs of an empty array.
 */
export function newBuffer(device, size, least = 256) {
  return device.createBuffer({
    size: padded(Math.max(size, least)),
    usage: Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST,
  });
}

/**
 * Queue writing bytes to a buffer. The last word is filled with zeros.
 * @param {GPUDevice} device
 * @param {GPUBuffer} buffer
 * @param {Uint8Array} bytes
 */
export function writeBytes(device, buffer, bytes) {
  const even = bytes.length - (bytes.length % 4);
  if (even)
    device.queue.writeBuffer(buffer, 0, /** @type {Uint8Array<ArrayBuffer>} */ (bytes), 0, even);
  if (even === bytes.length) return;
  const last = new Uint8Array(4);
  last.set(bytes.subarray(even));
  device.queue.writeBuffer(buffer, even, last);
}

/**
 * Wait for a copy to a staging buffer, and return its bytes.
 * @param {GPUDevice} device
 * @param {string} description
 * @param {GPUBuffer} staging
 */
export async function readBack(device, description, staging) {
  try {
    await staging.mapAsync(MAP_FOR_READING);
  } catch (error) {
    await checkLostAfterError(device, description);
    throw new LaunchError(
      `${description}: its results cannot be read back: ${describeError(error)}`,
      { cause: error },
    );
  }
  return new Uint8Array(staging.getMappedRange());
}

/**
 * Throw DeviceLostError after a failure. Calls fail shortly before a device reports its loss.
 * @param {GPUDevice} device
 * @param {string} description
 */
export async function checkLostAfterError(device, description) {
  await Promise.race([device.lost, new Promise((resolve) => setTimeout(resolve, 100))]);
  checkNotLost(device, description);
}
