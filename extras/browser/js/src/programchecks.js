// The checks of a stranger's program: its own names, and what it gives to its kernels. The messages are those of devmod in Python.

import { isIdentifier, notType } from "./checks.js";
import { constantsOf } from "./constants.js";
import { parseDtype } from "./dtypes.js";
import { listNames, quoteName, repr, restated } from "./errors.js";
import { expressionText, namesIn } from "./expressions.js";
import { didYouMean } from "./near.js";
import { BINDING, isArray, isInteger, nameOf, programError, View } from "./programs.js";
import { isTooLarge } from "./scalars.js";
import { tuple } from "./texels.js";

/** @import { Expression } from "./expressions.js" */
/** @import { Interface, Param } from "./interface.js" */
/** @import { Member } from "./members.js" */
/** @import { Declared, Given, Program, Repeat, Sampler, Scalar, Step } from "./programs.js" */

/** The names that expressions have already, and those of a call. */
const RESERVED = ["min", "max", "ceildiv", "stream", "workspace", "constants", "device", "devices"];
const KEYWORDS = (
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
  "nonlocal not or pass raise return try while with yield"
).split(" ");
const FILTERS = ["nearest", "linear"],
  ADDRESSES = ["clamp", "repeat", "mirror", "border"];
/** The types of scalars. */
const SCALARS = /^(u?int(8|16|32|64)|float(16|32|64)|bfloat16|bool)$/;
/** @type {Readonly<Record<string, string>>} */
const NOUNS = {
  buffer: "an array",
  scalar: "a number",
  uniform: "a number",
  image: "an image",
  sampler: "a sampler",
  local: "local memory",
};
const BOOL = 6;
/** The types of literals that are no integers. @type {Readonly<Record<string, string>>} */
const LITERALS = { boolean: "bool", number: "float64" };

/** What is wrong at a place of a program: the argument of the step, and a clause. */
class Problem extends Error {
  /**
   * @param {string} text
   * @param {string} [argument]
   */
  constructor(text, argument = "") {
    super(text);
    this.argument = argument;
  }
}

/**
 * Run a check. Throw its problem with the program, and the step if there is a number.
 * @param {Program} program
 * @param {(at: (number: number) => void) => void} check Calls `at` with the number of each step.
 */
function guarded(program, check) {
  let number = -1;
  restated(
    () => check((now) => (number = now)),
    Problem,
    (reason, { argument }) => {
      const step = program.steps[number];
      const given = step?.args.has(argument) ? `, argument ${quoteName(argument)}` : "";
      const place = step ? `, step ${number + 1} (${quoteName(step.kernel)})${given}` : "";
      return programError(program.name, `${place}: ${reason}`, argument);
    },
  );
}

// -- the program alone

/**
 * Check the names and the shapes of a program.
 * @param {Program} program
 */
export function checkNames(program) {
  guarded(program, (at) => {
    const names = checkDeclarations(program);
    for (const [comparison, left, right] of program.requires) {
      checkBound(
        program,
        names,
        [left, right],
        `requires: '${expressionText(left)} ${comparison} ${expressionText(right)}': `,
      );
    }
    const around = program.repeatsOfSteps();
    program.steps.forEach((step, number) => {
      at(number);
      const repeats = around[number] ?? [];
      for (const repeat of repeats)
        if (repeat.first === number) checkRepeat(program, names, repeat, repeats);
      const turns = repeats.map(({ name }) => name);
      for (const [name, value] of step.args) {
        if (value instanceof View) checkView(program, value, name);
        else if (!program.declared.has(nameOf(value)))
          checkBound(program, names, [value], "", name, turns);
      }
      for (const word of /** @type {const} */ (["grid", "threads", "block"]))
        checkBound(program, names, step[word], `${word}: `);
    });
  });
}

/**
 * Check the count and the name of a repeat.
 * @param {Program} program
 * @param {Set<string>} names
 * @param {Repeat} repeat
 * @param {Repeat[]} around It and those around its first step.
 */
function checkRepeat(program, names, { count, name }, around) {
  checkBound(program, names, [count], "the count of its repeat: ");
  checkIdentifier(name);
  const same = around.filter((each) => each.name === name);
  if (program.declared.has(name) || names.has(name) || same.length > 1) {
    throw new Problem(
      `the number of a turn is ${repr(name)}, which something else is too; take another name`,
    );
  }
}

