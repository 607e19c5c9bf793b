// A function of a webgpu module on one device: compiled, its arguments checked, and launched.

import {
  bufferBinding,
  checkShared,
  checkTextures,
  hostArray,
  imageBinding,
  packBlocks,
  samplerBinding,
  shareHosts,
} from "./arguments.js";
import { unknownNeeds } from "./checks.js";
import { specialize } from "./constants.js";
import {
  checkNotLost,
  chosenDevice,
  firstThatRuns,
  newBuffer,
  runGuarded,
  Usage,
  writeBytes,
} from "./device.js";
import { DeviceNotFoundError, LaunchError, restated } from "./errors.js";
import { copied, encoded, prepared } from "./launch.js";
import { checkLimits, compile, makePipeline, unmetNeeds } from "./pipeline.js";
import { callError, label, launchedBlock, makePlan } from "./plan.js";
import { readConfig, readShape } from "./shape.js";
import { BlockBytes } from "./records.js";
import { ConversionError } from "./scalars.js";
import { ownGrid, variantsOf, withConstants } from "./tuning.js";

/** @import { Host, Texture } from "./arguments.js" */
/** @import { Image, Sampler } from "./images.js" */
/** @import { Compiled, Pipeline } from "./pipeline.js" */
/** @import { Encode, Launch } from "./launch.js" */
/** @import { Argument, Plan, Spot } from "./plan.js" */
/** @import { Struct } from "./records.js" */
/** @import { Scalar } from "./scalars.js" */
/** @import { LaunchConfig, LaunchOptions, Shape } from "./shape.js" */
/** @import { Variant } from "./tuning.js" */
/** @import { FunctionInfo } from "./wire.js" */

/**
 * The value of an argument: a typed array (copied in, and back if the kernel may write to it), a device buffer, a scalar, a struct, an
 * image or a sampler.
 * @typedef {Scalar | Struct | GPUBuffer | GPUBufferBinding | Image | GPUTexture | GPUTextureView | Sampler | GPUSampler} Value
 */
/**
 * The arguments of a call: a record of them by name, or an array of them in the order of the signature. By name, a record of the scalars
 * of a block may be given under the block's name.
 * @template {Record<string, Value>} [Named=Record<string, Value>]
 * @typedef {Named | readonly Value[]} Arguments
 */
/**
 * A call with checked arguments. `shape` is null if nothing is launched.
 * @typedef {object} Call
 * @property {Shape | null} shape
 * @property {Host[]} hosts
 * @property {Map<Argument, GPUBufferBinding>} buffers
 * @property {Map<Argument, Texture>} textures The images and the samplers.
 * @property {boolean} filters Whether its layout has linear samplers.
 * @property {Map<Argument, Uint8Array>} scalars
 * @property {{ spot: Spot, data: Uint8Array }[]} blocks
 */

/**
 * The pipeline with linear samplers, or why there is none, and the one for images that they cannot read. Most functions have only one.
 * @typedef {{ linear: Pipeline | string, nearest: Pipeline }} Ready
 */

/**
 * What a function was made of and has: `missing` are the names of the constants without a value, without which there are no pipelines, and
 * `set` are the constants that are set. `variant` is that of a tuned function.
 * @typedef {object} Made
 * @property {string} text
 * @property {Compiled} compiled
 * @property {[number, number, number] | null} block
 * @property {Ready | null} ready
 * @property {string[]} missing
 * @property {ReadonlyMap<number, number>} set
 * @property {Variant | null} variant
 */

/**
 * Check the arguments of a launch, and bind them, for a step of a program. Return what encodes it. `owned` receives the buffers of its scalars.
 * @type {(f: KernelFunction, args: readonly unknown[], options: LaunchOptions, owned: GPUBuffer[]) => Encode}
 */
export let bindStep;

/** Whether a function has a grid of its own, so that a step of a program names none. @type {(f: KernelFunction) => boolean} */
export let hasOwnGrid;

