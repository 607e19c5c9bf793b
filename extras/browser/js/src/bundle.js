// A `.devmod` file: its tree of modules. Opening one reads the head of its index, and the index if it is one page. A module's bytes are read at their first use.

import { sameItems } from "./bytes.js";
import { chosenDevice, firstThatRuns } from "./device.js";
import {
  ArgumentError,
  DeviceNotFoundError,
  FormatError,
  FunctionNotFoundError,
  NoModuleError,
  listNames,
  listTexts,
  repr,
  restated,
  quoteName,
} from "./errors.js";
import { KernelFunction } from "./function.js";
import { sha256 } from "./head.js";
import { kept } from "./kept.js";
import { Index } from "./pages.js";
import { unmetNeeds } from "./pipeline.js";
import { makeProgram } from "./programfunction.js";
import { describeValue } from "./scalars.js";
import { expand, repeatedSize } from "./repeats.js";
import { sourceOf } from "./source.js";
import { decode, joinParts, readSources, sizeProblem, sourceText } from "./wire.js";

/** @import { Value } from "./function.js" */
/** @import { Entry, Origin } from "./head.js" */
/** @import { ProgramFunction } from "./programfunction.js" */
/** @import { FetchOptions, Source } from "./source.js" */
/** @import { Constant, Contents, FunctionInfo, StoredConstant } from "./wire.js" */

/** The formats of the source of each kind, in the order of preference. */
const SOURCES = new Map([
  ["cuda", ["cuda"]],
  ["rocm", ["hip", "asm", "ll"]],
  ["metal", ["metal"]],
  ["vulkan", ["spv"]],
  ["opencl", ["cl"]],
  ["hexagon", ["asm"]],
  ["webgpu", ["wgsl"]],
]);

/**
 * Where a function runs.
 * @typedef {object} FunctionOptions
 * @property {GPUDevice} [device] The device; by default the package's own, which is created at its first use.
 */

/**
 * What `getFunction` returns: a kernel with arguments of these types, or a program.
 * @template {Record<string, Value> | ProgramFunction} T
 * @typedef {T extends ProgramFunction ? T : T extends Record<string, Value> ? KernelFunction<T> : never} FunctionOf
 */

/** What is wrong with bytes of another digest. */
const DAMAGED =
  "is damaged: its SHA-256 is not the one in the index. Nothing of it was used. Get the file again from where it came";

/** The kinds of which a browser may run a module. */
const RUNNABLE = ["webgpu", "program"];

/**
 * Open a `.devmod` file. This reads and checks only its head. The rest of a URL is fetched in parts when it is needed.
 * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} from A URL, a File or Blob, or the bytes.
 * @param {FetchOptions} [options] How a URL is fetched.
 * @returns {Promise<Bundle>}
 */
export async function open(from, options = {}) {
  const source = await sourceOf(from, options);
  try {
    const bundle = new Bundle(source, await Index.open(source));
    return bundle.listed ? bundle.readAll() : bundle;
  } catch (error) {
    source.close?.();
    throw error;
  }
}

/** The modules of one file, as a tree. */
export class Bundle {
  #source;
  #index;
  /** The modules that were made, by number. @type {Map<number, Module>} */
  #made = new Map();
  /** @type {readonly Module[] | null} */
  #modules = null;

  /**
   * @param {Source} source
   * @param {Index} index
   */
  constructor(source, index) {
    this.#source = source;
    this.#index = index;
    /** The name of the file in messages. */
    this.place = source.place;
  }

  /** Whether the whole index was read, as that of a small file is. Otherwise `readAll` reads it. */
  get listed() {
    return this.#index.entries !== null;
  }

  /** Read the index of a large file. Then all modules are listed. @returns {Promise<Bundle>} */
  async readAll() {
    const entries = await this.#index.readAll();
    this.#modules ??= this.#make(new Map([...entries.entries()].filter(([, { kind }]) => kind)));
    return this;
  }

  /** Every module, in the order of the file. @returns {readonly Module[]} */
  get modules() {
    if (!this.#modules) {
      throw new ArgumentError(
        `${this.place} has many modules, which are not read until they are needed. To list them: await bundle.readAll()`,
        { kind: "bundle" },
      );
    }
    return this.#modules;
  }

