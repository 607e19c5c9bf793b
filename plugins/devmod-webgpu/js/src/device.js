// The device that kernels run on: found when it is first needed, and replaced when it was lost.

import { DeviceLostError, DeviceNotFoundError, DevmodError, LaunchError, said } from "./errors.js";

/** WebGPU's flags, by the numbers that its specification gives them (TypeScript knows the types of WebGPU, and not these globals). */
export const Usage = /** @type {const} */ ({ MAP_READ: 0x01, COPY_SRC: 0x04, COPY_DST: 0x08, UNIFORM: 0x40, STORAGE: 0x80 });
export const MAP_FOR_READING = 0x01;
export const COMPUTE_STAGE = 0x04;

/** The limits that are asked for as large as the adapter has them: a default device has rather small ones. */
const LIMITS = /** @type {const} */ ([
  "maxBindGroups",
  "maxBindingsPerBindGroup",
  "maxStorageBuffersPerShaderStage",
  "maxUniformBuffersPerShaderStage",
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
const FEATURES = /** @type {GPUFeatureName[]} */ (["shader-f16", "subgroups"]);

/** @type {Promise<GPUDevice> | null} */
let shared = null;
/** Why devices were lost. @type {WeakMap<GPUDevice, GPUDeviceLostInfo>} */
const lost = new WeakMap();
/** @type {WeakSet<GPUDevice>} */
const watched = new WeakSet();
/** Those that were made here without being asked for by name: `defaultDevice` replaces them. @type {WeakSet<GPUDevice>} */
const ours = new WeakSet();

/**
 * A device with what its adapter has: its limits, and the features that kernels use.
 * @param {GPURequestAdapterOptions} [options]
 * @returns {Promise<GPUDevice>}
 */
export async function requestDevice(options = { powerPreference: "high-performance" }) {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) {
    const insecure = globalThis.isSecureContext === false;
    throw new DeviceNotFoundError(
      insecure
        ? "there is no WebGPU on this page: browsers have it only on pages served by https or from localhost"
        : "this browser has no WebGPU, so no kernel runs here. Chrome and Edge 113, Safari 26 and Firefox 141 and newer have it; " +
          "on Linux it may have to be switched on (chrome://flags/#enable-unsafe-webgpu, dom.webgpu.enabled)",
      { kind: "webgpu" },
    );
  }
  /** @type {GPUAdapter | null} */
  let adapter = null;
  try {
    adapter = await gpu.requestAdapter(options);
  } catch (error) {
    throw new DeviceNotFoundError(`this browser has WebGPU and fails to give an adapter: ${said(error)}`, { kind: "webgpu", cause: error });
  }
  if (!adapter) {
    throw new DeviceNotFoundError(
      "this browser has WebGPU and finds no adapter: no GPU that it trusts, or its driver is blocked (chrome://gpu and about:support say which)",
      { kind: "webgpu" },
    );
  }
  /** @type {Record<string, number>} */
  const requiredLimits = {};
  for (const name of LIMITS) {
    const limit = adapter.limits[name];
    if (typeof limit === "number") requiredLimits[name] = limit;
  }
  try {
    const device = await adapter.requestDevice({
      requiredLimits,
      requiredFeatures: FEATURES.filter((name) => /** @type {GPUAdapter} */ (adapter).features.has(name)),
    });
    watch(device);
    return device;
  } catch (error) {
    throw new DeviceNotFoundError(`the WebGPU adapter gives no device: ${said(error)}`, { kind: "webgpu", cause: error });
  }
}

/** This package's own device: made when first asked for, and anew after it was lost. @returns {Promise<GPUDevice>} */
export async function defaultDevice() {
  const asked = (shared ??= requestDevice());
  try {
    const device = await asked;
    ours.add(device);
    if (!lost.has(device)) return device;
  } catch (error) {
    if (shared === asked) shared = null; // a failure is not kept: the next call tries again
    throw error;
  }
  if (shared === asked) shared = null;
  return defaultDevice();
}

/**
 * Notice when a device is lost.
 * @param {GPUDevice} device
 */
export function watch(device) {
  if (watched.has(device)) return;
  watched.add(device);
  device.lost.then((info) => lost.set(device, info));
}

/**
 * DeviceLostError where the device is gone.
 * @param {GPUDevice} device
 * @param {string} described What was to be done, for the message.
 */
export function checkThere(device, described) {
  const info = lost.get(device);
  if (info) {
    const why = info.reason === "destroyed" ? "it was destroyed" : info.message || "the driver gave no reason";
    const next = ours.has(device) ? "Ask for the function again: it gets a new device" : "Ask for the function again, with a new device of yours";
    throw new DeviceLostError(`${described}: the GPU device was lost (${why}). ${next}`, { kind: "webgpu" });
  }
}

/**
 * Run what talks to the device; what the device has against it, or that it went away, is raised.
 * @template T
 * @param {GPUDevice} device
 * @param {string} described
 * @param {() => T} work It must not await: the device's error scopes are a stack that all share.
 * @returns {Promise<T>}
 */
export async function guarded(device, described, work) {
  checkThere(device, described);
  device.pushErrorScope("validation");
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("internal");
  /** @type {T | undefined} */
  let made;
  /** @type {Promise<GPUError | null>[]} */
  let scopes;
  /** What WebGPU raises at once, such as a size that no buffer can have. @type {unknown} */
  let raised = null;
  try {
    made = work();
  } catch (error) {
    raised = error;
  } finally {
    scopes = [device.popErrorScope(), device.popErrorScope(), device.popErrorScope()];
  }
  const found = await Promise.allSettled(scopes);
  if (raised || found.some(({ status }) => status === "rejected")) await checkStillThere(device, described);
  if (raised instanceof DevmodError) throw raised;
  if (raised) throw new LaunchError(`${described}: ${said(raised)}`, { kind: "webgpu", cause: raised });
  checkThere(device, described);
  for (const answer of found) {
    if (answer.status === "rejected") throw new LaunchError(`${described}: ${said(answer.reason)}`, { kind: "webgpu", cause: answer.reason });
    if (answer.value) {
      const memory = answer.value instanceof GPUOutOfMemoryError ? "the device has no memory left for it: " : "";
      throw new LaunchError(`${described}: ${memory}${said(answer.value.message)}`, { kind: "webgpu" });
    }
  }
  return /** @type {T} */ (made);
}

/**
 * The same where something has just failed: what a device does fails a moment before it says that it was lost.
 * @param {GPUDevice} device
 * @param {string} described
 */
export async function checkStillThere(device, described) {
  await Promise.race([device.lost, new Promise((resolve) => setTimeout(resolve, 100))]);
  checkThere(device, described);
}
