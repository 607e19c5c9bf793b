// A function's shader and pipeline on one device: limits, compilation, and the layout from the interface.

import { checkLostAfterError, checkNotLost, COMPUTE_STAGE, runGuarded } from "./device.js";
import { CompileError, DevmodError, LaunchError, describeError, quoteName } from "./errors.js";

/** @import { Plan, Spot } from "./plan.js" */

/** @typedef {WeakMap<GPUDevice, Map<string, Promise<GPUShaderModule>>>} Compiled */
/** @typedef {{ pipeline: GPUComputePipeline, layouts: GPUBindGroupLayout[] }} Pipeline */

/**
 * Throw LaunchError if the function exceeds a limit of the device or needs an unsupported feature.
 * @param {GPUDevice} device
 * @param {Plan} plan
 * @param {[number, number, number] | null} block
 * @param {unknown} features
 */
export function checkLimits(device, plan, block, features) {
  const lacking = Array.isArray(features) ? features.find((name) => typeof name === "string" && !device.features.has(name)) : undefined;
  if (lacking !== undefined) {
    throw new LaunchError(`${plan.description} needs the feature ${quoteName(lacking)}, which this device does not support`, { kind: "webgpu" });
  }
  const { limits } = device;
  const beyond = (/** @type {string} */ what, /** @type {number} */ count, /** @type {keyof GPUSupportedLimits & string} */ limit) => {
    const most = Number(limits[limit]);
    if (count > most) {
      throw new LaunchError(`${plan.description} ${what}, but the limit of this device is ${most} (${limit})`, { kind: "webgpu" });
    }
  };
  const spots = [...plan.args.flatMap(({ spot }) => (spot ? [spot] : [])), ...plan.blocks.map(({ spot }) => spot)];
  const groups = Math.max(0, ...spots.map(({ group }) => group + 1));
  beyond(`uses ${groups} bind groups`, groups, "maxBindGroups");
  const storage = plan.args.filter(({ kind }) => kind === "buffer").length;
  beyond(`uses ${storage} storage buffers`, storage, "maxStorageBuffersPerShaderStage");
  const binding = Math.max(0, ...spots.map((spot) => spot.binding + 1));
  beyond(`uses binding ${binding - 1}`, binding, "maxBindingsPerBindGroup");
  for (const each of plan.blocks) beyond(`has a uniform block of ${each.size} bytes`, each.size, "maxUniformBufferBindingSize");
  if (!block) return;
  const [x, y, z] = block;
  const size = `(${block.join(", ")})`;
  beyond(`is built for blocks of ${size} threads, ${x * y * z} in all`, x * y * z, "maxComputeInvocationsPerWorkgroup");
  beyond(`is built for blocks of ${size} threads`, x, "maxComputeWorkgroupSizeX");
  beyond(`is built for blocks of ${size} threads`, y, "maxComputeWorkgroupSizeY");
  beyond(`is built for blocks of ${size} threads`, z, "maxComputeWorkgroupSizeZ");
}

/**
 * Compile a shader for a device. Functions of a module with equal texts share it.
 * @param {GPUDevice} device
 * @param {string} text
 * @param {string} description
 * @param {Compiled} compiled
 */
export async function compile(device, text, description, compiled) {
  const known = compiled.get(device) ?? new Map();
  compiled.set(device, known);
  const found = known.get(text) ?? compileText(device, text, description);
  known.set(text, found);
  try {
    return await found;
  } catch (error) {
    if (known.get(text) === found) known.delete(text);
    throw error;
  }
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
    const log = errors.map((each) => quoteLine(each, lines)).join("\n") || describeError(problem?.message);
    const count = errors.length > 1 ? ` (${errors.length} errors)` : "";
    throw new CompileError(`${description} does not compile in this browser${count}:\n${log}`, { kind: "webgpu", log });
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
  const mark = linePos > 0 && linePos <= 160 ? `\n  ${text.slice(0, linePos - 1).replace(/[^\t]/g, " ")}^` : "";
  return `line ${lineNum}, column ${linePos}: ${message}\n  ${text}${mark}`;
}

/**
 * Create the pipeline with the layout of the interface. Bindings that the compiler drops as unused keep their place.
 * @param {GPUDevice} device
 * @param {Plan} plan
 * @param {string} entryPoint
 * @param {GPUShaderModule} module
 * @param {Record<string, number>} constants
 * @returns {Promise<Pipeline>}
 */
export async function makePipeline(device, plan, entryPoint, module, constants) {
  /** @type {GPUBindGroupLayoutEntry[][]} */
  const entries = [];
  const put = (/** @type {Spot} */ { group, binding }, /** @type {GPUBufferBindingType} */ type) => {
    while (entries.length <= group) entries.push([]);
    entries[group]?.push({ binding, visibility: COMPUTE_STAGE, buffer: { type } });
  };
  for (const { spot, kind, written } of plan.args) if (spot) put(spot, kind === "uniform" ? "uniform" : written ? "storage" : "read-only-storage");
  for (const { spot } of plan.blocks) put(spot, "uniform");
  try {
    const { layouts, pending } = await runGuarded(device, plan.description, () => {
      const layouts = entries.map((each) => device.createBindGroupLayout({ entries: each }));
      const layout = device.createPipelineLayout({ bindGroupLayouts: layouts });
      const pending = device.createComputePipelineAsync({ layout, compute: { module, entryPoint, constants } });
      pending.catch(() => {}); // awaited below; this avoids an unhandled rejection until then
      return { layouts, pending };
    });
    return { pipeline: await pending, layouts };
  } catch (error) {
    if (error instanceof DevmodError) throw error;
    await checkLostAfterError(device, plan.description);
    throw new LaunchError(`${plan.description} cannot be built on this device: ${describeError(error)}`, { kind: "webgpu", cause: error });
  }
}
