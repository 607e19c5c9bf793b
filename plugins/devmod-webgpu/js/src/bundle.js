// A `.devmod` file: its tree of modules. Opening one reads the index; a module's bytes are read when they are first asked for.

import { ArgumentError, FormatError, FunctionNotFoundError, NoModuleError, quoted, repr, said, shown } from "./errors.js";
import { KernelFunction } from "./function.js";
import { readHead, sameBytes, sha256 } from "./head.js";
import { told } from "./scalars.js";
import { sourceOf } from "./source.js";
import { decode, sourceText } from "./wire.js";

/** @import { Entry, Origin } from "./head.js" */
/** @import { FetchOptions, Source } from "./source.js" */
/** @import { Contents, FunctionInfo } from "./wire.js" */

/**
 * @typedef {object} FunctionOptions
 * @property {GPUDevice} [device] Where it is to run; by default this package's own device, which is made when first needed.
 */

/**
 * Open a `.devmod` file. Its head alone is read, and checked; of a URL the rest is fetched in parts, when it is needed.
 * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} from A URL, a File or Blob, or the bytes.
 * @param {FetchOptions} [options] How a URL is fetched.
 * @returns {Promise<Bundle>}
 */
export async function open(from, options = {}) {
  const source = await sourceOf(from, options);
  try {
    const { roots, entries } = await readHead(source);
    return new Bundle(source, roots, entries);
  } catch (error) {
    source.close();
    throw error;
  }
}

/** The modules of one file, as a tree. */
export class Bundle {
  #source;

  /**
   * @param {Source} source
   * @param {number[]} roots
   * @param {Entry[]} entries
   */
  constructor(source, roots, entries) {
    this.#source = source;
    /** What the file is called in messages. */
    this.place = source.place;
    /** Every module, in the order of the file. @type {readonly Module[]} */
    this.modules = entries.map((entry, number) => new Module(source, number, entry));
    this.modules.forEach((module, number) => {
      const { imports } = /** @type {Entry} */ (entries[number]);
      module.imports = Object.freeze(imports.map((child) => /** @type {Module} */ (this.modules[child])));
    });
    /** The roots of the tree; several are candidates for one thing. @type {readonly Module[]} */
    this.roots = roots.map((root) => /** @type {Module} */ (this.modules[root]));
  }

  /** The size of the file in bytes; -1 where a server does not tell. */
  get size() {
    return this.#source.size;
  }

  /** The modules that a browser can run, in the order in which they are asked. */
  get webgpuModules() {
    return this.modules.filter((module) => module.kind === "webgpu");
  }

  /**
   * The module whose function of that name runs in a browser.
   * @param {string} name
   * @returns {Module}
   */
  find(name) {
    if (typeof name !== "string") throw new ArgumentError(`a function is asked for by its name, a string, not by ${told(name)}`, { kind: "webgpu" });
    const ours = this.webgpuModules;
    if (!ours.length) {
      const held = this.modules.filter((module) => module.offset !== null).map((module) => module.described);
      throw new NoModuleError(
        `${this.place} has no webgpu module, so nothing of it runs in a browser. It has: ${listed(held)}. ` +
          "Compile its sources for webgpu too (devmod compile … -t webgpu), and save both in one file with devmod.bundle",
        { kind: "webgpu", function: name },
      );
    }
    const found = ours.find((module) => module.functionNames.includes(name));
    if (found) return found;
    const others = this.modules.filter((module) => module.functionNames.includes(name)).map((module) => module.described);
    const elsewhere = others.length ? `. It is there for ${listed(others)}, which no browser runs` : "";
    const there = quoted(new Set(ours.flatMap((module) => module.functionNames)));
    throw new FunctionNotFoundError(`${this.place} has no webgpu function ${shown(name)}; there is: ${there}${elsewhere}`, {
      kind: "webgpu",
      function: name,
    });
  }

  /**
   * A function of the first webgpu module that has it, compiled for a device.
   * @param {string} name
   * @param {FunctionOptions} [options]
   * @returns {Promise<KernelFunction>}
   */
  async getFunction(name, options) {
    return this.find(name).getFunction(name, options);
  }

  /** Let go of the connection that a server without ranges still sends on. */
  close() {
    this.#source.close();
  }
}

/** One module of a tree. Nodes of kind "bundle" and "_lib" hold others and have no bytes. */
export class Module {
  #source;
  #digest;
  /** @type {Promise<Uint8Array> | null} */
  #bytes = null;
  /** @type {Promise<Contents> | null} */
  #contents = null;
  /** The shaders that were compiled, by device and text. @type {WeakMap<GPUDevice, Map<string, Promise<GPUShaderModule>>>} */
  #compiled = new WeakMap();

