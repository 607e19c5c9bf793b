// A function's shader and pipeline on one device: limits, compilation, and the layout from the interface.

import { unknownNeeds } from "./checks.js";
import { checkLostAfterError, checkNotLost, COMPUTE_STAGE, runGuarded } from "./device.js";
import {
  bytesText,
  CompileError,
  describeError,
  DeviceNotFoundError,
  DevmodError,
  LaunchError,
  listNames,
  listTexts,
  quoteName,
} from "./errors.js";
import { storageFeature, VIEWS } from "./formats.js";
import { kept } from "./kept.js";
import { callError, label } from "./plan.js";

/** @import { Interface } from "./interface.js" */
/** @import { Argument, Plan, Spot } from "./plan.js" */

/** @typedef {WeakMap<GPUDevice, Map<string, Promise<GPUShaderModule>>>} Compiled */
/** @typedef {{ pipeline: GPUComputePipeline, layouts: GPUBindGroupLayout[] }} Pipeline */

/** The features of WebGPU by the names of needs, where they differ; "" if all devices have it. @type {ReadonlyMap<string, string>} */
const NEEDS = new Map([
  ["fp16", "shader-f16"],
  ["images", ""],
  ["image_writes_3d", ""],
]);

/**
 * Return what a device lacks for a function, as the end of a sentence; "" if it lacks nothing.
 * @param {Pick<Interface, "needs" | "subgroup"> | null} interface_
 * @param {GPUDevice} device
 */
export function unmetNeeds(interface_, device) {
  const { needs = [], subgroup = null } = interface_ ?? {};
  const lacking = needs.filter((need) => {
    if (need === "tuned") return false; // of the reader, not of the device
    const feature = NEEDS.get(need) ?? need;
    return feature !== "" && !device.features.has(feature);
  });
  const newer = unknownNeeds(lacking);
  if (newer.length)
    return `needs ${listNames(newer)}, which neither this devmod-webgpu nor this device has: take a newer devmod-webgpu`;
  const missing = lacking.map(nameOfNeed);
  const { subgroupMinSize: least = 0, subgroupMaxSize: most = 0 } = device.adapterInfo ?? {};
  const isFixed = least === most || device.features.has("subgroup-size-control");
  if (subgroup && most && (!isFixed || subgroup < least || subgroup > most)) {
    missing.push(
      `subgroups of ${subgroup} threads (it has subgroups of ${least === most ? most : `${least} to ${most}`})`,
    );
  }
  const listed = listTexts(missing, " and ", " and ");
  return listed && `needs ${listed}, which this device does not have`;
}

/** @param {string} need */
function nameOfNeed(need) {
  const feature = NEEDS.get(need);
  return feature ? `${need} (WebGPU's ${feature})` : need;
}

/**
 * Throw DeviceNotFoundError if the function exceeds a limit of the device or needs an unsupported feature.
 * @param {GPUDevice} device
 * @param {Plan} plan
 * @param {[number, number, number] | null} block
 * @param {unknown} features
 */