/**
 * Check the declarations, and return the names that may stand in expressions.
 * @param {Program} program
 */
function checkDeclarations(program) {
  checkIdentifier(program.name);
  if (!program.steps.length) throw new Problem("it has no steps");
  const names = new Set(
    program.scalars.filter(({ type }) => isInteger(type)).map(({ name }) => name),
  );
  for (const each of program.declared.values()) {
    const { name } = each;
    checkIdentifier(name);
    if (each.role === "sampler") checkSampler(/** @type {Sampler} */ (each));
    else if (each.role === "scalar") checkDefault(/** @type {Scalar} */ (each));
    else if (isArray(each)) {
      checkArray(each);
      checkState(program, each);
      for (const length of BINDING.includes(each.role) ? each.shape : []) {
        if (typeof length !== "string") continue;
        const other = program.declared.get(length);
        if (other) {
          const what = `${repr(length)} in the shape of ${repr(name)} is ${described(other)}`;
          throw new Problem(`${what}; a length has a name that nothing else has`, name);
        }
        checkIdentifier(length);
        names.add(length);
      }
    }
  }
  for (const { name, shape } of program.arrays())
    checkBound(program, names, shape, `the shape of ${repr(name)}: `, name);
  return names;
}

/** @param {string} name */
function checkIdentifier(name) {
  if (!isIdentifier(name) || KEYWORDS.includes(name)) {
    throw new Problem(
      `${quoteName(name)} is no name: expected an identifier that is no keyword of Python`,
      name,
    );
  }
  if (RESERVED.includes(name))
    throw new Problem(
      `${repr(name)} is reserved for calls and expressions; take another name`,
      name,
    );
}

/** @param {Sampler} sampler */
function checkSampler({ name, filter, address }) {
  if (FILTERS.includes(filter) && ADDRESSES.includes(address)) return;
  const expected = `a filter of ${listNames(FILTERS)} and an address mode of ${listNames(ADDRESSES)}`;
  throw new Problem(
    `the sampler ${repr(name)} has ${repr(filter)} and ${repr(address)}; expected ${expected}`,
    name,
  );
}

/**
 * @param {Program} program
 * @param {View} view
 * @param {string} argument
 */
function checkView(program, view, argument) {
  const { name, type } = view;
  const array = program.declared.get(name);
  if (!isArray(array) || array.format) {
    throw new Problem(
      `'${view}' is the view of an array, and ${quoteName(name)} is none${didYouMean(name, [...program.declared.keys()])}`,
      argument,
    );
  }
  if (!isNumber(type, argument))
    throw new Problem(
      `'${view}': an array of ${type} cannot be seen; expected numbers, such as ${name}.view(uint32)`,
      argument,
    );
}

/**
 * Whether a type is one of numbers of whole bytes.
 * @param {string} type
 * @param {string} argument
 */
function isNumber(type, argument) {
  const { code, bits, lanes } = dtypeOf(type, argument);
  return (lanes === 1 && code !== 3 && bits % 8 === 0 && bits > 0) || type === "uint1";
}

/** @param {Declared} array */
function checkArray({ name, role, type, shape, format, cleared }) {
  if (!isNumber(type, name))
    throw new Problem(
      `an array of ${type} cannot be declared; expected numbers, such as ${name}: float32[n, 4]`,
      name,
    );
  if (cleared && (!["output", "temporary"].includes(role) || format)) {
    throw new Problem(
      `${repr(name)} cannot begin cleared: only an output or a temporary that is an array can`,
      name,
    );
  }
  if (format && ["constant", "state"].includes(role))
    throw new Problem(`the ${role} ${repr(name)} is an image; a ${role} is an array`, name);
  if (format && shape.length !== 2) {
    const lengths = shape.map((each) => expressionText(each)).join(", ");
    throw new Problem(
      `the image ${repr(name)} has the shape [${lengths}]; expected two lengths, [height, width]`,
      name,
    );
  }
}

/**
 * @param {Program} program
 * @param {Declared} array
 */
function checkState(program, { name, role, type, shape, initial }) {
  if (role === "state" && program.declared.has("state")) {
    throw new Problem(
      "'state' is the keyword of a call that gives the program its state; take another name",
      "state",
    );
  }
  if (!initial) return;
  const first = program.declared.get(initial);
  const text = (/** @type {Expression[]} */ lengths) =>
    lengths.map((each) => expressionText(each)).join();
  if (
    role !== "state" ||
    !isArray(first) ||
    first.role !== "constant" ||
    first.type !== type ||
    text(first.shape) !== text(shape)
  ) {
    throw new Problem(
      `${repr(name)} cannot begin as ${quoteName(initial)}: only a state can, as a constant of its type and shape`,
      name,
    );
  }
}

