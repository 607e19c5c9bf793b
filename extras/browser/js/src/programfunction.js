// A program on one device: its kernels are compiled, and each call is one pass over its steps.

import {
  chosenDevice,
  firstThatRuns,
  newBuffer,
  padded,
  runGuarded,
  writeBytes,
} from "./device.js";
import {
  ArgumentError,
  bytesText,
  DeviceNotFoundError,
  DevmodError,
  FormatError,
  FunctionNotFoundError,
  listNames,
  quoteName,
  repr,
  restated,
} from "./errors.js";
import { evaluate, ExpressionError, expressionText, namesIn } from "./expressions.js";
import { bindStep, hasOwnGrid, KernelFunction } from "./function.js";
import { Image, newImage, newSampler, writeImage } from "./images.js";
import { copied, encoded, filling, prepared } from "./launch.js";
import { didYouMean } from "./near.js";
import { label } from "./plan.js";
import {
  bindLengths,
  bindNames,
  checkSize,
  fixedProblem,
  givenValues,
  measure,
  readArguments,
  readLength,
  shapesOf,
  valuesOf,
} from "./programcall.js";
import { checkKernels, checkNames } from "./programchecks.js";
import {
  isArray,
  MAX_LAUNCHES,
  nameOf,
  programError,
  readProgram,
  REPEAT,
  unitOf,
  View,
} from "./programs.js";
import { StepTimes } from "./steptimes.js";
import { Memory, memoryOf, share } from "./temporaries.js";
import { arrayOf, tuple } from "./texels.js";

/** @import { Module } from "./bundle.js" */
/** @import { Expression } from "./expressions.js" */
/** @import { Interface, Param } from "./interface.js" */
/** @import { Encode, Launch } from "./launch.js" */
/** @import { Arguments, Plan, Refuse, Shapes } from "./programcall.js" */
/** @import { Declared, Given, Program, Repeat, Step } from "./programs.js" */
/** @import { Constant, FunctionInfo } from "./wire.js" */

/** A result of a program: a typed array, or on the device a buffer or an image; or what the call gave for it. @typedef {any} Result */
/** What a step is given for an array. @typedef {{ buffer: GPUBuffer, offset: number, size: number } | Image | GPUTexture} Resource */
/**
 * A program, ready to be called on one device: `const { y } = await f(x)`. The arguments are in the order of `names`, or in a record by
 * name, which may also have outputs, the `state`, and lengths.
 * @typedef {((...args: unknown[]) => Promise<Record<string, Result>>) & ProgramMembers} ProgramFunction
 */
/** The results of a call, and the milliseconds of each step; null where the device has no timestamps. @typedef {{ results: Record<string, Result>, times: number[] | null }} Profile */
/**
 * @typedef {object} ProgramMembers
 * @property {FunctionInfo} info Its declarations.
 * @property {GPUDevice} device
 * @property {readonly string[]} names The arguments in their order.
 * @property {(...args: unknown[]) => Promise<Launch>} bind Check and bind the arguments once: all arrays are on the device, and the outputs are given.
 * @property {(...args: unknown[]) => Promise<Profile>} profile Call it with a pass for each launch, and measure the steps.
 * @property {(lengths?: Record<string, number>) => Promise<Record<string, GPUBuffer>>} state Return new arrays for its state, with their first values.
 */

/** The number of shapes whose launches a program keeps. */
const MOST_PLANS = 64;
/** Writes zeros to an array within a pass. */
const CLEAR = `@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn clear(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) blocks: vec3u) {
  for (var i = id.x; i < arrayLength(&y); i += blocks.x * 64) { y[i] = 0; }
}`;
const CLEAR_INFO = {
  name: "clear",
  argTypes: ["handle"],
  launchParamTags: [],
  argExtraTags: [],
  interface: null,
};
/** @type {WeakMap<GPUDevice, Map<string, Promise<GPUShaderModule>>>} */
const compiled = new WeakMap();

/**
 * Return a program of the first module that has it and whose kernels the device can run.
 * @param {string} name
 * @param {Module[]} modules
 * @param {GPUDevice} [on]
 * @returns {Promise<ProgramFunction>}
 */