  /** The roots of the tree. Several roots are alternatives. @returns {readonly Module[]} */
  get roots() {
    const { modules } = this;
    return this.#index.roots.map((number) => /** @type {Module} */ (modules[number]));
  }

  /**
   * Return the modules of some records, each with its imports. A module is made once.
   * @param {Map<number, Entry>} entries
   */
  #make(entries) {
    const made = [...entries].map(([number, entry]) => {
      const module = this.#made.get(number) ?? new Module(this.#source, number, entry, this.#index);
      this.#made.set(number, module);
      return module;
    });
    for (const module of made) {
      const { imports } = /** @type {Entry} */ (entries.get(module.number));
      module.imports = Object.freeze(
        imports.map((child) => /** @type {Module} */ (this.#made.get(child))),
      );
    }
    return made;
  }

  /** The size of the file in bytes; -1 if the server does not report it. */
  get size() {
    return this.#source.size;
  }

  /** The modules whose kernels a browser can run, in the order in which functions are looked up. */
  get webgpuModules() {
    return this.#ordered.filter((module) => module.kind === "webgpu");
  }

  /** The modules in the order in which functions are looked up. */
  get #ordered() {
    const { modules } = this;
    return [...new Set([...this.#index.candidates, ...modules.keys()])].map(
      (number) => /** @type {Module} */ (modules[number]),
    );
  }

  /**
   * Return the first module with a kernel for webgpu, or a program of such kernels, of that name.
   * @param {string} name
   * @returns {Module}
   */
  find(name) {
    if (typeof name !== "string")
      throw new ArgumentError(
        `expected the name of a function as a string, got ${describeValue(name)}`,
      );
    const details = { kind: "webgpu", function: name };
    const candidates = this.#ordered.filter((module) => module.runs);
    const has = (/** @type {Module} */ module) => module.functionNames.includes(name);
    const found = candidates.find(has);
    if (found) return found;
    const newer = this.#ordered.find((module) => has(module) && RUNNABLE.includes(module.kind));
    newer?.checkFeatures();
    if (!candidates.length) {
      const present = this.modules
        .filter((module) => module.offset !== null)
        .map((module) => module.description);
      throw new NoModuleError(
        `${this.place} has no webgpu module, so none of its functions can run in a browser. It has: ${listTexts(present, "; ", "; and ") || "no module at all"}. ` +
          "Compile its sources for webgpu too (devmod compile … -t webgpu), and save both in one file with devmod.bundle",
        details,
      );
    }
    const others = this.modules
      .filter((module) => module.functionNames.includes(name))
      .map((module) => module.description);
    const elsewhere = others.length
      ? `. It exists for ${listTexts(others, "; ", "; and ")}, which browsers cannot run`
      : "";
    const there = listNames(new Set(candidates.flatMap((module) => module.functionNames)));
    throw new FunctionNotFoundError(
      `${this.place} has no webgpu function ${quoteName(name)}; there is: ${there}${elsewhere}`,
      details,
    );
  }

  /**
   * Return a function of the first module that has it and that the device can run, compiled for the device: a kernel or a program.
   * @template {Record<string, Value> | ProgramFunction} [T=Record<string, Value>] The names of a kernel's arguments, with their types; or `ProgramFunction`.
   * @param {string} name
   * @param {FunctionOptions} [options]
   * @returns {Promise<FunctionOf<NoInfer<T>>>}
   */
  async getFunction(name, options = {}) {
    const candidates = await this.#candidates(name);
    const first = /** @type {Module} */ (candidates[0]);
    if (first.kind === "program")
      return /** @type {FunctionOf<T>} */ (await makeProgram(name, candidates, options.device));
    if (candidates.length === 1)
      return /** @type {FunctionOf<T>} */ (await first.getFunction(name, options));
    const description = `the webgpu function ${repr(name)}`;
    const device = await chosenDevice(options.device, description);
    const make = async (/** @type {Module} */ module) => {
      const unmet = unmetNeeds((await module.functions()).get(name)?.interface ?? null, device);
      if (unmet) throw new DeviceNotFoundError(unmet);
      return /** @type {FunctionOf<T>} */ (await module.getFunction(name, options));
    };
    return firstThatRuns(candidates, make, (errors) => {
      const reasons = errors.map(({ message }, at) => `${candidates[at]?.description}: ${message}`);
      return new DeviceNotFoundError(
        `${description} cannot run on this device: ${listTexts(reasons, "; ", "; and ")}`,
        { function: name },
      );
    });
  }

  /**
   * Return the modules of one kind that have a function. Of a large file, the pages of the function are read.
   * @param {string} name
   */
  async #candidates(name) {
    let found = [];
    if (!this.listed && typeof name === "string") {
      for (const number of await this.#index.find(name)) {
        const kind = this.#index.foundKind(number);
        if (kind !== null && !RUNNABLE.includes(kind)) continue;
        this.#make(await this.#index.below(number));
        found.push(/** @type {Module} */ (this.#made.get(number)));
      }
    }
    if (!found.some((module) => module.runs)) {
      (await this.readAll()).find(name); // FunctionNotFoundError
      found = this.#ordered.filter(({ functionNames }) => functionNames.includes(name));
    }
    const first = /** @type {Module} */ (found.find((module) => module.runs));
    return found.filter(({ runs, kind }) => runs && kind === first.kind);
  }

  /** Close the connection to a server without range requests. */
  close() {
    this.#source.close?.();
  }
}

/** One module of a tree. Nodes of kind "bundle" and "_lib" contain other modules and have no bytes. */
export class Module {
  #source;
  #entry;
  #index;
  /** What was read: its bytes without repeats, their contents, and its sources. @type {Map<string, Promise<any>>} */
  #kept = new Map();
  /** The texts of its shaders. @type {Map<Uint8Array, string>} */
  #texts = new Map();
  /** The compiled shaders, by device and text. @type {WeakMap<GPUDevice, Map<string, Promise<GPUShaderModule>>>} */
  #compiled = new WeakMap();

  /**
   * @param {Source} source
   * @param {number} number
   * @param {Entry} entry
   * @param {Index} index
   */
  constructor(source, number, entry, index) {
    this.#source = source;
    this.#index = index;
    this.#entry = entry;
    /** Its index in the file's list of modules. */
    this.number = number;
    /** "webgpu", "cuda", "bundle", … */
    this.kind = entry.kind;
    /** The format of its payload in the index; "" for none. */
    this.format = entry.format;
    /** The architecture of its payload. */
    this.variant = entry.variant;
    /** Its origin; null if the file has none. @type {Origin | null} */
    this.origin = entry.origin;
    /** The names of its functions. @type {readonly string[]} */
    this.functionNames = Object.freeze([...entry.functions]);
    /** The offset of its bytes in the file; null for a node without bytes. */
    this.offset = entry.offset;
    const parts = index.partSize(entry.parts);
    /** The number of its bytes, with those of large constants if the whole index was read. */
    this.size = (entry.unpacked ?? entry.size) + repeatedSize(entry.repeats) + parts;
    /** The number of its bytes in the file, which may be compressed, have equal shaders once, and lack large constants. */
    this.storedSize = entry.size;
    /** What a reader must know to use its bytes. A module with some cannot be used here. @type {readonly string[]} */
    this.features = Object.freeze([...entry.features]);
    /** Whether its bytes in the file are compressed. They then cannot be read here. */
    this.compressed = entry.unpacked !== null;
    /** The imported modules. @type {readonly Module[]} */
    this.imports = [];
  }

  /** Whether a browser can run its functions: kernels for webgpu, or programs that import such kernels. @returns {boolean} */
  get runs() {
    const has = (/** @type {Module} */ { kind, imports }) =>
      kind === "webgpu" || (kind === "bundle" && imports.some(has));
    if (this.features.length) return false;
    return this.kind === "webgpu" || (this.kind === "program" && this.imports.some(has));
  }

  /** The module in a message. */
  get description() {
    const format = this.format ? ` ${this.format}` : "";
    return `${this.kind}${format}${this.variant ? ` for ${this.variant}` : ""} (${listNames(this.functionNames)})`;
  }

  /**
   * Return its bytes. The first call reads them and checks their digest.
   * @returns {Promise<Uint8Array>}
   */
  async bytes() {
    const { repeats, parts } = this.#entry;
    const data = await this.#storedBytes();
    if (parts.length) {
      const { constants } = /** @type {Contents} */ (await this.contents());
      /** @type {Uint8Array[]} */
      const found = [];
      for (const constant of constants.values())
        if (constant.part >= 0) found[constant.part] = await this.#part(constant);
      return joinParts(data, constants.values(), found);
    }
    return repeats.length ? expand(data, repeats) : data;
  }

  /**
   * Return a constant of a const_loader; null if it has none of that name. A large one is read alone.
   * Each call returns the same object, by which a device knows what it has uploaded.
   * @param {string} name
   * @returns {Promise<Constant | null>}
   */
  async constant(name) {
    const found = (await this.contents())?.constants.get(name);
    if (!found) return null;
    return kept(this.#kept, `constant ${name}`, async () => {
      const { type, shape, data } = found;
      return { type, shape, data: data ?? (await this.#part(found)) };
    });
  }

  /**
   * Return the elements of a constant that is a part.
   * @param {StoredConstant} constant
   */
  async #part(constant) {
    const number = /** @type {number} */ (this.#entry.parts[constant.part]);
    const entry = await this.#index.entry(number, "part");
    const subject = "a constant of the const_loader module";
    if (entry.features.length) throw this.#newer(subject, "needs", entry.features);
    const problem = sizeProblem(entry.unpacked ?? entry.size, constant);
    if (problem) {
      const { constants } = /** @type {Contents} */ (await this.contents());
      const [name] = [...constants].find(([, each]) => each === constant) ?? [""];
      throw new FormatError(
        `the bytes of the const_loader module: constant ${quoteName(name)}: a part of ${problem}`,
        { kind: this.kind },
      );
    }
    return kept(this.#kept, `part ${number}`, () => this.#read(entry, subject, DAMAGED));
  }

  /** Throw a FormatError if only a newer devmod-webgpu can use its bytes. */
  checkFeatures() {
    if (this.features.length) throw this.#newer(this.#subject, "needs", this.features);
  }

  /** The module with its functions, for messages. */
  get #subject() {
    const names = this.functionNames.length ? ` with ${listNames(this.functionNames)}` : "";
    return `the ${this.kind} module${names}`;
  }

  /**
   * @param {string} subject
   * @param {string} verb
   * @param {readonly string[]} features
   */
  #newer(subject, verb, features) {
    return new FormatError(
      `${this.#source.place}: ${subject} ${verb} ${listNames(features)}, which a newer devmod-webgpu reads`,
      { kind: this.kind },
    );
  }

  /** @returns {Promise<Uint8Array>} */
  #storedBytes() {
    if (this.offset === null)
      throw new FormatError(`a node of kind '${this.kind}' has no bytes of its own`, {
        kind: this.kind,
      });
    this.checkFeatures();
    return kept(this.#kept, "bytes", () => this.#read(this.#entry, this.#subject, DAMAGED));
  }

  /**
   * Return the bytes of a record, after a check of their digest.
   * @param {Entry} entry
   * @param {string} subject
   * @param {string} damage What is wrong with other bytes.
   */
  async #read({ offset, size, digest, unpacked }, subject, damage) {
    const { place } = this.#source;
    const fail = (/** @type {string} */ text) =>
      new FormatError(`${place}${text}`, { kind: this.kind });
    if (unpacked !== null) {
      throw fail(
        `: ${subject} ${damage.split(" ", 1)} compressed with zstd, which browsers cannot decompress. Write the file without compression: ` +
          "devmod bundle kernels.devmod -o plain.devmod --compress none. HTTP compresses it on the way, if the page opens the whole " +
          "response: await open(await (await fetch(url)).blob())",
      );
    }
    const data = await this.#index.read(
      /** @type {number} */ (offset),
      size,
      `${subject} takes`,
      this.kind,
    );
    if (!sameItems(await sha256(data), digest)) throw fail(`: ${subject} ${damage}`);
    return data;
  }

  /**
   * Return the sources that the file has beside its bytes, by format; an empty map if there are none.
   * @returns {Promise<Map<string, string | Uint8Array>>}
   */
  sources() {
    return kept(this.#kept, "sources", () => this.#readSources());
  }

  async #readSources() {
    if (this.#entry.sources === null) return new Map();
    const blob = await this.#index.entry(this.#entry.sources, "sources");
    const subject = `the sources of the ${this.kind} module`;
    if (blob.features.length) throw this.#newer(subject, "need", blob.features);
    const data = await this.#read(
      blob,
      subject,
      "are damaged: their SHA-256 is not the one in the index. Get the file again",
    );
    return readSources(data, `${this.#source.place}: ${subject}`, this.kind);
  }

  /**
   * Return the contents of its bytes: functions with signatures, and the payload. Return null for unknown kinds and for nodes.
   * @returns {Promise<Contents | null>}
   */
  async contents() {
    return this.offset === null ? null : kept(this.#kept, "contents", () => this.#decode());
  }

  async #decode() {
    const { repeats, parts } = this.#entry;
    const result = decode(this.kind, await this.#storedBytes(), repeats, parts.length);
    if (!result) return null;
    const names = [...result.functions.keys()];
    if (!sameItems(names, this.functionNames))
      throw this.#differs(`functions ${listNames(this.functionNames)}`, listNames(names));
    const isTvms = this.kind === "vulkan" && result.format === "vulkan"; // TVM's name of spv
    const format = isTvms ? "spv" : result.format;
    if (format !== this.format)
      throw this.#differs(`format ${quoteName(this.format)}`, quoteName(format));
    return result;
  }

  /**
   * @param {string} said What the index gives the module.
   * @param {string} found
   */
  #differs(said, found) {
    return new FormatError(
      `${this.#source.place}: the index gives the ${this.kind} module the ${said}, and its bytes have ${found}`,
      { kind: this.kind },
    );
  }

  /** Return its functions by name; none if its bytes cannot be used here. @returns {Promise<Map<string, FunctionInfo>>} */
  async functions() {
    if (this.features.length) return new Map();
    return (await this.contents())?.functions ?? new Map();
  }

  /**
   * Return its text in a format; for "" its source, or else its payload. Return "" if there is no such text.
   * @param {string} [format]
   */
  async inspectSource(format = "") {
    const sources = await this.sources();
    for (const key of format ? [format] : (SOURCES.get(this.kind) ?? [])) {
      const text = sources.get(key);
      if (typeof text === "string") return text;
    }
    const contents = await this.contents();
    return contents && (!format || format === contents.format)
      ? sourceText(this.kind, contents)
      : "";
  }

  /**
   * Return a function of this module, compiled for a device.
   * @template {Record<string, Value> | ProgramFunction} [T=Record<string, Value>] The names of a kernel's arguments, with their types; or `ProgramFunction`.
   * @param {string} name
   * @param {FunctionOptions} [options]
   * @returns {Promise<FunctionOf<NoInfer<T>>>}
   */
  async getFunction(name, options = {}) {
    if (this.kind === "program")
      return /** @type {FunctionOf<T>} */ (await makeProgram(name, [this], options.device));
    if (this.kind !== "webgpu") {
      throw new NoModuleError(
        `the ${this.kind} module cannot run in a browser: only webgpu modules can`,
        { kind: this.kind, function: name },
      );
    }
    const { functions, shaders } = /** @type {Contents} */ (await this.contents());
    const details = { kind: "webgpu", function: name };
    const info = functions.get(name);
    if (!info)
      throw new FunctionNotFoundError(
        `the webgpu module has no function ${quoteName(name)}; there is: ${listNames(functions.keys())}`,
        details,
      );
    if (info.error) throw info.error;
    const shader = shaders.get(name) ?? shaders.get(info.name);
    if (!shader) {
      throw new FormatError(
        `the webgpu module has no shader for the function ${quoteName(name)}; there is: ${listNames(shaders.keys())}`,
        details,
      );
    }
    let text = this.#texts.get(shader);
    if (text === undefined) this.#texts.set(shader, (text = textOf(shader, name)));
    return /** @type {FunctionOf<T>} */ (
      await KernelFunction.make(name, info, text, this.#compiled, options.device)
    );
  }
}

/**
 * @param {Uint8Array} shader
 * @param {string} name
 */
function textOf(shader, name) {
  const refuse = (/** @type {string} */ reason) =>
    new FormatError(
      `the shader of the webgpu function ${repr(name)} is not UTF-8 text: ${reason}`,
      { kind: "webgpu", function: name },
    );
  return restated(
    () => new TextDecoder("utf-8", { fatal: true }).decode(shader),
    TypeError,
    refuse,
  );
}
