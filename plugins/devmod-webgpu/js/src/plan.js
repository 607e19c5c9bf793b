// What a function takes, and where each argument lies: from its interface, or by TVM's rules where it has none (docs/kernels.md).

import { parseDtype } from "./dtypes.js";
import { FormatError, LaunchError, repr } from "./errors.js";
import { packerOf } from "./scalars.js";

/** @import { Packer } from "./scalars.js" */
/** @import { FunctionInfo } from "./wire.js" */

/** What WebGPU has at most: no device offers more bind groups or bindings, whatever a file says. */
const MAX_GROUP = 31;
const MAX_BINDING = 65535;
const MAX_BLOCK = 65536;
const DIMENSIONS = ["blockIdx", "threadIdx"];

/** A place in a bind group. @typedef {{ group: number, binding: number }} Spot */

/**
 * One argument. A buffer and a uniform struct have a spot of their own; a scalar lies in a block.
 * @typedef {object} Argument
 * @property {number} number
 * @property {string} name
 * @property {"buffer" | "scalar" | "uniform" | "image" | "sampler"} kind
 * @property {string} type
 * @property {boolean} struct Whether a buffer's elements are structs.
 * @property {number} unit The bytes of a buffer's element; 1 where that is not known.
 * @property {number} least The bytes that a buffer must have at least; 4 is WebGPU's own.
 * @property {boolean} written
 * @property {Spot | null} spot
 * @property {number} block
 * @property {number} offset
 * @property {Packer | null} pack
 */
/**
 * A function's arguments, the blocks that its scalars lie in, and the launch values that may follow the arguments.
 * @typedef {object} Plan
 * @property {string} described The function in a message.
 * @property {Argument[]} args
 * @property {{ spot: Spot, size: number }[]} blocks
 * @property {{ tag: string, which: number, axis: number }[]} launch
 * @property {boolean} folds Whether a large x of the grid is folded into z, as TVM's shaders expect.
 * @property {number} packed Where in the last block TVM's shaders read packGridDimX; -1 for those of others.
 */

/**
 * @param {string} name
 * @param {FunctionInfo} info
 * @param {string} text The shader.
 * @returns {Plan}
 */
export function makePlan(name, info, text) {
  const described = `the webgpu function ${repr(name)}`;
  const plan = info.interface ? byInterface(described, info) : byOrder(described, info, text);
  plan.launch = info.launchParamTags.flatMap((tag) => {
    const [word, axis = ""] = tag.split(".");
    const which = DIMENSIONS.indexOf(word ?? "");
    return which >= 0 && axis.length === 1 && "xyz".includes(axis) ? [{ tag, which, axis: "xyz".indexOf(axis) }] : [];
  });
  return plan;
}

/**
 * @param {string} described
 * @param {FunctionInfo} info
 * @returns {Plan}
 */
function byInterface(described, info) {
  const { params, blocks } = /** @type {NonNullable<FunctionInfo["interface"]>} */ (info.interface);
  const access = writeAccess(info);
  /** @type {Set<string>} */
  const taken = new Set();
  let buffers = 0;
  const places = blocks.map(({ at, size }, number) => {
    const where = `${described}: block ${number} of its interface`;
    if (at === "push") throw new FormatError(`${where} is for push constants, which WebGPU does not have`, { kind: "webgpu" });
    if (size < 1 || size > MAX_BLOCK) throw new FormatError(`${where} takes ${size} bytes; 1 to ${MAX_BLOCK} can be`, { kind: "webgpu" });
    return { spot: spotOf(at, where, taken), size };
  });
  const args = params.map((param, number) => {
    const { name, kind, at, align } = param;
    const where = `${described}: ${label({ number, name })}`;
    const type = param.type || (kind === "scalar" || kind === "uniform" ? (info.argTypes[number] ?? "") : "");
    const made = argument({ number, name, type, written: param.access !== "r" });
    if (kind === "local") throw new FormatError(`${where} is of kind local, which WebGPU does not have`, { kind: "webgpu" });
    made.kind = kind;
    if (kind === "scalar") {
      if (!Array.isArray(at)) throw new FormatError(`${where} has no place in a block`, { kind: "webgpu" });
      made.pack = packer(where, type, align);
      const block = places[at[0]];
      const width = widthOf(type);
      if (!block || at[1] + width > block.size) {
        throw new FormatError(`${where} lies outside its block: ${width} bytes at ${at[1]} of block ${at[0]}`, { kind: "webgpu" });
      }
      [made.block, made.offset] = at;
      return made;
    }
    made.spot = spotOf(at, where, taken);
    if (kind === "uniform") made.pack = packer(where, type, align || 1);
    if (kind !== "buffer") return made;
    made.struct = align > 0;
    made.unit = type ? Math.max(1, widthOf(type, !align)) : 1;
    made.least = Math.ceil(Math.max(4, param.least) / 4) * 4;
    if (!param.access && buffers < access.length) made.written = access[buffers] ?? true;
    buffers += 1;
    return made;
  });
  return { described, args, blocks: places, launch: [], folds: false, packed: -1 };
}

