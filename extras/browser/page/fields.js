// Fields of a form for numbers and structs, by the types of a kernel's interface. Each field shows its own errors.

import { parseDtype } from "./devmod-webgpu/dtypes.js";
import { isValue } from "./devmod-webgpu/members.js";
import { ConversionError, packerOf } from "./devmod-webgpu/scalars.js";
import { brief, el, visible } from "./dom.js";

/** A value of a field is wrong. The field shows the message. */
export class FieldError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

/** The most inputs for the members of one struct. Larger structs are filled from a file. */
const MOST_INPUTS = 100;
let fields = 0;

/** Return a label with its input, a hint and a place for an error. `fail` shows an error, `clear` removes it. */
export function labelled(text, input, hint = "") {
  const id = `field-${++fields}`;
  const problem = el("p", { class: "problem", id: `${id}-problem`, role: "alert" });
  input.id = id;
  input.setAttribute("aria-describedby", `${hint ? `${id}-hint ` : ""}${id}-problem`);
  const label = el("label", { for: id }, text);
  const parts =
    input.type === "checkbox" ? [el("div", { class: "check" }, input, label)] : [label, input];
  const element = el(
    "div",
    { class: "field" },
    ...parts,
    hint ? el("p", { class: "hint", id: `${id}-hint` }, hint) : null,
    problem,
  );
  const fail = (message) => {
    problem.textContent = visible(message);
    input.setAttribute("aria-invalid", "true");
  };
  const clear = () => {
    problem.textContent = "";
    input.removeAttribute("aria-invalid");
  };
  input.addEventListener("input", clear);
  return { element, input, fail, clear };
}

/** Return an input for a text, with a value. */
export function textInput(value, properties = {}) {
  return el("input", {
    type: "text",
    autocomplete: "off",
    spellcheck: false,
    value,
    ...properties,
  });
}

/**
 * Return a field for a file. Its `load` returns the result of `decode` for the file, which is called once for each file and `key()`. `use`
 * is called with that when the user chooses a file.
 */
export function fileField(text, properties, hint, decode, use, key = () => "") {
  const field = labelled(text, el("input", { type: "file", ...properties }), hint);
  let loaded = null;
  const load = async () => {
    const [file] = field.input.files;
    if (!file) throw new FieldError(field, "choose a file");
    const wanted = key();
    try {
      if (loaded?.file !== file || loaded.key !== wanted)
        loaded = { file, key: wanted, contents: await decode(file) };
    } catch (error) {
      throw new FieldError(field, error.message);
    }
    return loaded.contents;
  };
  field.input.addEventListener("change", async () => {
    try {
      use(await load());
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      field.fail(error.message);
    }
  });
  return { ...field, load };
}

/** Return the group of an argument's fields, with its name and a description. */
export function argumentGroup(name, description, fields) {
  const legend = el(
    "legend",
    {},
    el("code", {}, brief(name, 80)),
    " ",
    el("span", { class: "quiet" }, description),
  );
  return el("fieldset", { class: "array" }, legend, fieldList(fields));
}

/** Return the element that has those of fields, or of parts. */
export function fieldList(fields, look = "fields") {
  const elements = fields.map(({ element }) => element);
  return el("div", { class: look }, elements);
}

/** Return the words of a text such as 64 × 64, which may have ×, x, * or a comma between them. */
export function lengthsIn(text) {
  return text.trim().split(/\s*[×x*,;]\s*|\s+/i);
}

/** Return the product of lengths. */
export const productOf = (lengths) => lengths.reduce((product, length) => product * length, 1);

/**
 * Return the lengths in a field. `fits` tells whether their number does.
 * @param {string} expected
 * @param {(count: number) => boolean} [fits]
 */
export function lengthsOf(field, expected, fits = () => true) {
  const words = lengthsIn(field.input.value);
  if (!fits(words.length) || !words.every((word) => /^\d{1,15}$/.test(word)))
    throw new FieldError(field, expected);
  return words.map(Number);
}

/** Return the fields of a fill: a choice, a seed for random numbers, and a file. `changed` is called with the choice. */
export function fillFields(fills, chosen, hint, file, changed) {
  const choice = labelled("Fill", selection(fills));
  if (chosen) choice.input.value = chosen;
  const seed = labelled("Seed", textInput("1", { inputMode: "numeric" }), hint);
  const update = () => {
    seed.element.hidden = choice.input.value !== "random";
    file.element.hidden = choice.input.value !== "file";
    changed(choice.input.value);
  };
  choice.input.addEventListener("change", update);
  update();
  const readSeed = () => {
    if (!/^\d{1,10}$/.test(seed.input.value.trim()))
      throw new FieldError(seed, "expected a whole number");
    return Number(seed.input.value);
  };
  return { fields: [choice, seed, file], chosen: () => choice.input.value, seed: readSeed };
}

/** Return a function that replaces the suggested value of an input. A value that the user has entered stays. */
export function suggestionOf(input) {
  let last = input.value;
  return (text) => {
    if (input.value === last) input.value = last = text;
  };
}

/** Return a selection. `choices` has the texts by value. */
export function selection(choices) {
  return el(
    "select",
    {},
    Object.entries(choices).map(([value, text]) => el("option", { value }, text)),
  );
}

/** Return the numbers of a type as a hint: how many, their type and its range. */
function hintOf(type, shape) {
  const { code, bits, lanes } = parseDtype(type);
  const one = lanes > 1 ? type.slice(0, type.lastIndexOf("x")) : type;
  const lengths = lanes > 1 ? [...shape, lanes] : shape;
  const count = lengths.length ? `${lengths.join(" × ")} numbers of ` : "";
  const all = lengths.length ? "; one number fills all" : "";
  if ((code !== 0 && code !== 1) || bits < 1) return `${count}${one}${all}`;
  const high = 2n ** BigInt(code === 0 ? bits - 1 : bits) - 1n;
  return `${count}${one}, ${code === 0 ? `−${high + 1n}` : 0} to ${high}${all}`;
}

