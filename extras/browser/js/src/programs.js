// A program: its arrays, scalars and samplers, its steps, and their bytes in a file. The declarations are the interface, the steps the code.

import { sameItems } from "./bytes.js";
import { show } from "./checks.js";
import { parseDtype } from "./dtypes.js";
import { FormatError, listNames, quoteName, repr, restated } from "./errors.js";
import { COMPARISONS, ExpressionError, namesIn, readExpression } from "./expressions.js";
import { IMAGE_FORMATS } from "./formats.js";
import { Reader } from "./msgpack.js";

/** @import { Expression } from "./expressions.js" */
/** @import { ImageFormat } from "./formats.js" */
/** @import { Param } from "./interface.js" */
/** @import { FunctionInfo } from "./wire.js" */

/** The name in the needs of a program with repeats. */
export const REPEAT = "repeat";
/** The most repeats around a step, and the most launches of a call with those of all turns. */
const MAX_NESTED = 8;
export const MAX_LAUNCHES = 2n ** 20n;
/** The most steps, and of these the most repeats, declarations, dimensions of an array, arguments of a step, and temporaries. */
const MAX_STEPS = 65_536,
  MAX_DECLARED = 65_536,
  MAX_RANK = 16,
  MAX_ARGUMENTS = 1024,
  MAX_TEMPORARIES = 4096;
/** The roles of arrays, each with the access of the program. @type {Readonly<Record<string, string>>} */
const ROLES = {
  input: "r",
  output: "w",
  update: "rw",
  temporary: "rw",
  constant: "r",
  state: "rw",
};
/** The roles whose shapes bind names. */
export const BINDING = ["input", "update", "constant", "state"];

/**
 * An array, or an image of two dimensions. An image has a `format`, the `texel` of it, and the type of its typed array.
 * @typedef {object} Declared
 * @property {string} name
 * @property {string} role "input", "output", "update", "temporary", "constant" or "state".
 * @property {string} type
 * @property {Expression[]} shape
 * @property {string} format
 * @property {ImageFormat | null} texel
 * @property {boolean} cleared Whether it is zero at the start of each call.
 * @property {string} initial The constant with the first values of a state.
 */
/** A number of the call. @typedef {{ name: string, role: "scalar", type: string, value: bigint | number | boolean | null }} Scalar */
/** @typedef {{ name: string, role: "sampler", filter: string, address: string }} Sampler */
/** What a step gives: a name of the program, a view, an expression, or a literal float or bool. @typedef {Expression | View | number | boolean} Given */
/** A launch. @typedef {{ kernel: string, args: Map<string, Given>, grid: Expression[], threads: Expression[], block: Expression[] }} Step */

/** Steps that run several times: the number of the first one, that of the one behind them, and the name of the number of the turn. @typedef {{ first: number, end: number, count: Expression, name: string }} Repeat */

/** The array whose bytes a step gives as one dimension of elements of another type. */
export class View {
  /**
   * @param {string} name
   * @param {string} type
   */
  constructor(name, type) {
    this.name = name;
    this.type = type;
  }

  toString() {
    return `${this.name}.view(${this.type})`;
  }
}

/**
 * Return the name that a step gives; "" for a value that is no name.
 * @param {unknown} given
 */
export function nameOf(given) {
  return typeof given === "string" ? given : given instanceof View ? given.name : "";
}

/**
 * @param {Declared | Scalar | Sampler | undefined} each
 * @returns {each is Declared}
 */
export function isArray(each) {
  return each !== undefined && Object.hasOwn(ROLES, each.role);
}

/**
 * @param {Declared | Scalar | Sampler} each
 * @returns {each is Scalar}
 */
function isScalar(each) {
  return each.role === "scalar";
}

/**
 * Whether a type is one of integers, which may stand in expressions.
 * @param {string} type
 */
export function isInteger(type) {
  return (parseDtype(type)?.code ?? 2) < 2;
}

/**
 * Return the bytes of an element of an array or of a texel of an image.
 * @param {Pick<Declared, "type" | "texel">} array
 */