  /**
   * @param {Source} source
   * @param {number} number
   * @param {Entry} entry
   */
  constructor(source, number, entry) {
    this.#source = source;
    this.#digest = entry.digest;
    /** Its place in the file's list of modules. */
    this.number = number;
    /** "webgpu", "cuda", "bundle", … */
    this.kind = entry.kind;
    /** The format of its payload, as the index has it; "" where it has none. */
    this.format = entry.format;
    /** The architecture that its payload is for. */
    this.variant = entry.variant;
    /** Where it came from; null where the file does not say. @type {Origin | null} */
    this.origin = entry.origin;
    /** The names of its functions. @type {readonly string[]} */
    this.functionNames = Object.freeze([...entry.functions]);
    /** Where its bytes begin in the file; null for a node without bytes. */
    this.offset = entry.offset;
    /** How many bytes it has. */
    this.size = entry.size;
    /** The modules below it. @type {readonly Module[]} */
    this.imports = [];
  }

  /** The module in a message. */
  get described() {
    const format = this.format ? ` ${this.format}` : "";
    return `${this.kind}${format}${this.variant ? ` for ${this.variant}` : ""} (${quoted(this.functionNames)})`;
  }

  /**
   * Its bytes, read when they are first asked for, and checked against their digest.
   * @returns {Promise<Uint8Array>}
   */
  bytes() {
    return (this.#bytes ??= this.#read().catch((error) => {
      this.#bytes = null; // a failure is not kept: the next call tries again
      throw error;
    }));
  }

  async #read() {
    const { offset, size } = this;
    if (offset === null) throw new FormatError(`a node of kind '${this.kind}' has no bytes of its own`, { kind: this.kind });
    const data = await this.#source.read(offset, size);
    const names = this.functionNames.length ? ` with ${quoted(this.functionNames)}` : "";
    const { place } = this.#source;
    if (data.length < size) {
      throw new FormatError(`${place} is cut short: the ${this.kind} module${names} takes ${size} bytes, and ${data.length} are left`, {
        kind: this.kind,
      });
    }
    if (!sameBytes(await sha256(data), this.#digest)) {
      throw new FormatError(
        `${place}: the ${this.kind} module${names} is damaged: its SHA-256 is not the one in the index. ` +
          "Nothing of it was used. Get the file again from where it came",
        { kind: this.kind },
      );
    }
    return data;
  }

  /**
   * What is in its bytes: functions with their signatures, and the payload. Null where the kind is not known here, and for nodes.
   * @returns {Promise<Contents | null>}
   */
  async contents() {
    if (this.offset === null) return null;
    const found = await (this.#contents ??= this.#decode().catch((error) => {
      this.#contents = null;
      throw error;
    }));
    return found;
  }

  async #decode() {
    const made = decode(this.kind, await this.bytes());
    if (made && made.functions) {
      const names = [...made.functions.keys()];
      if (names.length !== this.functionNames.length || names.some((name, at) => name !== this.functionNames[at])) {
        throw new FormatError(
          `${this.#source.place}: the index gives the ${this.kind} module the functions ${quoted(this.functionNames)}, ` +
            `and its bytes have ${quoted(names)}`,
          { kind: this.kind },
        );
      }
    }
    return /** @type {Contents} */ (made);
  }

  /** Its functions by the names that callers use. @returns {Promise<Map<string, FunctionInfo>>} */
  async functions() {
    return (await this.contents())?.functions ?? new Map();
  }

  /** Its payload as text; "" where it is none. */
  async inspectSource() {
    const contents = await this.contents();
    return contents ? sourceText(this.kind, contents) : "";
  }

  /**
   * A function of it, compiled for a device.
   * @param {string} name
   * @param {FunctionOptions} [options]
   * @returns {Promise<KernelFunction>}
   */
  async getFunction(name, options = {}) {
    if (this.kind !== "webgpu") {
      throw new NoModuleError(`the ${this.kind} module cannot run in a browser: only webgpu modules can`, { kind: this.kind, function: name });
    }
    const contents = /** @type {Contents} */ (await this.contents());
    const info = contents.functions.get(name);
    if (!info) {
      throw new FunctionNotFoundError(`the webgpu module has no function ${shown(name)}; there is: ${quoted(contents.functions.keys())}`, {
        kind: "webgpu",
        function: name,
      });
    }
    const shader = contents.shaders.get(name) ?? contents.shaders.get(info.name);
    if (!shader) {
      throw new FormatError(`the webgpu module has no shader for the function ${shown(name)}; there is: ${quoted(contents.shaders.keys())}`, {
        kind: "webgpu",
        function: name,
      });
    }
    return KernelFunction.make(name, info, textOf(shader, name), this.#compiled, options.device);
  }
}

/**
 * @param {Uint8Array} shader
 * @param {string} name
 */
function textOf(shader, name) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(shader);
  } catch (error) {
    throw new FormatError(`the shader of the webgpu function ${repr(name)} is no text: ${said(error)}`, { kind: "webgpu", function: name });
  }
}

/** @param {string[]} parts */
function listed(parts) {
  const most = 12;
  return parts.length > most ? `${parts.slice(0, most).join("; ")}; and ${parts.length - most} more` : parts.join("; ") || "no module at all";
}