/**
 * Return the number of a text; BigInt for whole numbers, so that all digits count.
 * @param {string} type The type of one lane.
 */
function numberIn(text, type) {
  const plain = text.replaceAll("−", "-");
  const { code } = parseDtype(type);
  if (code === 0 || code === 1) {
    if (/^[+-]?\d+$/.test(plain)) return BigInt(plain.replace("+", ""));
    if (/^0x[\da-f]+$/i.test(plain)) return BigInt(plain);
    throw new ConversionError(`'${text}' is not a whole number`);
  }
  if (/^[+-]?inf(inity)?$/i.test(plain)) return plain.startsWith("-") ? -Infinity : Infinity;
  const value = /^nan$/i.test(plain) ? NaN : Number(plain);
  if (Number.isNaN(value) && !/^nan$/i.test(plain))
    throw new ConversionError(`'${text}' is not a number`);
  return value;
}

/**
 * Return a field for numbers of one type: one, the lanes of a vector, or the elements of an array.
 * @param {number[]} shape The lengths of an array; [] for one value.
 */
export function numberField(name, type, known, shape = []) {
  const { lanes } = parseDtype(type);
  const one = lanes > 1 ? type.slice(0, type.lastIndexOf("x")) : type;
  const label = el("code", {}, brief(name, 80));
  if (one === "bool" && !shape.length && lanes === 1) {
    const field = labelled(label, el("input", { type: "checkbox" }), type);
    return { element: field.element, fields: [field], read: () => field.input.checked };
  }
  const count = productOf([...shape, lanes]);
  const whole = /^u?int/.test(one);
  const value = new Array(count > 16 ? 1 : count).fill(known).join(", ");
  const field = labelled(
    label,
    textInput(value, { inputMode: whole && count === 1 ? "numeric" : "text" }),
    hintOf(type, shape),
  );
  field.element.classList.toggle("wide", count > 4);
  const read = () => {
    const words = field.input.value.split(/[\s,;]+/).filter(Boolean);
    if (words.length !== count && !(words.length === 1 && count > 1)) {
      throw new FieldError(
        field,
        count === 1 ? "expected one number" : `expected ${count} numbers, got ${words.length}`,
      );
    }
    try {
      const numbers = words.map((word) => numberIn(word, one));
      for (const number of numbers) packerOf(one, 0)?.(number);
      const all = numbers.length === count ? numbers : new Array(count).fill(numbers[0]);
      return nested(all, lanes > 1 ? [...shape, lanes] : shape);
    } catch (error) {
      throw error instanceof ConversionError ? new FieldError(field, error.message) : error;
    }
  };
  return { element: field.element, fields: [field], read };
}

/** Return numbers in nested arrays of the given lengths; the number itself without lengths. */
function nested(numbers, shape) {
  if (!shape.length) return numbers[0];
  const [length, ...rest] = shape;
  const step = numbers.length / length;
  return Array.from({ length }, (_, at) => nested(numbers.slice(at * step, (at + 1) * step), rest));
}

/** Return a field for a struct of `size` bytes: a group with a field for each member, or its bytes if the members are unknown. */
export function structField(name, size, members) {
  if (!members.length || inputsOf(members) > MOST_INPUTS) return bytesField(name, size);
  return isValue(members)
    ? memberField(name, members[0], members[0].shape)
    : group(el("code", {}, brief(name, 80)), members);
}

function inputsOf(members) {
  let count = 0;
  for (const { members: inner, shape } of members) {
    count += inner.length ? productOf([...shape, inputsOf(inner)]) : 1;
  }
  return count;
}

function group(legend, members) {
  const parts = members.map((member, at) =>
    memberField(member.name || `member ${at + 1}`, member, member.shape),
  );
  return together(
    parts,
    el("fieldset", { class: "struct" }, el("legend", {}, legend), fieldList(parts)),
  );
}

/** Return several parts as one, which returns the values in their order: members may have no names. */
function together(parts, element) {
  const read = () => parts.map((part) => part.read());
  return { element, fields: parts.flatMap((part) => part.fields), read };
}

function memberField(name, member, shape) {
  if (!member.members.length) return numberField(name, member.type, "0", shape);
  if (!shape.length) return group(el("code", {}, brief(name, 80)), member.members);
  const [length, ...rest] = shape;
  const parts = Array.from({ length }, (_, at) => memberField(`${name}[${at}]`, member, rest));
  return together(parts, fieldList(parts, "struct-array"));
}

function bytesField(name, size) {
  const fill = selection({ zeros: "zeros", file: "a file of raw bytes" });
  const field = labelled(el("code", {}, brief(name, 80)), fill, `struct of ${size} bytes`);
  const decode = async (file) => {
    if (file.size !== size)
      throw new Error(`${file.name} has ${file.size} bytes, and the struct has ${size}`);
    return new Uint8Array(await file.arrayBuffer());
  };
  const chosen = fileField("File", {}, "", decode, () => {});
  chosen.element.hidden = true;
  fill.addEventListener("change", () => (chosen.element.hidden = fill.value !== "file"));
  const read = async () => (fill.value === "zeros" ? new Uint8Array(size) : chosen.load());
  return {
    element: el("div", { class: "fields" }, field.element, chosen.element),
    fields: [field, chosen],
    read,
  };
}