export async function makeProgram(name, modules, on) {
  const device = await chosenDevice(on, `the webgpu program ${repr(name)}`);
  const make = (/** @type {Module} */ module) => fromModule(name, module, device);
  return firstThatRuns(modules, make, (errors) => {
    const lines = errors.map(({ message }, number) => `\n  ${number + 1}. webgpu: ${message}`);
    return new DeviceNotFoundError(
      `the program ${quoteName(name)} cannot run here:${lines.join("")}`,
      { kind: "program", function: name },
    );
  });
}

/**
 * @param {string} name
 * @param {Module} module
 * @param {GPUDevice} device
 */
async function fromModule(name, module, device) {
  const contents = await module.contents();
  const info = contents?.functions.get(name);
  if (!contents || !info)
    throw new FunctionNotFoundError(`the module has no program ${quoteName(name)}`, {
      kind: "program",
      function: name,
    });
  if (contents.format !== "steps1") {
    throw new FormatError(
      `the programs have the format ${quoteName(contents.format)}, which a newer devmod-webgpu runs`,
      { kind: "program" },
    );
  }
  if (info.error) throw info.error;
  const needs = (info.interface?.needs ?? []).filter((each) => each !== REPEAT);
  if (needs.length)
    throw new DeviceNotFoundError(`it needs ${listNames(needs)}, which a newer devmod-webgpu has`, {
      function: name,
    });
  const program = readProgram(name, info, contents.shaders.get(name));
  checkNames(program);
  const candidates = candidatesOf(program, module);
  const found = await Promise.all(
    [...candidates].map(([kernel, owners]) => firstBuilt(kernel, owners, device)),
  );
  const kernels = new Map(found.map(([f]) => [f.name, f]));
  checkKernels(
    program,
    new Map(
      found.map(([f, label]) => [
        f.name,
        { label, interface: f.info.interface, ownGrid: hasOwnGrid(f) },
      ]),
    ),
  );
  const problem = fixedProblem(program, device.limits);
  if (problem)
    throw new DeviceNotFoundError(`it cannot run on this device: ${problem}`, { function: name });
  const constants = await constantsOf(program, module);
  const clear = await KernelFunction.make("clear", CLEAR_INFO, CLEAR, compiled, device);
  const run = new Runner(program, device, kernels, constants, clear);
  const call = (/** @type {unknown[]} */ ...args) => run.call(args);
  Object.defineProperty(call, "name", { value: name });
  const bind = (/** @type {unknown[]} */ ...args) => run.bind(args);
  return Object.assign(call, {
    info,
    device,
    names: program.parameters.map((each) => each.name),
    bind,
    profile: (/** @type {unknown[]} */ ...args) => run.profile(args),
    state: run.state.bind(run),
  });
}

/**
 * Return the candidates of each kernel of a program.
 * @param {Program} program
 * @param {Module} module
 */
function candidatesOf(program, module) {
  const owners = module.imports
    .filter(({ kind }) => kind !== "const_loader")
    .map((each) => (each.kind === "bundle" ? leavesOf(each) : [each]));
  return new Map(
    program.kernels.map((kernel) => {
      const having = owners
        .map((each) => each.filter(({ functionNames }) => functionNames.includes(kernel)))
        .filter((each) => each.length);
      if (having.length !== 1) {
        const text = `${quoteName(kernel)}, which ${having.length ? "more than one import" : "no import"} of its module has`;
        throw programError(program.name, ` launches ${text}`);
      }
      return [kernel, /** @type {Module[]} */ (having[0]).filter(({ kind }) => kind === "webgpu")];
    }),
  );
}

/**
 * @param {Module} bundle
 * @returns {Module[]}
 */
function leavesOf(bundle) {
  return [
    ...new Set(
      bundle.imports.flatMap((each) => (each.kind === "bundle" ? leavesOf(each) : [each])),
    ),
  ];
}

/**
 * Return the first candidate of a kernel that a device can run, and its name in a message.
 * @param {string} kernel
 * @param {Module[]} modules
 * @param {GPUDevice} device
 * @returns {Promise<[KernelFunction, string]>}
 */