export function unitOf({ type, texel }) {
  return texel?.texelBytes ?? Math.max(1, (parseDtype(type)?.bits ?? 0) / 8);
}

/** A program. */
export class Program {
  /**
   * @param {string} name
   * @param {Map<string, Declared | Scalar | Sampler>} declared
   * @param {[string, Expression, Expression][]} requires
   * @param {Step[]} steps
   * @param {Repeat[]} repeats By their first step; one within another one is behind it.
   */
  constructor(name, declared, requires, steps, repeats) {
    this.name = name;
    this.declared = declared;
    this.requires = requires;
    this.steps = steps;
    this.repeats = repeats;
  }

  /**
   * Return the arrays of some roles, or all.
   * @param {string[]} roles
   */
  arrays(...roles) {
    return [...this.declared.values()]
      .filter(isArray)
      .filter(({ role }) => !roles.length || roles.includes(role));
  }

  /** The scalars in their order. */
  get scalars() {
    return [...this.declared.values()].filter(isScalar);
  }

  /** What a call takes, in order: inputs without a default, updates, and scalars with a default. */
  get parameters() {
    const hasDefault = (/** @type {Declared | Scalar | Sampler} */ each) =>
      isScalar(each) && each.value !== null;
    const given = [...this.declared.values()].filter(
      (each) => isScalar(each) || each.role === "input",
    );
    return [
      ...given.filter((each) => !hasDefault(each)),
      ...this.arrays("update"),
      ...given.filter(hasDefault),
    ];
  }

  /** The names in the shapes of its arrays, without integer scalars. */
  get lengthNames() {
    return [...new Set(this.arrays().flatMap(({ shape }) => shape.flatMap(namesIn)))].filter(
      (name) => !this.declared.has(name),
    );
  }

  /** The names of its kernels, sorted. */
  get kernels() {
    return [...new Set(this.steps.map(({ kernel }) => kernel))].sort();
  }

  /** Return for each step the repeats around it, the outermost first. */
  repeatsOfSteps() {
    /** @type {Repeat[]} */
    let around = [];
    let next = 0;
    return this.steps.map((_, number) => {
      around = around.filter(({ end }) => end > number);
      for (let each = this.repeats[next]; each?.first === number; each = this.repeats[next]) {
        around.push(each);
        next++;
      }
      return [...around];
    });
  }

  /** Return the first and the last step of each array that steps use, from 0. What a repeat uses lives in all of its turns. */
  lifetimes() {
    const around = this.repeatsOfSteps();
    /** @type {Map<string, [number, number]>} */
    const result = new Map();
    this.steps.forEach(({ args }, number) => {
      const { first, end } = around[number]?.[0] ?? { first: number, end: number + 1 };
      for (const name of [...args.values()].map(nameOf)) {
        if (isArray(this.declared.get(name)))
          result.set(name, [result.get(name)?.[0] ?? first, end - 1]);
      }
    });
    return result;
  }
}

/**
 * Return the error for a program that is invalid.
 * @param {string} name
 * @param {string} text What follows the program.
 * @param {string} [argument]
 */
export function programError(name, text, argument = "") {
  const details = { kind: "program", function: name, argument };
  return new FormatError(`the program ${quoteName(name)}${text}`, details);
}

/**
 * Return the program of a function and its code. Its names and its kernels are not checked.
 * @param {string} name
 * @param {FunctionInfo} info
 * @param {Uint8Array | undefined} code
 */
export function readProgram(name, info, code) {
  const fail = (/** @type {string} */ text) => programError(name, text);
  if (!code) throw fail(" has no steps");
  const others = info.interface?.needs.filter((each) => each !== REPEAT) ?? [];
  if (others.length) {
    const allowed = `a program here has no other need than ${repr(REPEAT)}`;
    throw fail(` needs ${listNames(others)}, and ${allowed}`);
  }
  const declared = restated(
    () => readDeclarations(info.interface?.params),
    ExpressionError,
    (reason) => fail(`: ${reason}`),
  );
  // The shortest operator with its operands takes five bytes, and each is one array.
  const reader = new Reader(
    code,
    `the code of the program ${quoteName(name)}`,
    "program",
    Math.floor((code.length * 8) / 5),
  );
  reader.wholes = true;
  const program = new Program(name, declared, ...readCode(reader));
  if (program.repeats.length && !info.interface?.needs.includes(REPEAT))
    throw fail(` has repeats and does not need ${repr(REPEAT)}`);
  const listed = info.interface?.extra.kernels;
  if (!Array.isArray(listed) || !sameItems(program.kernels, listed))
    throw fail(" lists other kernels than its steps launch");
  return program;
}