/** @param {Scalar} scalar */
function checkDefault({ name, type, value }) {
  if (!SCALARS.test(type)) {
    dtypeOf(type, name);
    throw new Problem(
      `a scalar of ${type} cannot be declared; expected an integer, a float or bool`,
      name,
    );
  }
  const problem = value === null ? "" : numberMismatch(value, type, "", "its type is");
  if (problem) throw new Problem(`the default of ${repr(name)}: ${problem}`, name);
}

/**
 * @param {string} type
 * @param {string} argument
 */
function dtypeOf(type, argument) {
  const found = parseDtype(type);
  if (found) return found;
  throw new Problem(`${quoteName(argument)}: ${notType(type)}`, argument);
}

/**
 * Check that each name in expressions is that of a length, of an integer scalar or of a turn.
 * @param {Program} program
 * @param {Set<string>} names
 * @param {readonly unknown[]} expressions
 * @param {string} where
 * @param {string} [argument]
 * @param {string[]} [turns]
 */
function checkBound(program, names, expressions, where, argument = "", turns = []) {
  for (const name of expressions.flatMap(namesIn)) {
    if (names.has(name) || turns.includes(name)) continue;
    const known = program.declared.get(name);
    if (known)
      throw new Problem(
        `${where}${repr(name)} is ${described(known)}; an expression has lengths and integer scalars`,
        argument,
      );
    if (program.repeats.some((each) => each.name === name))
      throw new Problem(
        `${where}${repr(name)} is the number of a turn, which only an argument of a repeated step has`,
        argument,
      );
    const text = `nothing binds ${quoteName(name)}: a length has its name alone in the shape of an input, an update, a state or a constant`;
    throw new Problem(
      where + text + didYouMean(name, [...program.declared.keys(), ...names]),
      argument,
    );
  }
}

/** @param {Declared | Scalar | Sampler} each */
function described(each) {
  if (isArray(each)) return each.format ? "an image" : "an array";
  return each.role === "scalar" ? `a scalar of ${/** @type {Scalar} */ (each).type}` : "a sampler";
}

// -- the kernels

/**
 * The candidate of a kernel: its name in messages, its interface, and whether it has a grid of its own.
 * @typedef {{ label: string, interface: Interface | null, ownGrid: boolean }} KernelForm
 */
/**
 * Check each step of a program against the candidate of its kernel.
 * @param {Program} program
 * @param {Map<string, KernelForm>} kernels
 */
export function checkKernels(program, kernels) {
  const written = new Set(
    program
      .arrays()
      .filter(({ role, cleared }) => BINDING.includes(role) || cleared)
      .map(({ name }) => name),
  );
  /** @type {Set<string>} */
  const bySteps = new Set();
  /** @type {Map<string, Map<string, Param | Member>>} */
  const forms = new Map();
  guarded(program, (at) => {
    program.steps.forEach((step, number) => {
      at(number);
      const kernel = /** @type {KernelForm} */ (kernels.get(step.kernel));
      const { label, interface: known } = kernel;
      if (!known)
        throw new Problem(
          `the kernel has no interface as ${label}, so that its arguments are unknown`,
        );
      const form = forms.get(step.kernel) ?? formOf(known);
      forms.set(step.kernel, form);
      for (const name of checkStep(program, step, form, kernel, written)) {
        written.add(name);
        bySteps.add(name);
      }
    });
    at(-1);
    const used = program.lifetimes();
    for (const { name, role } of program.arrays("output", "temporary")) {
      if (!(role === "output" ? bySteps : used).has(name)) {
        throw new Problem(
          `no step ${role === "output" ? "writes the output" : "uses the temporary"} ${repr(name)}`,
          name,
        );
      }
    }
  });
}

/**
 * Return what a step gives to a kernel: its parameters, and in the place of a struct its members.
 * @param {Interface} interface_
 */
