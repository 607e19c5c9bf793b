// The arguments of a function and their places: from its interface, or by TVM's rules without one (docs/calling.md).

import {
  ArgumentError,
  bytesText,
  FormatError,
  invalidFunction,
  LaunchError,
  quoteName,
  repr,
} from "./errors.js";
import { paramProblem } from "./formats.js";
import { checkMembers, isValue } from "./members.js";
import { recordPacker } from "./records.js";
import { packerOf, widthOf } from "./scalars.js";
import { tagProblem, valueTags, WRITE_ACCESS } from "./tags.js";

/** @import { Param } from "./interface.js" */
/** @import { Member } from "./members.js" */
/** @import { Packer } from "./scalars.js" */
/** @import { FunctionInfo } from "./wire.js" */

/** Upper bounds for the numbers in a file. No device has more bind groups or bindings. */
const MAX_GROUP = 31;
const MAX_BINDING = 65535;
const MAX_BLOCK = 65536;

/** A place in a bind group. @typedef {{ group: number, binding: number }} Spot */

/**
 * One argument. A scalar is in a block; all others have a binding of their own.
 * @typedef {object} Argument
 * @property {number} number
 * @property {string} name
 * @property {"buffer" | "scalar" | "uniform" | "image" | "sampler"} kind
 * @property {string} type
 * @property {boolean} struct Whether a buffer's elements are structs.
 * @property {number} unit The bytes of a buffer's element; 1 if unknown.
 * @property {number} size The bytes that the kernel declares for a buffer; 0 if unknown.
 * @property {number} least The minimum size of the binding in bytes; WebGPU requires at least 4.
 * @property {boolean} written
 * @property {Spot | null} spot
 * @property {number} block
 * @property {number} offset
 * @property {Packer | null} pack
 * @property {readonly string[]} members The names of a struct's members, if the argument is one.
 * @property {Param | null} image The parameter of an image.
 * @property {"kernel" | "program"} taker What takes it, in messages.
 */
/**
 * A block of scalars that a call may give as one record, in place of the arguments. `pack` returns the content of the block.
 * @typedef {{ args: Argument[], pack: Packer }} BlockRecord
 */
/**
 * A function's arguments, its blocks of scalars, and the launch values that may follow the arguments.
 * @typedef {object} Plan
 * @property {string} name
 * @property {string} description The function in a message.
 * @property {Argument[]} args
 * @property {{ spot: Spot, size: number }[]} blocks
 * @property {() => ReadonlyMap<string, BlockRecord>} records By the name in a call. They are found at the first use.
 * @property {{ tag: string, triple: number, axis: number }[]} launch
 * @property {boolean} hasInterface
 * @property {number | null} packed The offset of TVM's packGridDimX in the last block; null for a function with an interface.
 */

/**
 * @param {string} name
 * @param {FunctionInfo} info
 * @param {string} text The shader.
 * @returns {Plan}
 */
export function makePlan(name, info, text) {
  const description = `the webgpu function ${repr(name)}`;
  const problem = tagProblem(info.launchParamTags);
  if (problem)
    throw new FormatError(`${description} cannot be called: ${problem}`, {
      kind: "webgpu",
      function: name,
    });
  const { args, blocks, packed } = info.interface
    ? byInterface(description, info)
    : byOrder(description, info, text);
  /** @type {Map<string, BlockRecord> | undefined} */
  let found;
  const records = () => (found ??= recordsOf(description, info.interface, args));
  return {
    name,
    description,
    args,
    blocks,
    records,
    launch: valueTags(info.launchParamTags),
    hasInterface: Boolean(info.interface),
    packed,
  };
}

/**
 * @param {string} description
 * @param {FunctionInfo} info
 * @returns {Pick<Plan, "args" | "blocks" | "packed">}
 */