/**
 * TVM's way: the buffers at bindings 0 and up, then one uniform of 4-byte fields, the last of them packGridDimX.
 * @param {string} described
 * @param {FunctionInfo} info
 * @param {string} text
 * @returns {Plan}
 */
function byOrder(described, info, text) {
  const access = writeAccess(info);
  const declared = declaredAccess(text);
  let buffers = 0;
  let scalars = 0;
  const args = info.argTypes.map((type, number) => {
    const made = argument({ number, name: "", type: type === "handle" ? "" : type, written: true });
    if (type === "handle") {
      made.written = declared.get(buffers) ?? access[buffers] ?? true;
      made.spot = { group: 0, binding: buffers };
      buffers += 1;
      return made;
    }
    const where = `${described}: ${label(made)}`;
    made.kind = "scalar";
    made.pack = packer(where, type, 0);
    if (widthOf(type) !== 4) {
      throw new LaunchError(`${where} is of type ${type}; without an interface a scalar has 4 bytes: int32, uint32, float32 or bool`, {
        kind: "webgpu",
      });
    }
    made.offset = 4 * scalars;
    scalars += 1;
    return made;
  });
  const blocks = [{ spot: { group: 0, binding: buffers }, size: 4 * (scalars + 1) }];
  return { described, args, blocks, launch: [], folds: true, packed: 4 * scalars };
}

/**
 * Which bindings of group 0 a shader of TVM's may write to: a pipeline's layout has to say what the shader says.
 * @param {string} text
 */
function declaredAccess(text) {
  /** @type {Map<number, boolean>} */
  const made = new Map();
  const bare = text.replace(/\/\/[^\n]*/g, "");
  for (const [, binding, mode] of bare.matchAll(/@group\(\s*0[iu]?\s*\)\s*@binding\(\s*(\d+)[iu]?\s*\)\s*var<\s*storage\s*(?:,\s*(\w+)\s*)?>/g)) {
    made.set(Number(binding), mode === "read_write" || mode === "write");
  }
  return made;
}

/**
 * @param {Pick<Argument, "number" | "name" | "type" | "written">} given
 * @returns {Argument}
 */
function argument(given) {
  return { ...given, kind: "buffer", struct: false, unit: 1, least: 4, spot: null, block: 0, offset: 0, pack: null };
}

/**
 * The argument in a message: `argument 2 'b'`.
 * @param {Pick<Argument, "number" | "name">} argument
 */
export function label({ number, name }) {
  return `argument ${number + 1}${name ? ` ${repr(name)}` : ""}`;
}

/**
 * @param {unknown} at
 * @param {string} where
 * @param {Set<string>} taken
 * @returns {Spot}
 */
function spotOf(at, where, taken) {
  if (!Array.isArray(at)) throw new FormatError(`${where} has no place (set, binding)`, { kind: "webgpu" });
  const [group, binding] = /** @type {[number, number]} */ (at);
  if (group > MAX_GROUP || binding > MAX_BINDING) {
    throw new FormatError(`${where} has the place (${group}, ${binding}), beyond what any device has`, { kind: "webgpu" });
  }
  const key = `${group},${binding}`;
  if (taken.has(key)) throw new FormatError(`${where} has the place (${group}, ${binding}), where another one lies`, { kind: "webgpu" });
  taken.add(key);
  return { group, binding };
}

/**
 * @param {string} where
 * @param {string} type
 * @param {number} align
 * @returns {Packer}
 */
function packer(where, type, align) {
  const found = packerOf(type, align);
  if (!found) throw new LaunchError(`${where} is of type ${type}, which WebGPU does not have`, { kind: "webgpu" });
  return found;
}

/**
 * The bytes of a type: in a block, where a bool takes 4; or as elements of an array, where three lanes take the room of four.
 * @param {string} type
 * @param {boolean} [element]
 */
function widthOf(type, element = false) {
  const dtype = parseDtype(type);
  if (!dtype) return 0;
  const { code, bits, lanes } = dtype;
  const width = (code === 6 && bits === 8) || (code === 1 && bits === 1) ? 32 : bits;
  return Math.ceil((width * (element && lanes === 3 && !(code === 1 && bits === 8) ? 4 : lanes)) / 8);
}

/**
 * For each buffer in order whether it is written, as TVM's tag `paramWriteAccess:[0,0,1]` says it; [] where nothing does.
 * @param {FunctionInfo} info
 */
function writeAccess(info) {
  const tag = info.launchParamTags.find((each) => each.startsWith("paramWriteAccess:"));
  return tag ? [...tag.slice(17)].filter((digit) => digit === "0" || digit === "1").map((digit) => digit !== "0") : [];
}

/**
 * The arguments in a message: their names, or types where no names are known.
 * @param {Plan} plan
 */
export function signature({ args }) {
  return args.map(({ name, type, kind }) => name || type || kind).join(", ");
}