function formOf(interface_) {
  const isStruct = (/** @type {Param} */ { kind, members }) =>
    kind !== "buffer" && members[0]?.name;
  const targets = interface_.params.flatMap(
    (param) => /** @type {(Param | Member)[]} */ (isStruct(param) ? param.members : [param]),
  );
  const form = new Map(targets.map((each) => [each.name, each]));
  const unset = constantsOf(interface_).filter(({ needed }) => needed);
  if (form.size < targets.length || form.has(""))
    throw new Problem("the kernel has parameters without a name of their own");
  if (unset.length) {
    throw new Problem(
      `the kernel has constants without a value, ${listNames(unset.map(({ name }) => name))}, which a program cannot set`,
    );
  }
  return form;
}

/**
 * Check a step, and return the names of the arrays that it writes.
 * @param {Program} program
 * @param {Step} step
 * @param {Map<string, Param | Member>} form
 * @param {KernelForm} kernel
 * @param {Set<string>} written
 */
function checkStep(program, step, form, kernel, written) {
  /** @type {Map<string, [string, string][]>} */
  const accesses = new Map();
  for (const [name, value] of step.args) {
    const target = form.get(name);
    if (!target)
      throw new Problem(
        `the kernel has no argument ${quoteName(name)}${didYouMean(name, [...form.keys()])}`,
        name,
      );
    const problem = mismatch(program, value, target);
    if (problem) throw new Problem(problem, name);
    const array = nameOf(value);
    if (isArray(program.declared.get(array))) {
      accesses.set(array, [
        ...(accesses.get(array) ?? []),
        [name, ("access" in target && target.access) || "rw"],
      ]);
    }
  }
  const missing = [...form.keys()].find((name) => !step.args.has(name));
  if (missing) throw new Problem(`the kernel also takes ${quoteName(missing)}`, missing);
  if (kernel.ownGrid) checkNoLaunch(step);
  else checkLaunch(step, /** @type {Interface} */ (kernel.interface));
  const results = [];
  for (const [value, uses] of accesses) {
    const { role } = /** @type {Declared} */ (program.declared.get(value));
    for (const [name, access] of uses) {
      if (access === "r") {
        if (!written.has(value))
          throw new Problem(
            `the kernel reads ${repr(value)}, which no step before has written`,
            name,
          );
        continue;
      }
      if (role === "input" || role === "constant") {
        const what = role === "input" ? "an input" : "a constant";
        throw new Problem(
          `the kernel may write to it, and ${repr(value)} is ${what}: declare the parameter const in the kernel, or the array in updates`,
          name,
        );
      }
      if (uses.length > 1)
        throw new Problem(`${repr(value)} is given twice, and the kernel may write to it`, name);
      results.push(value);
    }
  }
  return results;
}

/** @param {Step} step */
function checkNoLaunch(step) {
  const word = /** @type {const} */ (["grid", "threads", "block"]).find((key) => step[key].length);
  if (word) throw new Problem(`the variants of the kernel decide the ${word}; omit ${word}=`, word);
}

/**
 * @param {Step} step
 * @param {Interface} interface_
 */
function checkLaunch({ grid, threads, block }, { block: fixed, defaultBlock, openBlock }) {
  if (Boolean(grid.length) === Boolean(threads.length)) {
    throw new Problem(
      "the step needs either grid=, the number of blocks, or threads=, the number of threads",
      "grid",
    );
  }
  if (block.length && fixed && fixed.some((each, axis) => BigInt(each) !== (block[axis] ?? 1n))) {
    throw new Problem(
      `the kernel is built for blocks of ${tuple(fixed)} threads; omit block=`,
      "block",
    );
  }
  if (!block.length && !fixed && !defaultBlock && !openBlock) {
    const advice = "or compile the kernel with block=, which gives it a default";
    throw new Problem(
      `the step needs block=, the number of threads in a block; give it, ${advice}`,
      "block",
    );
  }
}

/**
 * Return why a parameter cannot take a value of a step, as a clause; "" if it can.
 * @param {Program} program
 * @param {Given} value
 * @param {Param | Member} target
 */
