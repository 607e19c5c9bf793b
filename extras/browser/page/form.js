// A form for one kernel: a field for each argument, and the size of the launch.

import { paramProblem } from "./devmod-webgpu/formats.js";
import { unmetNeeds } from "./devmod-webgpu/pipeline.js";
import { arrayField } from "./arrays.js";
import { brief, el, visible } from "./dom.js";
import {
  FieldError,
  labelled,
  lengthsOf,
  numberField,
  productOf,
  selection,
  structField,
  suggestionOf,
  textInput,
} from "./fields.js";
import { imageField, imageSize, samplerField } from "./images.js";
import { resultOf } from "./results.js";
import { runForm, timeOf } from "./runform.js";

/** Kernels with more arguments get no form. */
const MOST_ARGUMENTS = 40;

/** Return why a function cannot be used, or why a kernel of a webgpu module has no form; "" if it has one. `device` is null if there is none. */
export function whyNot(info, device) {
  if (info.error) return visible(`It cannot be used here: ${info.error.message}.`);
  const params = paramsOf(info);
  for (const param of params) {
    const problem =
      param.kind === "image"
        ? paramProblem(param)
        : param.kind === "local"
          ? "is of kind local, which WebGPU does not support"
          : "";
    if (problem)
      return visible(`It cannot run here: its argument ${brief(param.name, 80)} ${problem}.`);
  }
  const unmet = device ? unmetNeeds(info.interface, device) : "";
  if (unmet) return visible(`It cannot run here: it ${unmet}.`);
  if (params.length > MOST_ARGUMENTS)
    return `It has ${params.length.toLocaleString("en")} arguments, and this page has forms for ${MOST_ARGUMENTS} at most. A program can run it.`;
  return "";
}

/** Return the parameters of a kernel. Without an interface they have no names, and the elements of arrays have no types. */
function paramsOf({ interface: known, argTypes }) {
  if (known)
    return known.params.map((param, at) => ({
      ...param,
      type: param.type || (isNumber(param) ? argTypes[at] : ""),
    }));
  return argTypes.map((type) => {
    const kind = type === "handle" ? "buffer" : "scalar";
    return {
      name: "",
      kind,
      type: kind === "buffer" ? "" : type,
      access: "",
      align: 0,
      size: 0,
      least: 0,
      members: [],
    };
  });
}

function isNumber({ kind }) {
  return kind === "scalar" || kind === "uniform";
}

/** The forms by module and function: what a user has entered stays while another module is shown. */
const forms = new WeakMap();

/** Return the form of a kernel. */
export function kernelForm(module, name, info) {
  if (!forms.has(module)) forms.set(module, new Map());
  const known = forms.get(module);
  if (!known.has(name)) known.set(name, newForm(module, name, info));
  return known.get(name);
}

function newForm(module, name, info) {
  const block = info.interface?.block ?? null;
  const flat = (block?.[1] ?? 1) > 1;
  const params = paramsOf(info);
  const images = params.filter(({ kind }) => kind === "image");
  const target = images.find(({ access }) => access !== "r") ?? images[0]; // it has a thread for each of its texels
  const size = target ? imageSize(target) : flat ? [64, 64] : [1024];
  /** A chosen picture gives its size to the other images and the launch, where the user has entered none. */
  const suggest = (lengths) => {
    for (const part of parts) (part.resize ?? part.fit)?.(lengths);
    if (target?.type === "2d") launch.resize(lengths.join(" × "));
  };
  /** Numbers follow the shape of the smallest array, so that none of them is beyond an array. */
  const fit = () => {
    const shapes = parts
      .map((part) => part.lengths?.())
      .filter((lengths) => lengths?.every((each) => each > 0));
    const [smallest] = shapes.sort((one, other) => productOf(one) - productOf(other));
    if (smallest) for (const part of parts) part.fit?.(smallest.toReversed());
  };
  const parts = params.map((param, at) =>
    fieldOf({ ...param, name: param.name || `argument ${at + 1}` }, size, suggest, fit),
  );
  const tune = info.interface?.extra.tune;
  const ownGrid = tune?.grid ?? tune?.variants?.[0]?.grid; // of a tuned function: a call names no size
  const launch = ownGrid ? NO_LAUNCH : launchFields(block, size.join(" × "));
  const run = async (device, read) => {
    const [values, [set, options]] = [read.slice(0, -2), read.slice(-2)];
    let f = await module.getFunction(name, { device });
    if (Object.keys(set).length) f = await f.specialize(set);
    const given = values.map((value, at) =>
      params[at].kind === "buffer" ? value.data.buffer : value,
    );
    const named = params.every(
      (param, at) => param.name && params.findIndex((each) => each.name === param.name) === at,
    );
    const args = named
      ? Object.fromEntries(given.map((value, at) => [params[at].name, value]))
      : given;
    const { grid } = f.launchConfig(ownGrid ? args : options);
    const time = await timeOf(device, () => f.run(args, options));
    const shown = values.flatMap((value, at) => {
      const { kind, access, name } = params[at];
      const isWritten = access !== "r" && (kind === "buffer" || kind === "image");
      return isWritten ? [resultOf(name || `argument ${at + 1}`, parts[at].type?.(), value)] : [];
    });
    return [
      `${grid.join(" × ")} blocks${f.block ? ` of ${f.block.join(" × ")} threads` : ""} in ${time}${images.length ? "" : ", copies included"}.`,
      ...(shown.length
        ? await Promise.all(shown)
        : [el("p", { class: "quiet" }, "The kernel writes to no array and no image.")]),
    ];
  };
  return runForm(
    name,
    params,
    parts,
    [constantFields(info.interface?.extra.constants), launch],
    run,
  );
}