/** @param {Param[] | undefined} params */
function readDeclarations(params) {
  if (!params || params.length > MAX_DECLARED)
    throw new ExpressionError(`it has no declarations, or more than ${MAX_DECLARED}`);
  /** @type {Map<string, Declared | Scalar | Sampler>} */
  const declared = new Map();
  for (const param of params) {
    if (declared.has(param.name))
      throw new ExpressionError(`it declares ${quoteName(param.name)} twice`);
    const each = declaration(param);
    if (!each) throw new ExpressionError(`the declaration of ${quoteName(param.name)} is invalid`);
    declared.set(param.name, each);
  }
  const count = [...declared.values()].filter(({ role }) => role === "temporary").length;
  if (count > MAX_TEMPORARIES)
    throw new ExpressionError(`it has ${count} temporaries, and the maximum is ${MAX_TEMPORARIES}`);
  return declared;
}

/** Return a string as it is, and another value as messages show it. @param {unknown} value */
function textOf(value) {
  return typeof value === "string" ? value : show(value);
}

/**
 * @param {Param} param
 * @returns {Declared | Scalar | Sampler | null}
 */
function declaration({ name, kind, type, access, format, sample, extra }) {
  const { role, shape, cleared = false, initial = "", value = null } = extra;
  if (kind === "scalar") {
    const known = value === null || ["bigint", "number", "boolean"].includes(typeof value);
    return role === "input" && known && !access
      ? { name, role: "scalar", type, value: /** @type {Scalar["value"]} */ (value) }
      : null;
  }
  if (kind === "sampler") {
    const { filter = null, address = null } = extra;
    return role === "sampler" && !type && !access
      ? { name, role, filter: textOf(filter), address: textOf(address) }
      : null;
  }
  const texel = IMAGE_FORMATS.get(format) ?? null;
  if (
    typeof role !== "string" ||
    !Object.hasOwn(ROLES, role) ||
    (texel === null) === (kind === "image")
  )
    return null;
  if (
    !Array.isArray(shape) ||
    shape.length > MAX_RANK ||
    typeof cleared !== "boolean" ||
    typeof initial !== "string"
  )
    return null;
  const refuse = (/** @type {string} */ reason) =>
    new ExpressionError(`the shape of ${quoteName(name)} ${reason}`);
  const lengths = restated(
    () => shape.map((each) => readExpression(each)),
    ExpressionError,
    refuse,
  );
  const same = texel ? type === "2d" && sample === texel.sample : kind === "buffer";
  return same && access === ROLES[role]
    ? { name, role, type: texel?.dtype ?? type, shape: lengths, format, texel, cleared, initial }
    : null;
}

/**
 * @param {Reader} reader
 * @returns {[[string, Expression, Expression][], Step[], Repeat[]]}
 */
function readCode(reader) {
  /** @type {[string, Expression, Expression][]} */
  let requires = [];
  /** @type {Step[]} */
  let steps = [];
  /** @type {Repeat[]} */
  let repeats = [];
  /** @type {Set<string>} */
  const keys = new Set();
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    const key = (reader.field = reader.readKey(keys));
    keys.add(key);
    if (key === "requires")
      requires = reader.readList(() => readComparison(reader), MAX_STEPS, "comparisons");
    else if (key === "steps") steps = readNumbered(reader, "step", readStep);
    else if (key === "repeats") repeats = readNumbered(reader, "repeat", readRepeat);
    else reader.readValue();
  }
  reader.finish();
  checkRepeats(reader, repeats, steps.length);
  return [requires, steps, repeats];
}