export function checkLimits(device, plan, block, features) {
  const lacking = Array.isArray(features)
    ? features.find((name) => typeof name === "string" && !device.features.has(name))
    : undefined;
  if (lacking !== undefined) {
    throw callError(
      plan,
      `needs the feature ${quoteName(lacking)}, which this device does not support`,
      "",
      DeviceNotFoundError,
    );
  }
  const { limits } = device;
  const beyond = (
    /** @type {string} */ what,
    /** @type {number} */ count,
    /** @type {keyof GPUSupportedLimits & string} */ limit,
  ) => {
    const most = Number(limits[limit]);
    if (count > most)
      throw callError(
        plan,
        `${what}, but the limit of this device is ${most} (${limit})`,
        "",
        DeviceNotFoundError,
      );
  };
  const spots = [
    ...plan.args.flatMap(({ spot }) => (spot ? [spot] : [])),
    ...plan.blocks.map(({ spot }) => spot),
  ];
  const groups = Math.max(0, ...spots.map(({ group }) => group + 1));
  beyond(`uses ${groups} bind groups`, groups, "maxBindGroups");
  for (const [what, limit, counts] of COUNTED) {
    const count = plan.args.filter(counts).length;
    beyond(`uses ${count} ${what}`, count, limit);
  }
  for (const argument of plan.args) checkStorage(device, plan, argument);
  for (const { kind, size } of plan.args)
    if (kind === "buffer")
      beyond(`has a storage buffer of ${bytesText(size)}`, size, "maxStorageBufferBindingSize");
  const binding = Math.max(0, ...spots.map((spot) => spot.binding + 1));
  beyond(`uses binding ${binding - 1}`, binding, "maxBindingsPerBindGroup");
  for (const each of plan.blocks)
    beyond(
      `has a uniform block of ${bytesText(each.size)}`,
      each.size,
      "maxUniformBufferBindingSize",
    );
  if (!block) return;
  const [x, y, z] = block;
  const size = `(${block.join(", ")})`;
  beyond(
    `is built for blocks of ${size} threads, ${x * y * z} in all`,
    x * y * z,
    "maxComputeInvocationsPerWorkgroup",
  );
  beyond(`is built for blocks of ${size} threads`, x, "maxComputeWorkgroupSizeX");
  beyond(`is built for blocks of ${size} threads`, y, "maxComputeWorkgroupSizeY");
  beyond(`is built for blocks of ${size} threads`, z, "maxComputeWorkgroupSizeZ");
}

/** What a device limits the number of. @type {[string, keyof GPUSupportedLimits & string, (argument: Argument) => boolean][]} */
const COUNTED = [
  ["storage buffers", "maxStorageBuffersPerShaderStage", ({ kind }) => kind === "buffer"],
  [
    "sampled images",
    "maxSampledTexturesPerShaderStage",
    ({ image }) => image !== null && !image.format,
  ],
  [
    "storage images",
    "maxStorageTexturesPerShaderStage",
    ({ image }) => image !== null && image.format !== "",
  ],
  ["samplers", "maxSamplersPerShaderStage", ({ kind }) => kind === "sampler"],
];
const READS = "readonly_and_readwrite_storage_textures";

/**
 * @param {GPUDevice} device
 * @param {Plan} plan
 * @param {Argument} argument
 */
function checkStorage({ features }, plan, argument) {
  const { format, access } = argument.image ?? { format: "", access: "r" };
  if (!format) return;
  const failure = (/** @type {string} */ why) =>
    callError(
      plan,
      `: ${label(argument)} is a storage image of ${format} with the access ${access}, which ${why}`,
      argument,
      DeviceNotFoundError,
    );
  const feature = storageFeature(format, access);
  if (feature === null) throw failure("WebGPU does not support");
  if (feature && !features.has(feature))
    throw failure(`needs the feature '${feature}', and this device does not support it`);
  if (access !== "w" && !navigator.gpu.wgslLanguageFeatures.has(READS))
    throw failure(`needs '${READS}', and this browser does not support it`);
}

/**
 * Compile a shader for a device. Functions of a module with equal texts share it.
 * @param {GPUDevice} device
 * @param {string} text
 * @param {string} description
 * @param {Compiled} compiled
 * @returns {Promise<GPUShaderModule>}
 */
export async function compile(device, text, description, compiled) {
  const known = compiled.get(device) ?? new Map();
  compiled.set(device, known);
  return kept(known, text, () => compileText(device, text, description));
}

/**
 * @param {GPUDevice} device
 * @param {string} text
 * @param {string} description
 */