/**
 * One function, ready to be launched on one device.
 * @template {Record<string, Value>} [Named=Record<string, Value>] The names of its arguments, with their types.
 */
export class KernelFunction {
  static {
    bindStep = (f, args, options, owned) => {
      const call = f.#read(args, options, true);
      return f.#encoder(call, [], owned);
    };
    hasOwnGrid = (f) => Boolean(f.#made.variant?.grid.length);
  }

  #plan;
  #made;

  /**
   * @param {FunctionInfo} info
   * @param {GPUDevice} device
   * @param {Plan} plan
   * @param {Made} made
   */
  constructor(info, device, plan, made) {
    /** The name of the function in its module. */
    this.name = plan.name;
    /** Its signature. */
    this.info = info;
    /** The device that it runs on. */
    this.device = device;
    this.#plan = plan;
    this.#made = made;
  }

  /**
   * @template {Record<string, Value>} [Named=Record<string, Value>]
   * @param {string} name
   * @param {FunctionInfo} info
   * @param {string} text
   * @param {Compiled} compiled
   * @param {GPUDevice} [on]
   * @param {Record<string, number | bigint | boolean>} [constants]
   * @param {ReadonlyMap<number, number>} [before] The constants that were set before.
   * @param {Variant | null} [variant] That of a tuned function, whose interface `info` has.
   * @returns {Promise<KernelFunction<Named>>}
   */
  static async make(name, info, text, compiled, on, constants = {}, before, variant = null) {
    const plan = makePlan(name, info, text);
    const { description } = plan;
    const device = await chosenDevice(on, description);
    if (info.interface?.extra.tune !== undefined) {
      // A later devmod may write variants that are invalid here, with a need that says so.
      const newer = unmetNeeds(
        { needs: unknownNeeds(info.interface.needs), subgroup: null },
        device,
      );
      if (newer) throw callError(plan, newer, "", DeviceNotFoundError);
      const make = (/** @type {Variant} */ each) =>
        KernelFunction.make(name, each.info, text, compiled, device, constants, before, each);
      return firstThatRuns(variantsOf(description, info), make, ([first]) => first);
    }
    const all = { ...variant?.set, ...constants };
    const {
      values,
      block: known,
      ...ofConstants
    } = specialize(description, info.interface, all, before);
    const block = launchedBlock(plan.description, text, info.name, known);
    const unmet = unmetNeeds(info.interface, device);
    if (unmet) throw callError(plan, unmet, "", DeviceNotFoundError);
    checkLimits(device, plan, block, info.interface?.extra.features);
    const made = { text, compiled, block, ready: null, ...ofConstants, variant };
    if (made.missing.length) return new KernelFunction(info, device, plan, made);
    const shader = await compile(device, text, plan.description, compiled);
    const ready = await makePipelines(plan, device, (filters) =>
      makePipeline(device, plan, info.name, shader, values, filters),
    );
    return new KernelFunction(info, device, plan, { ...made, ready });
  }

  /**
   * Return this function with constants of its shader (WGSL's `override`) set. Constants that were set before keep their values.
   * @param {Record<string, number | bigint | boolean>} constants
   * @returns {Promise<KernelFunction<Named>>}
   */
  async specialize(constants) {
    const { text, compiled, set, variant } = this.#made;
    const now = variant && withConstants(variant, constants);
    const { name, info, device } = this;
    return KernelFunction.make(name, info, text, compiled, device, constants, set, now);
  }

  /** The number of threads in a block, in x, y and z; null if it is unknown. */
  get block() {
    return this.#made.block;
  }

  /**
   * Return the grid and the block of a call with these options. Those of a function with a grid of its own are the arguments that decide it.
   * @param {LaunchOptions | Record<string, number | bigint>} options
   * @returns {LaunchConfig}
   */
  launchConfig(options) {
    const { block, variant } = this.#made;
    if (!variant?.grid.length)
      return readConfig(this.#plan, /** @type {LaunchOptions} */ (options), block);
    const given = /** @type {Record<string, number | bigint>} */ (options);
    return { grid: ownGrid(this.#plan, variant, {}, ({ name }) => given[name]), block };
  }

  /**
   * Launch the function. With typed arrays it resolves when they are copied back, otherwise when the launch is queued.
   * @param {Arguments<Named>} args Its arguments by name, or in the order of its signature; TVM's launch values may follow those in
   *   order, in place of `grid`.
   * @param {LaunchOptions} [options]
   */
  async run(args, options = {}) {
    const { device } = this;
    const { description } = this.#plan;
    const call = this.#read(args, options, false);
    if (!call.shape) return;
    /** @type {GPUBuffer[]} */
    const owned = [];
    try {
      const back = await runGuarded(device, description, () => {
        const buffers = call.hosts.map((host) => upload(device, host, owned));
        const encoder = encoded(device, this.#encoder(call, buffers, owned));
        const copies = buffers.flatMap((buffer, number) => {
          const { written, bytes } = /** @type {Host} */ (call.hosts[number]);
          return written ? [copied(device, description, encoder, buffer, bytes, owned)] : [];
        });
        device.queue.submit([encoder.finish()]);
        return copies;
      });
      await Promise.all(back.map((copy) => copy()));
    } finally {
      for (const buffer of owned) buffer.destroy(); // the device destroys it after the queued work
    }
  }

  /**
   * Check and bind the arguments once. Arrays must be device buffers.
   * @param {Arguments<Named>} args
   * @param {LaunchOptions} [options]
   * @returns {Promise<Launch>}
   */
  async bind(args, options = {}) {
    const call = this.#read(args, options, true);
    return prepared(this.device, this.#plan.description, (owned) => this.#encoder(call, [], owned));
  }

  /**
   * Check and convert the arguments of a call, without using the device.
   * @param {unknown} args
   * @param {LaunchOptions} options
   * @param {boolean} bound
   * @returns {Call}
   */
  #read(args, options, bound) {
    const plan = this.#plan;
    checkNotLost(this.device, plan.description);
    if (this.#made.missing.length) {
      const set = this.#made.missing.map((each) => `${each}: …`).join(", ");
      throw callError(
        plan,
        `has constants without a value; set them: await f.specialize({ ${set} })`,
        "",
        LaunchError,
      );
    }
    const { values, shape } = readShape(
      plan,
      args,
      options,
      this.#made.block,
      this.device.limits.maxComputeWorkgroupsPerDimension,
      this.#made.variant,
    );
    /** @type {Host[]} */
    const given = [];
    /** @type {Map<Argument, GPUBufferBinding>} */
    const buffers = new Map();
    /** @type {Map<Argument, Texture>} */
    const textures = new Map();
    /** @type {Map<Argument, Uint8Array>} */
    const scalars = new Map();
    /** The contents of the blocks that are given as records. @type {Map<number, Uint8Array>} */
    const contents = new Map();
    plan.args.forEach((argument, number) => {
      const value = values[number];
      const read = () => {
        if (value instanceof BlockBytes) contents.set(argument.block, value.bytes);
        else if (argument.pack) scalars.set(argument, argument.pack(value));
        else if (argument.image) textures.set(argument, imageBinding(argument, value, this.device));
        else if (argument.kind === "sampler")
          textures.set(argument, samplerBinding(value, this.device));
        else {
          const binding = bufferBinding(argument, value, this.device);
          if (binding) buffers.set(argument, binding);
          else given.push(hostArray(argument, value, bound, this.device));
        }
      };
      restated(read, ConversionError, (reason) =>
        callError(plan, `: ${label(argument)}${argument.pack ? ":" : ""} ${reason}`, argument),
      );
    });
    const hosts = shareHosts(plan, given);
    checkShared(plan, buffers);
    const linear = this.#made.ready?.linear;
    const filters = checkTextures(plan, textures, typeof linear === "string" ? linear : "");
    return {
      shape,
      hosts,
      buffers,
      textures,
      filters,
      scalars,
      blocks: shape ? packBlocks(plan, scalars, contents, shape) : [],
    };
  }

  /**
   * Bind the arguments of a call, and return what encodes its launch.
   * @param {Call} call
   * @param {GPUBuffer[]} uploads The buffers of the host arrays.
   * @param {{ push(buffer: GPUBuffer): void }} owned Receives the buffers that are created here.
   * @returns {Encode}
   */
  #encoder(call, uploads, owned) {
    const { shape } = call;
    if (!shape) return () => {};
    const { device } = this;
    const { pipeline, layouts } = /** @type {Pipeline} */ (
      this.#made.ready?.[call.filters ? "linear" : "nearest"]
    );
    /** @type {GPUBindGroupEntry[][]} */
    const entries = layouts.map(() => []);
    const put = (
      /** @type {Spot} */ { group, binding },
      /** @type {GPUBindingResource} */ resource,
    ) => entries[group]?.push({ binding, resource });
    const uniform = (/** @type {Spot} */ spot, /** @type {Uint8Array} */ data) => {
      const buffer = device.createBuffer({
        size: Math.ceil(data.length / 16) * 16,
        usage: Usage.UNIFORM | Usage.COPY_DST,
      });
      owned.push(buffer);
      const whole = new Uint8Array(buffer.size);
      whole.set(data);
      device.queue.writeBuffer(buffer, 0, whole);
      put(spot, { buffer });
    };
    for (const [argument, binding] of call.buffers)
      put(/** @type {Spot} */ (argument.spot), binding);
    call.hosts.forEach((host, number) => {
      const buffer = /** @type {GPUBuffer} */ (uploads[number]);
      for (const argument of host.args) put(/** @type {Spot} */ (argument.spot), { buffer });
    });
    for (const [argument, { resource }] of call.textures)
      put(/** @type {Spot} */ (argument.spot), resource());
    for (const [argument, data] of call.scalars) if (argument.spot) uniform(argument.spot, data);
    call.blocks.forEach(({ spot, data }) => uniform(spot, data));
    const groups = layouts.map((layout, number) =>
      device.createBindGroup({ layout, entries: entries[number] ?? [] }),
    );
    return (pass) => {
      pass.setPipeline(pipeline);
      groups.forEach((group, number) => pass.setBindGroup(number, group));
      pass.dispatchWorkgroups(...shape.launched);
    };
  }
}

/**
 * Return the pipelines of a function. With a sampler, the layouts depend on whether it is linear: such a sampler cannot read integers,
 * nor 32-bit floats without a feature.
 * @param {Plan} plan
 * @param {GPUDevice} device
 * @param {(filters: boolean) => Promise<Pipeline>} make
 * @returns {Promise<Ready>}
 */
async function makePipelines({ args }, { features }, make) {
  const samples = args.some(({ kind }) => kind === "sampler");
  const isFiltered = (/** @type {Argument} */ { image }) =>
    !image || image.format || (image.sample === "float" && features.has("float32-filterable"));
  if (!samples || args.every(isFiltered)) {
    const only = await make(samples);
    return { linear: only, nearest: only };
  }
  const nearest = await make(false);
  const linear = await make(true).catch((error) => {
    if (error instanceof LaunchError) return error.message;
    throw error;
  });
  return { linear, nearest };
}

/**
 * @param {GPUDevice} device
 * @param {Host} host
 * @param {GPUBuffer[]} owned
 */
function upload(device, host, owned) {
  // arrayLength() follows the bound size: that of the array, but at least one element.
  const buffer = newBuffer(
    device,
    host.bytes.length,
    Math.max(...host.args.map(({ least }) => least)),
  );
  owned.push(buffer);
  writeBytes(device, buffer, host.bytes);
  return buffer;
}