function byInterface(description, info) {
  const { params, blocks } = /** @type {NonNullable<FunctionInfo["interface"]>} */ (info.interface);
  const access = writeAccess(info);
  /** @type {Set<string>} */
  const taken = new Set();
  let buffers = 0;
  const places = blocks.map(({ at, size }, number) => {
    const subject = `${description}: block ${number} of its interface`;
    if (at === "push")
      throw invalidFunction(`${subject} is for push constants, which WebGPU does not support`);
    if (size < 1 || size > MAX_BLOCK)
      throw invalidFunction(`${subject} has ${bytesText(size)}, expected 1 to ${MAX_BLOCK}`);
    return { spot: spotOf(at, subject, taken), size };
  });
  const args = params.map((param, number) => {
    const { name, kind, at, align } = param;
    const subject = `${description}: ${label({ number, name })}`;
    const type =
      param.type || (kind === "scalar" || kind === "uniform" ? (info.argTypes[number] ?? "") : "");
    const result = argument({ number, name, type, written: param.access !== "r" });
    if (param.pack.length)
      throw invalidFunction(
        `${subject} is several values of the kernel, which WebGPU does not support`,
      );
    if (kind === "local")
      throw invalidFunction(`${subject} is of kind local, which WebGPU does not support`);
    result.kind = kind;
    if (kind !== "buffer") result.members = param.members.map((member) => member.name);
    if (kind === "scalar") {
      if (!Array.isArray(at)) throw invalidFunction(`${subject} has no place in a block`);
      result.pack = packer(subject, type, align, name, param.members);
      const block = places[at[0]];
      const width = widthOf(type);
      if (!block || at[1] + width > block.size) {
        throw invalidFunction(
          `${subject} is outside its block: ${bytesText(width)} at ${at[1]} of block ${at[0]}`,
        );
      }
      [result.block, result.offset] = at;
      return result;
    }
    result.spot = spotOf(at, subject, taken);
    if (kind === "uniform") result.pack = packer(subject, type, align || 1, name, param.members);
    if (kind === "image") {
      const problem = paramProblem(param);
      if (problem) throw invalidFunction(`${subject} ${problem}`);
      result.image = param;
    }
    if (kind !== "buffer") return result;
    result.struct = align > 0;
    result.unit = type ? Math.max(1, widthOf(type, !align)) : 1;
    result.size = param.size;
    result.least = Math.ceil(Math.max(4, param.least) / 4) * 4;
    if (!param.access && buffers < access.length) result.written = access[buffers] ?? true;
    buffers += 1;
    return result;
  });
  return { args, blocks: places, packed: null };
}

/**
 * Return the records by the name in a call: that of the block, with an underscore behind it if an argument has the name.
 * @param {string} description
 * @param {FunctionInfo["interface"]} known
 * @param {Argument[]} args
 */
function recordsOf(description, known, args) {
  const names = new Set(args.map(({ name }) => name));
  /** @type {Map<string, BlockRecord>} */
  const records = new Map();
  known?.blocks.forEach(({ name, size }, number) => {
    const scalars = args.filter(({ kind, block }) => kind === "scalar" && block === number);
    if (!name || !scalars.length) return;
    let keyword = name;
    while (names.has(keyword) || records.has(keyword)) keyword += "_";
    const members = scalars.map((argument) =>
      memberOf(/** @type {Param} */ (known.params[argument.number]), argument),
    );
    /** @type {Packer | null} */
    let pack = null;
    const make = () => {
      checkMembers(
        members,
        size,
        `the block ${quoteName(name)} of ${description}`,
        invalidFunction,
      );
      return /** @type {Packer} */ (recordPacker(keyword, members, size)); // WGSL supports the types, or there is no plan
    };
    records.set(keyword, { args: scalars, pack: (value) => (pack ??= make())(value) });
  });
  return records;
}

/**
 * Return a scalar of a block as a member of the record. One of unknown members is bytes.
 * @param {Param} param
 * @param {Argument} argument
 * @returns {Member}
 */
function memberOf({ name, align, members }, { type, offset }) {
  const one = { name, type, offset, members: [], size: 0, shape: [], strides: [] };
  const [first] = members;
  if (first && isValue(members)) return { ...first, name, offset };
  if (first) return { ...one, type: "", members, size: widthOf(type) };
  return align ? { ...one, type: "uint8", shape: [widthOf(type)], strides: [1] } : one;
}

/**
 * TVM's rule: the buffers at bindings 0 and up, then one uniform of 4-byte fields, the last of them packGridDimX.
 * @param {string} description
 * @param {FunctionInfo} info
 * @param {string} text
 * @returns {Pick<Plan, "args" | "blocks" | "packed">}
 */
function byOrder(description, info, text) {
  const access = writeAccess(info);
  const declared = declaredAccess(text);
  let buffers = 0;
  let scalars = 0;
  const args = info.argTypes.map((type, number) => {
    const result = argument({
      number,
      name: "",
      type: type === "handle" ? "" : type,
      written: true,
    });
    if (type === "handle") {
      result.written = declared.get(buffers) ?? access[buffers] ?? true;
      result.spot = { group: 0, binding: buffers };
      buffers += 1;
      return result;
    }
    const subject = `${description}: ${label(result)}`;
    result.kind = "scalar";
    result.pack = packer(subject, type, 0, "", []);
    if (widthOf(type) !== 4) {
      throw new LaunchError(
        `${subject} is of type ${type}; without an interface, expected int32, uint32, float32 or bool`,
      );
    }
    result.offset = 4 * scalars;
    scalars += 1;
    return result;
  });
  const blocks = [{ spot: { group: 0, binding: buffers }, size: 4 * (scalars + 1) }];
  return { args, blocks, packed: 4 * scalars };
}

/**
 * Return which bindings of group 0 a TVM shader may write to. The layout of the pipeline must match the shader.
 * @param {string} text
 */