async function compileText(device, text, description) {
  device.pushErrorScope("validation");
  const shader = device.createShaderModule({ code: text });
  const scope = device.popErrorScope();
  const { messages } = await shader.getCompilationInfo();
  const problem = await scope.catch(() => null);
  checkNotLost(device, description);
  const errors = messages.filter(({ type }) => type === "error");
  if (errors.length || problem) {
    const lines = text.split("\n");
    const log =
      errors.map((each) => quoteLine(each, lines)).join("\n") || describeError(problem?.message);
    const count = errors.length > 1 ? ` (${errors.length} errors)` : "";
    throw new CompileError(`${description} does not compile in this browser${count}:\n${log}`, {
      log,
    });
  }
  return shader;
}

/**
 * Return a message of the compiler with the source line.
 * @param {GPUCompilationMessage} message
 * @param {string[]} lines
 */
function quoteLine({ lineNum, linePos, message }, lines) {
  const line = lines[lineNum - 1];
  if (!lineNum || line === undefined) return message;
  const text = line.length > 160 ? `${line.slice(0, 160)}…` : line;
  const mark =
    linePos > 0 && linePos <= 160
      ? `\n  ${text.slice(0, linePos - 1).replace(/[^\t]/g, " ")}^`
      : "";
  return `line ${lineNum}, column ${linePos}: ${message}\n  ${text}${mark}`;
}

/**
 * Create the pipeline with the layout of the interface. Bindings that the compiler drops as unused keep their place.
 * @param {GPUDevice} device
 * @param {Plan} plan
 * @param {string} entryPoint
 * @param {GPUShaderModule} module
 * @param {Record<string, number>} constants
 * @param {boolean} filters Whether linear samplers read images of float. The layout then takes no image that they cannot read.
 * @returns {Promise<Pipeline>}
 */
export async function makePipeline(device, plan, entryPoint, module, constants, filters) {
  /** @type {GPUBindGroupLayoutEntry[][]} */
  const entries = [];
  const put = (
    /** @type {Spot} */ { group, binding },
    /** @type {Partial<GPUBindGroupLayoutEntry>} */ resource,
  ) => {
    while (entries.length <= group) entries.push([]);
    entries[group]?.push({ binding, visibility: COMPUTE_STAGE, ...resource });
  };
  for (const argument of plan.args)
    if (argument.spot) put(argument.spot, layoutOf(argument, filters));
  for (const { spot } of plan.blocks) put(spot, { buffer: { type: "uniform" } });
  try {
    const { layouts, pending } = await runGuarded(device, plan.description, () => {
      const layouts = entries.map((each) => device.createBindGroupLayout({ entries: each }));
      const layout = device.createPipelineLayout({ bindGroupLayouts: layouts });
      const pending = device.createComputePipelineAsync({
        layout,
        compute: { module, entryPoint, constants },
      });
      pending.catch(() => {}); // awaited below; this avoids an unhandled rejection until then
      return { layouts, pending };
    });
    return { pipeline: await pending, layouts };
  } catch (error) {
    if (error instanceof DevmodError) throw error;
    await checkLostAfterError(device, plan.description);
    throw new LaunchError(
      `${plan.description} cannot be built on this device: ${describeError(error)}`,
      { cause: error },
    );
  }
}

/**
 * @param {Argument} argument
 * @param {boolean} filters
 * @returns {Partial<GPUBindGroupLayoutEntry>}
 */
function layoutOf({ kind, written, image }, filters) {
  if (kind === "sampler") return { sampler: { type: filters ? "filtering" : "non-filtering" } };
  if (!image)
    return {
      buffer: { type: kind === "uniform" ? "uniform" : written ? "storage" : "read-only-storage" },
    };
  const { type, format, sample, access } = image;
  const viewDimension = /** @type {GPUTextureViewDimension} */ (VIEWS[type]);
  if (!format) {
    const float = filters ? "float" : "unfilterable-float";
    const sampleType = sample === "float" ? float : sample === "int" ? "sint" : "uint";
    return { texture: { sampleType, viewDimension } };
  }
  const mode = access === "rw" ? "read-write" : access === "r" ? "read-only" : "write-only";
  return {
    storageTexture: {
      access: mode,
      format: /** @type {GPUTextureFormat} */ (format),
      viewDimension,
    },
  };
}