function mismatch(program, value, target) {
  let given = program.declared.get(nameOf(value));
  if (value instanceof View && isArray(given))
    given = { ...given, name: String(value), type: value.type, shape: [0n] };
  const kind = "kind" in target ? target.kind : "scalar";
  const isAddress = kind === "scalar" && target.type === "handle";
  const wanted = NOUNS[isAddress ? "buffer" : kind];
  if (given?.role === "sampler")
    return kind === "sampler"
      ? ""
      : `${repr(given.name)} is a sampler, and the kernel takes ${wanted}`;
  if (isArray(given)) {
    if (given.format || kind === "image") return imageMismatch(given, target, String(wanted));
    if (isAddress) return "";
    return kind === "buffer"
      ? bufferMismatch(given, /** @type {Param} */ (target))
      : `${repr(nameOf(value))} is an array, and the kernel takes ${wanted}`;
  }
  if (wanted !== "a number") return `${shown(value)} is a number, and the kernel takes ${wanted}`;
  if (target.members.length || ("shape" in target && target.shape.length)) {
    return "the kernel takes a struct, an array or a matrix by value, which a program cannot give";
  }
  return target.type
    ? numberMismatch(value, target.type, given ? /** @type {Scalar} */ (given).type : "")
    : "";
}

/**
 * Return why a number of a type cannot be one of another, as a clause. Without a type it is a literal or an integer expression.
 * @param {Given} value
 * @param {string} wanted
 * @param {string} [given]
 * @param {string} [taker]
 */
function numberMismatch(value, wanted, given = "", taker = "the kernel takes") {
  const { code = 0, bits = 0, lanes = 0 } = parseDtype(wanted) ?? {};
  const { code: own = 0 } = parseDtype(given || (LITERALS[typeof value] ?? "")) ?? {};
  if (lanes !== 1) return `${shown(value)} is a number, and ${taker} ${wanted}`;
  if ((own === BOOL) !== (code === BOOL) || (code < 2 && own > 1)) {
    const what = own === BOOL ? "a boolean" : own < 2 ? "an integer" : "a float";
    return `${shown(value)} is ${what}, and ${taker} ${wanted}`;
  }
  if (typeof value === "bigint" && code < 2) {
    const low = code === 1 ? 0n : -(2n ** BigInt(bits - 1));
    const high = code === 1 ? 2n ** BigInt(bits) - 1n : -low - 1n;
    if (value < low || value > high)
      return `${value} is not between ${low} and ${high}, and ${taker} ${wanted}`;
  }
  const isNumber = typeof value === "bigint" || typeof value === "number";
  return isNumber && isTooLarge(Number(value), wanted)
    ? `${shown(value)} is too large for ${wanted}`
    : "";
}

/**
 * @param {Declared} array
 * @param {Param} target
 */
function bufferMismatch({ name, type, shape }, target) {
  const shapes = target.pack.filter((value) => value.startsWith("shape")).length;
  if (shapes && shapes !== shape.length)
    return `${repr(name)} has ${shape.length} dimensions, and the kernel takes ${shapes}`;
  const [one, other] = [parseDtype(type), parseDtype(target.type)];
  if (!target.type || (one?.code === other?.code && one?.bits === other?.bits)) return "";
  return `${repr(name)} is an array of ${type}, and the kernel takes ${target.type}`;
}

/**
 * @param {Declared} image
 * @param {Param | Member} target
 * @param {string} wanted
 */
function imageMismatch({ name, format, texel }, target, wanted) {
  if (!("kind" in target) || target.kind !== "image" || !texel) {
    return `${repr(name)} is ${format ? "an image" : "an array"}, and the kernel takes ${wanted}`;
  }
  if (target.type && target.type !== "2d")
    return `${repr(name)} is an image of two dimensions, and the kernel takes ${target.type}`;
  if (target.format && target.format !== format)
    return `${repr(name)} is an image of ${format}, and the kernel takes ${target.format}`;
  if (target.sample && target.sample !== texel.sample)
    return `${repr(name)} has texels of ${texel.sample}, and the kernel takes ${target.sample}`;
  return "";
}

/** @param {Given} value */
function shown(value) {
  if (typeof value === "string" || Array.isArray(value))
    return `'${expressionText(/** @type {Expression} */ (value))}'`;
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "number" ? floatText(value) : String(value);
}

/**
 * Return a float as Python shows it.
 * @param {number} value
 */
function floatText(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value < 0 ? "-inf" : "inf";
  const [digits = "", exponent = ""] = value.toExponential().split("e");
  if (value && (Number(exponent) < -4 || Number(exponent) >= 16))
    return `${digits}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, "0")}`;
  return Number.isInteger(value)
    ? `${Object.is(value, -0) ? "-" : ""}${value.toFixed(1)}`
    : String(value);
}