/** The names of integers that are lengths of arrays, without their underscores. */
const WIDTH = /^(w|width|cols|columns|ncols|nx|stride|pitch|lda|ldb|ldc)$/;
const HEIGHT = /^(h|height|rows|nrows|ny)$/;
const COUNT =
  /^(argument \d+|n|m|k|num|count|size|len|length|total|limit|end|numel|items|elements|(n|num)(elements|items))$/;

/** Return the text of a number: of an integer what its name suggests for arrays of a size, x first; 1 for other numbers. */
function suggested({ name, type }, [width, height = 1, ...rest]) {
  const word = /^u?int(16|32|64)(x|$)/.test(type) ? name.toLowerCase().replaceAll("_", "") : "";
  if (COUNT.test(word))
    return String(word.length > 1 ? productOf([width, height, ...rest]) : width); // n, m and k are sides of matrices
  return String(WIDTH.test(word) ? width : HEIGHT.test(word) ? height : 1);
}

function fieldOf(param, size, suggest, fit) {
  if (param.kind === "image") return imageField(param, suggest);
  if (param.kind === "sampler") return samplerField(param);
  if (param.kind === "buffer") return arrayField(param, size.toReversed(), fit);
  const bytes = /^uint8x(\d+)$/.exec(param.type);
  const isStruct =
    bytes !== null && (param.members.length > 0 || param.align > 0 || Number(bytes[1]) > 4);
  const part = isStruct
    ? structField(param.name, Number(bytes[1]), param.members)
    : numberField(param.name, param.type, suggested(param, size));
  const follow = suggestionOf(part.fields[0]?.input ?? {});
  return {
    ...part,
    isNumber: !isStruct,
    main: part.fields[0],
    fit: (lengths) => !isStruct && follow(suggested(param, lengths)),
  };
}

/** Return the fields of the constants (WGSL's override). An empty field leaves the default of the shader. */
function constantFields(listed) {
  // The package refuses constants of another form when the kernel runs.
  const known = (Array.isArray(listed) ? listed : [])
    .filter((each) => typeof each?.type === "string" && (each.name || each.id !== undefined))
    .slice(0, MOST_ARGUMENTS);
  const isRequired = ({ default: value }) => value === undefined || value === null;
  const fields = known.map((each) => {
    const { name, id, type, default: value } = each;
    const hint = `${visible(type)}, ${isRequired(each) ? "required" : `default ${visible(String(value))}`}`;
    return labelled(el("code", {}, brief(String(name || id), 80)), textInput(""), hint);
  });
  const read = () => {
    const result = Object.create(null);
    fields.forEach((field, at) => {
      const { name, id, type } = known[at];
      const text = field.input.value.trim();
      if (!text && !isRequired(known[at])) return;
      const number =
        type === "bool" ? { true: 1, false: 0, 1: 1, 0: 0 }[text] : Number(text || NaN);
      if (number === undefined || Number.isNaN(number))
        throw new FieldError(
          field,
          type === "bool" ? "expected true or false" : "expected a number",
        );
      result[name || id] = number;
    });
    return result;
  };
  return {
    title: "Constants",
    fields,
    read,
    byWord: (word) =>
      fields[known.findIndex(({ name, id }) => word === (name || String(id)))] ?? null,
  };
}

/** In the place of the fields of the launch. */
const NO_LAUNCH = { title: "", fields: [], read: () => ({}), resize() {}, byWord: () => null };

/** Return the fields of the launch: threads if the block is known, otherwise blocks. */
function launchFields(block, suggested) {
  const choice = labelled(
    "Given as",
    selection(block ? { threads: "threads", grid: "blocks" } : { grid: "blocks" }),
  );
  const size = labelled(
    "Number in x, y, z",
    textInput(block ? suggested : "1"),
    block ? `blocks of ${block.join(" × ")} threads` : "the shader fixes the block",
  );
  const read = () => ({
    [choice.input.value]: lengthsOf(
      size,
      "expected a whole number, or up to three such as 64 × 64",
      (count) => count <= 3,
    ),
  });
  return {
    title: "Size of the launch",
    fields: [choice, size],
    read,
    resize: block ? suggestionOf(size.input) : () => {},
    byWord: (word) => (["grid", "threads", "block"].includes(word) ? size : null),
  };
}