async function firstBuilt(kernel, modules, device) {
  const make = async (/** @type {Module} */ module) =>
    /** @type {[KernelFunction, string]} */ ([
      await module.getFunction(kernel, { device }),
      `webgpu/${module.format || "wgsl"}`,
    ]);
  return firstThatRuns(modules, make, ([first]) => {
    const why = first ? `: ${first.message}` : " has no candidate of this kind";
    return new DeviceNotFoundError(`its kernel ${quoteName(kernel)}${why}`);
  });
}

/**
 * Return the constants of a program by name.
 * @param {Program} program
 * @param {Module} module
 */
async function constantsOf(program, module) {
  const wanted = program.arrays("constant");
  const loaders = wanted.length ? module.imports.filter(({ kind }) => kind === "const_loader") : [];
  const found = await Promise.all(
    wanted.map(async ({ name }) => {
      const values = await Promise.all(loaders.map((each) => each.constant(name)));
      return values.filter((value) => value !== null);
    }),
  );
  return new Map(
    wanted.map(({ name, type, shape }, number) => {
      const values = found[number] ?? [];
      const [value] = values;
      if (
        value &&
        values.length === 1 &&
        value.type === type &&
        value.shape.length === shape.length
      )
        return [name, value];
      const what =
        value &&
        `${quoteName(name)} is an array of ${value.type} of ${value.shape.length} dimensions; declared is ${type} of ${shape.length}`;
      const none = loaders.length
        ? "the const_loader has no constant"
        : "the module of the kernels has no const_loader with";
      const problem =
        values.length > 1
          ? `several const_loaders have ${quoteName(name)}, as those of merged files`
          : (what ?? `${none} ${quoteName(name)}`);
      throw programError(program.name, `: constants: ${problem}`, name);
    }),
  );
}

/** The calls of one program on one device. */
class Runner {
  #program;
  #device;
  #kernels;
  #constants;
  #clear;
  #error;
  /** The names in expressions, by which the shapes and the launches differ. */
  #sizes;
  /** @type {Map<string, Plan>} */
  #plans = new Map();
  /** @type {Map<string, ReturnType<typeof newSampler>>} */
  #samplers = new Map();