function declaredAccess(text) {
  /** @type {Map<number, boolean>} */
  const result = new Map();
  const bare = text.replace(/\/\/[^\n]*/g, "");
  for (const [, binding, mode] of bare.matchAll(
    /@group\(\s*0[iu]?\s*\)\s*@binding\(\s*(\d+)[iu]?\s*\)\s*var<\s*storage\s*(?:,\s*(\w+)\s*)?>/g,
  )) {
    result.set(Number(binding), mode === "read_write" || mode === "write");
  }
  return result;
}

/**
 * Return the block that a call launches: the workgroup size in the shader if it is written in numbers, or else that of the interface.
 * @param {string} description The function, for messages.
 * @param {string} text
 * @param {string} entry
 * @param {[number, number, number] | null} known The block of the interface.
 * @returns {[number, number, number] | null}
 */
export function launchedBlock(description, text, entry, known) {
  const bare = text.replace(/\/\/[^\n]*|\/\*[\s\S]*?\*\//g, " ");
  const entries = bare.matchAll(
    /@\s*workgroup_size\s*\(([\s\d,iu]*)\)\s*(?:@\s*compute\s*)?fn\s+([\p{L}\p{N}_]+)/gu,
  );
  const [sizes, ...others] = [...entries]
    .filter(([, , name]) => name === entry)
    .map(([, sizes]) => sizes ?? "");
  const numbers = sizes?.match(/\d+/g)?.map(Number);
  if (!numbers || others.length) return known;
  const [x = 1, y = 1, z = 1] = numbers;
  if (known && (x !== known[0] || y !== known[1] || z !== known[2])) {
    throw invalidFunction(
      `the WGSL of ${description} is built for blocks of (${x}, ${y}, ${z}) threads, but the payload's fmap gives (${known.join(", ")})`,
    );
  }
  return [x, y, z];
}

/**
 * @param {Pick<Argument, "number" | "name" | "type" | "written">} given
 * @returns {Argument}
 */
export function argument(given) {
  return {
    ...given,
    kind: "buffer",
    struct: false,
    unit: 1,
    size: 0,
    least: 4,
    spot: null,
    block: 0,
    offset: 0,
    pack: null,
    members: [],
    image: null,
    taker: "kernel",
  };
}

/**
 * Return the name of the argument in messages: `argument 2 'b'`.
 * @param {Pick<Argument, "number" | "name">} argument
 */
export function label({ number, name }) {
  return `argument ${number + 1}${name ? ` ${repr(name)}` : ""}`;
}

/**
 * Return the error for a wrong call.
 * @param {Pick<Plan, "name" | "description">} plan
 * @param {string} text What follows the function; with a colon at its start, it is a sentence of its own.
 * @param {Pick<Argument, "number" | "name"> | string} [argument]
 * @param {typeof ArgumentError} [Type] The class of the error.
 */
export function callError({ name, description }, text, argument = "", Type = ArgumentError) {
  const key =
    typeof argument === "string" ? argument : argument.name || String(argument.number + 1);
  return new Type(`${description}${text.startsWith(":") ? "" : " "}${text}`, {
    function: name,
    argument: key,
  });
}

/**
 * @param {unknown} at
 * @param {string} subject
 * @param {Set<string>} taken
 * @returns {Spot}
 */
function spotOf(at, subject, taken) {
  if (!Array.isArray(at)) throw invalidFunction(`${subject} has no place (set, binding)`);
  const [group, binding] = /** @type {[number, number]} */ (at);
  if (group > MAX_GROUP || binding > MAX_BINDING) {
    throw invalidFunction(
      `${subject} has the place (${group}, ${binding}), expected a group up to ${MAX_GROUP} and a binding up to ${MAX_BINDING}`,
    );
  }
  const key = `${group},${binding}`;
  if (taken.has(key))
    throw invalidFunction(
      `${subject} has the place (${group}, ${binding}), which another argument or block uses`,
    );
  taken.add(key);
  return { group, binding };
}

/**
 * @param {string} subject
 * @param {string} type
 * @param {number} align
 * @param {string} name
 * @param {Member[]} members
 * @returns {Packer}
 */
function packer(subject, type, align, name, members) {
  const found = members.length ? recordPacker(name, members, widthOf(type)) : packerOf(type, align);
  if (!found) throw new LaunchError(`${subject} is of type ${type}, which WGSL does not support`);
  return found;
}

/**
 * Return for each buffer whether it is written, from TVM's tag `paramWriteAccess:[0,0,1]`; [] without the tag.
 * @param {FunctionInfo} info
 */
function writeAccess(info) {
  const tag = info.launchParamTags.find((each) => each.startsWith(WRITE_ACCESS));
  return tag
    ? [...tag.slice(WRITE_ACCESS.length)]
        .filter((digit) => digit === "0" || digit === "1")
        .map((digit) => digit !== "0")
    : [];
}

/**
 * Return the arguments for messages: their names, or their types if they have no names.
 * @param {Plan} plan
 */
export function signature({ args }) {
  return args.map(({ name, type, kind }) => name || type || kind).join(", ");
}
