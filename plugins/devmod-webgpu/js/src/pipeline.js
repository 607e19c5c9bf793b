// A function's shader and pipeline on one device: compiled, held against the device's limits, and laid out as its interface says.

import { checkStillThere, checkThere, COMPUTE_STAGE, guarded } from "./device.js";
import { CompileError, DevmodError, LaunchError, said, shown } from "./errors.js";

/** @import { Plan, Spot } from "./plan.js" */

/** @typedef {WeakMap<GPUDevice, Map<string, Promise<GPUShaderModule>>>} Compiled */
/** @typedef {{ pipeline: GPUComputePipeline, layouts: GPUBindGroupLayout[] }} Pipeline */

/**
 * LaunchError where the function needs more than the device has.
 * @param {GPUDevice} device
 * @param {Plan} plan
 * @param {[number, number, number] | null} block
 * @param {unknown} features
 */
export function checkLimits(device, plan, block, features) {
  const lacking = Array.isArray(features) ? features.find((name) => typeof name === "string" && !device.features.has(name)) : undefined;
  if (lacking !== undefined) {
    throw new LaunchError(`${plan.described} needs the feature ${shown(lacking)}, which this device does not have`, { kind: "webgpu" });
  }
  const { limits } = device;
  const beyond = (/** @type {string} */ what, /** @type {number} */ count, /** @type {keyof GPUSupportedLimits & string} */ limit) => {
    const most = Number(limits[limit]);
    if (count > most) {
      throw new LaunchError(`${plan.described} ${what}, and this device takes at most ${most} (${limit})`, { kind: "webgpu" });
    }
  };
  const spots = [...plan.args.flatMap(({ spot }) => (spot ? [spot] : [])), ...plan.blocks.map(({ spot }) => spot)];
  const groups = Math.max(0, ...spots.map(({ group }) => group + 1));
  beyond(`uses ${groups} bind groups`, groups, "maxBindGroups");
  const storage = plan.args.filter(({ kind }) => kind === "buffer").length;
  beyond(`takes ${storage} storage buffers`, storage, "maxStorageBuffersPerShaderStage");
  const binding = Math.max(0, ...spots.map((spot) => spot.binding + 1));
  beyond(`has a binding of the number ${binding - 1}`, binding, "maxBindingsPerBindGroup");
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
 * A shader on a device. The same text is compiled once for all functions of a module.
 * @param {GPUDevice} device
 * @param {string} text
 * @param {string} described
 * @param {Compiled} compiled
 */
export async function compile(device, text, described, compiled) {
  const known = compiled.get(device) ?? new Map();
  compiled.set(device, known);
  const found = known.get(text) ?? compileText(device, text, described);
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
 * @param {string} described
 */
async function compileText(device, text, described) {
  device.pushErrorScope("validation");
  const shader = device.createShaderModule({ code: text });
  const scope = device.popErrorScope();
  const { messages } = await shader.getCompilationInfo();
  const problem = await scope.catch(() => null);
  checkThere(device, described);
  const errors = messages.filter(({ type }) => type === "error");
  if (errors.length || problem) {
    const lines = text.split("\n");
    const log = errors.map((each) => quotedLine(each, lines)).join("\n") || said(problem?.message);
    const count = errors.length > 1 ? ` (${errors.length} errors)` : "";
    throw new CompileError(`${described} does not compile in this browser${count}:\n${log}`, { kind: "webgpu", log });
  }
  return shader;
}

/**
 * A message of the compiler with the line that it means: `12:5 unresolved value 'x'`.
 * @param {GPUCompilationMessage} message
 * @param {string[]} lines
 */
function quotedLine({ lineNum, linePos, message }, lines) {
  const line = lines[lineNum - 1];
  if (!lineNum || line === undefined) return message;
  const text = line.length > 160 ? `${line.slice(0, 160)}…` : line;
  const mark = linePos > 0 && linePos <= 160 ? `\n  ${text.slice(0, linePos - 1).replace(/[^\t]/g, " ")}^` : "";
  return `line ${lineNum}, column ${linePos}: ${message}\n  ${text}${mark}`;
}

/**
 * The pipeline, laid out as the function's interface says: what a compiler drops as unused keeps its place.
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
    const { layouts, pending } = await guarded(device, plan.described, () => {
      const layouts = entries.map((each) => device.createBindGroupLayout({ entries: each }));
      const layout = device.createPipelineLayout({ bindGroupLayouts: layouts });
      const pending = device.createComputePipelineAsync({ layout, compute: { module, entryPoint, constants } });
      pending.catch(() => {}); // waited for below; until then it has somebody who listens
      return { layouts, pending };
    });
    return { pipeline: await pending, layouts };
  } catch (error) {
    if (error instanceof DevmodError) throw error;
    await checkStillThere(device, plan.described);
    throw new LaunchError(`${plan.described} cannot be made ready on this device: ${said(error)}`, { kind: "webgpu", cause: error });
  }
}