  /**
   * @param {Program} program
   * @param {GPUDevice} device
   * @param {Map<string, KernelFunction>} kernels
   * @param {Map<string, Constant>} constants
   * @param {KernelFunction} clear
   */
  constructor(program, device, kernels, constants, clear) {
    this.#program = program;
    this.#device = device;
    this.#kernels = kernels;
    this.#constants = constants;
    this.#clear = clear;
    this.description = `the webgpu program ${repr(program.name)}`;
    /** @type {Refuse} */
    this.#error = (text, argument = "") =>
      new ArgumentError(`${this.description}: ${text}`, { function: program.name, argument });
    const dims = program.steps.flatMap(({ grid, threads, block, args }) => [
      grid,
      threads,
      block,
      [...args.values()].filter(Array.isArray),
    ]);
    const shapes = program.arrays().map(({ shape }) => shape);
    this.#sizes = new Set([
      ...program.lengthNames,
      ...[
        ...dims,
        ...shapes,
        ...program.requires.map((each) => each.slice(1)),
        program.repeats.map(({ count }) => count),
      ]
        .flat()
        .flatMap(namesIn),
    ]);
    for (const { name, filter, address } of /** @type {any[]} */ (
      [...program.declared.values()].filter(({ role }) => role === "sampler")
    )) {
      if (address === "border")
        throw new DeviceNotFoundError(
          `its sampler ${quoteName(name)} has the address mode 'border', which WebGPU does not support`,
        );
      this.#samplers.set(name, newSampler(device, filter, address));
    }
  }

  /**
   * Run the program, and measure its steps.
   * @param {unknown[]} args
   * @returns {Promise<Profile>}
   */
  async profile(args) {
    const timer = new StepTimes(this.#device, this.description);
    const results = await this.call(args, timer);
    return { results, times: timer.read(this.#program.steps.length) };
  }

  /**
   * Run the program.
   * @param {unknown[]} args
   * @param {StepTimes | null} [timer]
   */
  async call(args, timer = null) {
    const read = readArguments(this.#program, args, this.#device, false, this.#error);
    const isOnDevice = [...read.taken.values()].some(
      ({ binding, image, declared }) => (binding || image) && declared.role !== "state",
    );
    const plan = this.#plan(read, !isOnDevice);
    this.#checkOutputs(read, plan.shapes);
    /** @type {{ destroy(): void }[]} */
    const owned = [];
    try {
      const { resources, hosts, copies } = await this.#orForgotten(
        runGuarded(this.#device, this.description, () =>
          this.#queue(read, plan, !isOnDevice, owned, timer),
        ),
      );
      await Promise.all(copies.map((copy) => copy()));
      return Object.fromEntries(
        this.#program.arrays("output").map(({ name, type }) => {
          if (read.taken.has(name)) return [name, read.given.get(name)];
          const [host, resource] = [hosts.get(name), resources.get(name)];
          return [
            name,
            host
              ? arrayOf(type, host.buffer)
              : resource && "buffer" in resource
                ? resource.buffer
                : resource,
          ];
        }),
      );
    } finally {
      for (const each of owned) each.destroy(); // the device destroys it after the queued work
    }
  }

  /**
   * Check and bind the arguments once. The launch has its own temporaries.
   * @param {unknown[]} args
   */
  async bind(args) {
    const read = readArguments(this.#program, args, this.#device, true, this.#error);
    const missing = this.#program
      .arrays("output")
      .map(({ name }) => name)
      .filter((name) => !read.taken.has(name));
    if (missing.length)
      throw this.#error(`bind needs its outputs by name: ${listNames(missing)}`, missing[0]);
    const plan = this.#newPlan(
      bindLengths(this.#program, read, this.#constants, this.#error),
      read,
      false,
    );
    this.#checkOutputs(read, plan.shapes);
    return this.#orForgotten(
      prepared(this.#device, this.description, (owned) => {
        const memory = new Memory(this.#device);
        const resources = this.#resources(read, plan, memory, owned, false);
        owned.push(...memory.all);
        const launches = this.#launches(read, plan, resources);
        owned.push(...plan.owned);
        return (pass) => launches.forEach((each) => each(pass));
      }),
    );
  }

  /**
   * Forget the buffers of a device for which it had no memory, where the work that makes them fails.
   * @template T
   * @param {Promise<T>} work
   */
  #orForgotten(work) {
    return work.catch((error) => {
      memoryOf(this.#device).trim(-1);
      memoryOf(this.#device).constants = new WeakMap();
      throw error;
    });
  }

  /**
   * Return new arrays for the state.
   * @param {Record<string, number>} [lengths]
   */
  async state(lengths = {}) {
    const states = this.#program.arrays("state");
    const fixed = this.#program.arrays("constant").flatMap(({ shape }) => shape);
    const names = [...new Set(states.flatMap(({ shape }) => shape.flatMap(namesIn)))].filter(
      (name) => !fixed.includes(name),
    );
    if (!states.length) throw this.#error("it has no state", "state");
    const unknown = Object.keys(lengths).find((each) => !names.includes(each));
    if (unknown)
      throw this.#error(
        `its state has no length ${repr(unknown)} to give${didYouMean(unknown, names)}`,
        unknown,
      );
    const missing = names.filter((each) => !(each in lengths));
    if (missing.length)
      throw this.#error(
        `its state also needs ${listNames(missing)}: f.state({ ${missing[0]}: … })`,
        missing[0],
      );
    const values = new Map(
      Object.entries(lengths).map(([name, value]) => [name, readLength(name, value, this.#error)]),
    );
    for (const { name, shape } of this.#program.arrays("constant"))
      bindNames(shape, this.#constants.get(name)?.shape ?? [], values);
    return runGuarded(this.#device, this.description, () =>
      Object.fromEntries(
        states.map((each) => {
          const [shape, bytes] = measure(each, values, this.#device.limits, this.#error);
          const buffer = newBuffer(this.#device, bytes, 0);
          const first = this.#constants.get(each.initial);
          if (first && shape.some((length, at) => length !== Number(first.shape[at]))) {
            throw this.#error(
              `the state ${repr(each.name)} has the shape ${tuple(shape)}, and ${repr(each.initial)} has ${tuple(first.shape)}`,
              each.name,
            );
          }
          if (first) writeBytes(this.#device, buffer, first.data);
          return [each.name, buffer];
        }),
      ),
    );
  }

  /**
   * Return the plan of a call: a known one, or a new one.
   * @param {Arguments} read
   * @param {boolean} toHost Whether the outputs that are not given go to the host.
   */
  #plan(read, toHost) {
    const values = bindLengths(this.#program, read, this.#constants, this.#error);
    const modes = [...read.taken].map(([name, { host, bytes }]) => `${name} ${host ? bytes : ""}`);
    const key = JSON.stringify([
      [...values]
        .filter(([name]) => this.#sizes.has(name))
        .map(String)
        .sort(),
      modes,
      toHost,
    ]);
    const plan = this.#plans.get(key) ?? this.#newPlan(values, read, toHost);
    this.#plans.delete(key);
    this.#plans.set(key, plan); // the last used one is the last
    for (const [first, oldest] of this.#plans) {
      if (this.#plans.size <= MOST_PLANS) break;
      oldest.owned.forEach((buffer) => buffer.destroy());
      this.#plans.delete(first);
    }
    return plan;
  }

  /**
   * @param {Map<string, bigint>} values
   * @param {Arguments} read
   * @param {boolean} toHost
   * @returns {Plan}
   */
  #newPlan(values, { taken }, toHost) {
    const program = this.#program;
    const shapes = shapesOf(program, values, this.#device.limits, this.#error);
    /** The sizes of the arrays that share memory, by its form. @type {Map<string, Map<string, number>>} */
    const forms = new Map();
    const lifetimes = program.lifetimes();
    const spans = new Map(lifetimes);
    /** The names that steps with threads write, and those in them. @type {Set<string>} */
    const written = new Set();
    /** @type {Set<string>} */
    const used = new Set();
    const turns = this.#turns(values);
    const around = program.repeatsOfSteps();
    program.steps.forEach((step, number) => {
      const { grid = [], threads = [] } = this.#dims(step, number, values);
      if (around[number]?.some((each) => !turns.get(each))) return;
      if ([...grid, ...threads].includes(0n)) return;
      for (const name of this.#written(step)) written.add(name);
      for (const value of step.args.values()) used.add(nameOf(value));
    });
    const cleared = new Set();
    for (const { name, role, format, cleared: always } of program.arrays()) {
      const { host, bytes = shapes.bytes.get(name) ?? 0 } = taken.get(name) ?? {};
      const isNew = role === "temporary" || (role === "output" && !taken.has(name));
      if (
        !format &&
        (always ||
          (isNew && !written.has(name) && (role === "output" || used.has(name))) ||
          (role === "temporary" && padded(bytes) !== bytes))
      )
        cleared.add(name);
      if (role !== "temporary" && (format || !(host || (isNew && toHost)))) continue;
      const form = format && `${format} ${[...(shapes.lengths.get(name) ?? [])].reverse()}`;
      forms.set(form, (forms.get(form) ?? new Map()).set(name, padded(bytes)));
      const [first, last] = lifetimes.get(name) ?? [0, 0];
      // What the host gives is there before the first step, and what it gets after the last one.
      if (role !== "temporary")
        spans.set(name, [
          role === "output" ? first : -1,
          role === "input" ? last : program.steps.length,
        ]);
    }
    const places = [...forms].map(
      ([form, sizes]) => /** @type {Plan["places"][0]} */ ([form, ...share(sizes, spans)]),
    );
    return { shapes, turns, cleared, places, launches: [], steps: [], key: [], owned: [] };
  }

  /**
   * Return the number of turns of each repeat.
   * @param {ReadonlyMap<string, bigint>} values
   */
  #turns(values) {
    const program = this.#program;
    /** @type {Map<Repeat, number>} */
    const result = new Map();
    for (const each of program.repeats) {
      const text = `the repeat of ${repr(each.name)}`;
      const count = restated(
        () => evaluate(each.count, values),
        ExpressionError,
        (reason) => this.#error(`${text}: ${reason}`),
      );
      if (count < 0n)
        throw this.#error(
          `${text} has ${expressionText(each.count)} turns, and that is ${count}${givenValues([each.count], values)}`,
        );
      result.set(each, Number(count));
    }
    let total = 0n;
    for (const around of program.repeatsOfSteps())
      total += around.reduce((one, each) => one * BigInt(result.get(each) ?? 0), 1n);
    if (result.size && total > MAX_LAUNCHES)
      throw this.#error(
        `its repeats have ${total} launches, and a call has at most ${MAX_LAUNCHES}`,
      );
    return result;
  }

  /**
   * Return the names that a step gives to parameters which its kernel may write.
   * @param {Step} step
   */
  #written({ kernel, args }) {
    const { params } = /** @type {Interface} */ (this.#kernels.get(kernel)?.info.interface);
    return params
      .filter(({ access, kind }) => access !== "r" && (kind === "buffer" || kind === "image"))
      .map(({ name }) => nameOf(args.get(name)));
  }

  /**
   * Check the outputs that a call gives.
   * @param {Arguments} read
   * @param {Shapes} shapes
   */
  #checkOutputs({ taken }, { lengths }) {
    for (const { declared, extent, bytes, host } of taken.values()) {
      const { name, role } = declared;
      const wanted = lengths.get(name) ?? [];
      if (role !== "output") continue;
      if (!extent) checkSize(declared, bytes, Boolean(host), wanted.map(BigInt), this.#error);
      else if (String(extent) !== String(wanted))
        throw this.#error(
          `the argument ${repr(name)} has the shape ${tuple(extent)}, and the program returns ${tuple(wanted)}`,
          name,
        );
    }
  }

  /**
   * Return what steps use, by name: the memory of the host's arrays, of temporaries and of new outputs, what the call gives, and constants.
   * @param {Arguments} read
   * @param {Plan} plan
   * @param {Memory} memory
   * @param {{ push(made: GPUBuffer | Image): void }} owned Receives what is destroyed after the call.
   * @param {boolean} toHost
   */
  #resources({ taken }, { shapes, places }, memory, owned, toHost) {
    const device = this.#device;
    const shared = new Map(
      places.flatMap(([form, numbers, sizes]) => {
        const all = memory.take(form, sizes);
        return [...numbers].map(([name, number]) => [
          name,
          /** @type {GPUBuffer | Image} */ (all[number]),
        ]);
      }),
    );
    /** @type {Map<string, Resource>} */
    const result = new Map();
    for (const declared of this.#program.arrays()) {
      const { name, role, format } = declared;
      const { host = null, binding, image, picture, extent } = taken.get(name) ?? {};
      const lengths = shapes.lengths.get(name) ?? [];
      const place = shared.get(name);
      const bytes = host?.length ?? shapes.bytes.get(name) ?? 0;
      if (binding || image) result.set(name, /** @type {Resource} */ (binding ?? image));
      else if (role === "constant") result.set(name, this.#constant(name));
      else if (place instanceof Image) result.set(name, place);
      else if (place) {
        if (host && role !== "output")
          writeBytes(device, place, host.length ? host : new Uint8Array(256));
        result.set(name, { buffer: place, offset: 0, size: padded(bytes) });
      } else if (format && role !== "temporary") {
        const [height = 1, width = 1] =
          extent ??
          (role === "output"
            ? lengths
            : valuesOf(name, declared.shape, shapes.values, this.#error).map(Number));
        const made = newImage(device, [width, height], format);
        if (role !== "output" || toHost || host) owned.push(made);
        if (role !== "output") writeImage(made, /** @type {any} */ (picture ?? host));
        result.set(name, made);
      } else if (role === "output") {
        const buffer = newBuffer(device, bytes, 0);
        result.set(name, { buffer, offset: 0, size: buffer.size });
      }
    }
    return result;
  }

  /** @param {string} name */
  #constant(name) {
    const constant = /** @type {Constant} */ (this.#constants.get(name));
    const { constants } = memoryOf(this.#device);
    const buffer = constants.get(constant) ?? newBuffer(this.#device, constant.data.length);
    if (!constants.has(constant)) writeBytes(this.#device, buffer, constant.data);
    constants.set(constant, buffer);
    return { buffer, offset: 0, size: padded(constant.data.length) };
  }

  /**
   * Write the arrays of the host, queue the launches, and the copies of what goes to the host.
   * @param {Arguments} read
   * @param {Plan} plan
   * @param {boolean} toHost
   * @param {{ destroy(): void }[]} owned
   * @param {StepTimes | null} timer
   */
  #queue(read, plan, toHost, owned, timer) {
    const memory = memoryOf(this.#device);
    memory.trim();
    const resources = this.#resources(read, plan, memory, owned, toHost);
    /** @type {unknown[]} */
    const key = [...read.scalars.values()];
    for (const each of resources.values())
      key.push(...("buffer" in each ? [each.buffer, each.offset, each.size] : [each]));
    if (key.length !== plan.key.length || key.some((each, at) => !Object.is(each, plan.key[at]))) {
      plan.owned.forEach((buffer) => buffer.destroy());
      Object.assign(plan, { key: [], owned: [] });
      plan.launches = this.#launches(read, plan, resources);
      plan.key = key;
    }
    /** The arrays of the host that get results, and what copies them. @type {Map<string, Uint8Array<ArrayBuffer>>} */
    const hosts = new Map();
    /** @type {(() => Promise<void>)[]} */
    const copies = [];
    const encoder = timer
      ? timer.encode(plan.launches, plan.steps, owned, copies)
      : encoded(this.#device, (pass) => plan.launches.forEach((each) => each(pass)));
    for (const { name, role } of this.#program.arrays("output", "update")) {
      const given = read.taken.get(name);
      const isNew = role === "output" && toHost && !given;
      const host = /** @type {Uint8Array<ArrayBuffer> | null} */ (
        isNew ? new Uint8Array(plan.shapes.bytes.get(name) ?? 0) : (given?.host ?? null)
      );
      const resource = resources.get(name);
      if (!host || !resource) continue;
      hosts.set(name, host);
      if ("buffer" in resource)
        copies.push(copied(this.#device, this.description, encoder, resource.buffer, host, owned));
      else
        copies.push(
          filling(
            this.description,
            host,
            async () => new Uint8Array((await /** @type {Image} */ (resource).read()).buffer),
          ),
        );
    }
    this.#device.queue.submit([encoder.finish()]);
    return { resources, hosts, copies };
  }

  // -- the steps

  /**
   * Return what encodes the launches.
   * @param {Arguments} read
   * @param {Plan} plan
   * @param {Map<string, Resource>} resources
   */
  #launches(read, plan, resources) {
    const { steps } = this.#program;
    const cleared = new Set(plan.cleared);
    /** @type {Encode[]} */
    const result = [];
    plan.steps = [];
    /** @param {Step} step */
    const clear = (step) => {
      for (const name of [...step.args.values()].map(nameOf)) {
        const resource = resources.get(name);
        if (!cleared.delete(name) || !resource || !("buffer" in resource)) continue;
        plan.steps.push(-1);
        result.push(
          bindStep(
            this.#clear,
            [resource],
            {
              grid: Math.min(
                Math.ceil(resource.size / 256),
                this.#device.limits.maxComputeWorkgroupsPerDimension,
              ),
            },
            plan.owned,
          ),
        );
      }
    };
    /** @type {(step: Step, number: number, values: ReadonlyMap<string, bigint>) => void} */
    const launch = (step, number, values) => {
      const f = /** @type {KernelFunction} */ (this.#kernels.get(step.kernel));
      const { params } = /** @type {Interface} */ (f.info.interface);
      const shapes = { ...plan.shapes, values };
      const given = params.map((param) =>
        this.#argument(step, number, param, read, shapes, resources),
      );
      const options = /** @type {any} */ (this.#dims(step, number, values));
      plan.steps.push(number);
      result.push(
        restated(
          () => bindStep(f, given, options, plan.owned),
          DevmodError,
          (_, error) => this.#ofStep(error, step, number, params),
        ),
      );
    };
    const around = this.#program.repeatsOfSteps();
    /** Add the launches of some steps within `depth` repeats. @type {(first: number, end: number, depth: number, values: ReadonlyMap<string, bigint>) => void} */
    const within = (first, end, depth, values) => {
      for (let number = first; number < end; ) {
        const repeat = around[number]?.[depth];
        const next = repeat?.end ?? number + 1;
        // What a repeat uses is cleared once, before its first turn.
        if (!depth) steps.slice(number, next).forEach(clear);
        if (!repeat) launch(/** @type {Step} */ (steps[number]), number, values);
        else
          for (let turn = 0; turn < (plan.turns.get(repeat) ?? 0); turn++)
            within(number, next, depth + 1, new Map(values).set(repeat.name, BigInt(turn)));
        number = next;
      }
    };
    within(0, steps.length, 0, plan.shapes.values);
    return result;
  }

  /**
   * Return what a step gives for a parameter of its kernel.
   * @param {Step} step
   * @param {number} number
   * @param {Param} param
   * @param {Arguments} read
   * @param {Shapes} shapes
   * @param {Map<string, Resource>} resources
   */
  #argument(step, number, param, { scalars }, shapes, resources) {
    const value = (/** @type {Given | undefined} */ given) => {
      if (Array.isArray(given)) {
        const expression = /** @type {Expression} */ (given);
        return this.#number(step, number, () => evaluate(expression, shapes.values));
      }
      const name = nameOf(given);
      const resource = resources.get(name);
      if (!resource)
        return this.#samplers.get(name) ?? scalars.get(name) ?? shapes.values.get(name) ?? given;
      if (!("buffer" in resource)) return resource;
      if (given instanceof View) {
        const size = unitOf({ type: given.type, texel: null });
        if (resource.size % size)
          throw this.#stepError(
            step,
            number,
            `${repr(name)} has ${bytesText(resource.size)}, and each ${given.type} of '${given}' has ${size}`,
            name,
          );
      }
      const { shape } = /** @type {Declared} */ (this.#program.declared.get(name));
      const isEmpty =
        resource.size === 4 && shape.some((length) => evaluate(length, shapes.values) === 0n);
      return isEmpty
        ? { ...resource, size: Math.max(4, Math.ceil(param.least / 4) * 4) }
        : resource;
    };
    const given = step.args.get(param.name);
    if (given !== undefined || !param.members.length) return value(given);
    return Object.fromEntries(param.members.map(({ name }) => [name, value(step.args.get(name))]));
  }

  /**
   * Return the launch of a step; a part that it does not give is missing.
   * @param {Step} step
   * @param {number} number
   * @param {ReadonlyMap<string, bigint>} values
   * @returns {{ grid?: bigint[], threads?: bigint[], block?: bigint[] }}
   */
  #dims(step, number, values) {
    const words = /** @type {const} */ (["grid", "threads", "block"]).filter(
      (word) => step[word].length,
    );
    return this.#number(step, number, () =>
      Object.fromEntries(
        words.map((word) => [word, step[word].map((each) => evaluate(each, values))]),
      ),
    );
  }

  /**
   * @template T
   * @param {Step} step
   * @param {number} number
   * @param {() => T} make
   */
  #number(step, number, make) {
    return restated(make, ExpressionError, (reason) => this.#stepError(step, number, reason));
  }

  /**
   * @param {Step} step
   * @param {number} number
   * @param {string} text
   * @param {string} [argument]
   */
  #stepError(step, number, text, argument) {
    return this.#error(`step ${number + 1} (${repr(step.kernel)}): ${text}`, argument);
  }

  /**
   * Put the program, the step, and the program's arrays into the message of a kernel.
   * @param {DevmodError} error
   * @param {Step} step
   * @param {number} number
   * @param {Param[]} params
   */
  #ofStep(error, step, number, params) {
    let text = error.message;
    params.forEach((param, at) => {
      const given = step.args.get(param.name);
      if (typeof given !== "string" || !isArray(this.#program.declared.get(given))) return;
      const named = label({ number: at, name: param.name });
      if (given !== param.name)
        text = text.replaceAll(named, `${named} (${repr(given)} of the program)`);
      if (error.argument === param.name) error.argument = given;
    });
    error.message = `${this.description}, step ${number + 1}: ${text}`;
    error.function = this.#program.name;
    return error;
  }
}