/**
 * Read a list whose items have their number in messages.
 * @template T
 * @param {Reader} reader
 * @param {string} noun
 * @param {(reader: Reader) => T} read
 */
function readNumbered(reader, noun, read) {
  const readItem = (/** @type {number} */ number) => {
    reader.field = `${noun} ${number + 1}`;
    return read(reader);
  };
  return reader.readList(readItem, MAX_STEPS, `${noun}s`);
}

/**
 * @param {Reader} reader
 * @returns {Repeat}
 */
function readRepeat(reader) {
  const start = reader.at;
  const refused = () => reader.error("expected two steps, a count and a name", start);
  if (reader.readArray() !== 4) throw refused();
  const [first, end] = [reader.readValue(), reader.readValue()];
  if (typeof first !== "bigint" || typeof end !== "bigint") throw refused();
  const count = readInteger(reader);
  return { first: Number(first), end: Number(end), count, name: reader.readStr() };
}

/**
 * Throw the reader's error unless each repeat has steps and is behind, or within, the one before.
 * @param {Reader} reader
 * @param {Repeat[]} repeats
 * @param {number} count
 */
function checkRepeats(reader, repeats, count) {
  /** The ends of the repeats around. */
  let around = [count];
  let least = 0;
  repeats.forEach(({ first, end }, number) => {
    reader.field = `repeat ${number + 1}`;
    around = [count, ...around.slice(1).filter((each) => each > first)];
    if (first < least || first >= end || end > /** @type {number} */ (around.at(-1)))
      throw reader.error("it has no steps of the program, or some of another repeat");
    if (around.length > MAX_NESTED) throw reader.error(`it is nested more than ${MAX_NESTED} deep`);
    around.push(end);
    least = first;
  });
}

/**
 * @param {Reader} reader
 * @returns {[string, Expression, Expression]}
 */
function readComparison(reader) {
  const start = reader.at;
  const name = reader.readArray() === 3 ? reader.readStr() : "";
  if (!Object.hasOwn(COMPARISONS, name)) throw reader.error("expected a comparison", start);
  return [name, readInteger(reader), readInteger(reader)];
}

/**
 * @param {Reader} reader
 * @returns {Step}
 */
function readStep(reader) {
  const start = reader.at;
  if (reader.readArray() !== 3)
    throw reader.error("expected a kernel, its arguments and its launch", start);
  const kernel = reader.readStr();
  const args = reader.readPairs(() => readGiven(reader, true));
  if (args.size > MAX_ARGUMENTS)
    throw reader.error(`${args.size} arguments, and the maximum is ${MAX_ARGUMENTS}`, start);
  /** @type {Pick<Step, "grid" | "threads" | "block">} */
  const launch = { grid: [], threads: [], block: [] };
  reader.readPairs((key) => {
    if (key === "grid" || key === "threads" || key === "block")
      launch[key] = reader.readList(() => readInteger(reader), 3, "dimensions");
    else reader.readValue();
  });
  return { kernel, args, ...launch };
}

/**
 * @param {Reader} reader
 * @returns {Expression}
 */
function readInteger(reader) {
  const start = reader.at;
  const value = readGiven(reader, false);
  if (typeof value === "boolean" || typeof value === "number")
    throw reader.error("expected an integer expression", start);
  return /** @type {Expression} */ (value);
}

/**
 * @param {Reader} reader
 * @param {boolean} views
 * @returns {Given}
 */
function readGiven(reader, views) {
  const start = reader.at;
  const value = reader.readValue();
  if (typeof value === "boolean" || typeof value === "number") return value;
  if (
    views &&
    Array.isArray(value) &&
    value.length === 3 &&
    value[0] === "view" &&
    value.every((each) => typeof each === "string")
  ) {
    return new View(String(value[1]), String(value[2]));
  }
  return restated(
    () => readExpression(value),
    ExpressionError,
    (reason) => reader.error(`it ${reason}`, start),
  );
}
