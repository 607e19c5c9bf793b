// A form for one program: a field for each input and update, a button that calls it, and its results.

import { defaultDevice, DevmodError, image, Image } from "./devmod-webgpu/index.js";
import { evaluate, namesIn } from "./devmod-webgpu/expressions.js";
import { IMAGE_FORMATS } from "./devmod-webgpu/formats.js";
import { arrayField } from "./arrays.js";
import { brief, el, visible } from "./dom.js";
import { FieldError, numberField } from "./fields.js";
import { elementOf, unitOf } from "./fills.js";
import { problemOf } from "./form.js";
import { imageResult } from "./imageresults.js";
import { imageField } from "./images.js";
import { resultOf } from "./results.js";

/** What the form suggests for a length that a call chooses. */
const LENGTH = 64n;

/** Return the form of a program. */
export function programForm(module, name, info) {
  const { params } = info.interface;
  const withRole = (...roles) => params.filter(({ extra }) => roles.includes(extra.role));
  const given = withRole("input", "update");
  const parts = given.map((param) => fieldOf(param, params));
  const status = el("p", { class: "quiet", role: "status" });
  const problem = el("div", { role: "alert" });
  const results = el("div", { class: "results" });
  const isNumber = (_, at) => given[at].kind === "scalar";
  const form = el(
    "form",
    { class: "kernel", noValidate: true, "aria-label": `Run ${brief(name, 80)}` },
    ...parts.filter((_, at) => !isNumber(_, at)).map(({ element }) => element),
    parts.some(isNumber) ? el("div", { class: "fields" }, parts.filter(isNumber).map(({ element }) => element)) : null,
    el("div", { class: "controls" }, el("button", { class: "plain run-button", type: "submit" }, "Run"), status),
    problem,
    results,
  );

  /** Call the program, and return what shows its results. */
  const run = async (device, values) => {
    const f = await module.getFunction(name, { device });
    const known = new Map();
    values.forEach((value, at) => {
      const { kind, extra } = given[at];
      const lengths = kind === "scalar" ? [] : value instanceof Image ? value.shape.toReversed() : value.shape;
      if (kind === "scalar" && Number.isInteger(Number(value))) known.set(given[at].name, BigInt(value));
      if (kind !== "scalar") lengths.forEach((length, axis) => typeof extra.shape[axis] === "string" && known.set(extra.shape[axis], BigInt(length)));
    });
    const named = Object.fromEntries(values.map((value, at) => [given[at].name, value.data?.buffer ?? value]));
    for (const [length, value] of known) named[length] ??= value;
    const fixed = withRole("constant").flatMap(({ extra }) => extra.shape);
    const open = withRole("state").flatMap(({ extra }) => extra.shape.flatMap(namesIn)).filter((each) => !fixed.includes(each));
    if (withRole("state").length) named.state = await f.state(Object.fromEntries(open.map((each) => [each, Number(known.get(each) ?? LENGTH)])));
    const outputs = [];
    for (const { name: output, kind, type, format, extra } of withRole("output")) {
      const shape = extra.shape.map((each) => Number(evaluate(each, known)));
      const element = kind === "image" ? null : elementOf(type, 0);
      const size = element && shape.reduce((one, other) => one * other, unitOf(element));
      named[output] = element ? new ArrayBuffer(size) : await image(shape.toReversed(), format, { device });
      values.push(named[output]); // an image is destroyed with the others
      outputs.push({ output, type, element, shape });
    }
    const start = performance.now();
    await f(named);
    await device.queue.onSubmittedWorkDone();
    const duration = performance.now() - start;
    status.textContent = `${duration.toLocaleString("en", { maximumFractionDigits: duration < 10 ? 2 : 0 })} ms, copies included.`;
    const updates = given.flatMap((param, at) => (param.extra.role === "update" ? [[param.name, parts[at], values[at]]] : []));
    return Promise.all([
      ...outputs.map(({ output, type, element, shape }) => (element ? resultOf(output, visible(type), element, new element.Array(named[output]), shape.length ? shape : [1]) : imageResult(output, named[output]))),
      ...updates.map(([title, part, value]) => (value instanceof Image ? imageResult(title, value) : resultOf(title, visible(part.type()), value.element, value.data, value.shape))),
    ]);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (results.ariaBusy === "true") return;
    results.ariaBusy = true;
    for (const field of parts.flatMap(({ fields }) => fields)) field.clear();
    problem.replaceChildren();
    results.replaceChildren();
    status.textContent = "Running…";
    const values = [];
    try {
      const device = await defaultDevice();
      for (const part of parts) values.push(await part.read(device));
      results.replaceChildren(...(await run(device, values)));
    } catch (error) {
      status.textContent = "";
      const at = given.findIndex((param) => error instanceof DevmodError && param.name === error.argument);
      const field = error instanceof FieldError ? error.field : parts[at]?.main;
      if (field) {
        field.fail(error.message);
        field.input.focus();
      } else problem.replaceChildren(problemOf(error instanceof DevmodError ? error.message : `${error.name}: ${error.message}`));
    } finally {
      for (const value of values) if (value instanceof Image) value.destroy();
      results.ariaBusy = false;
    }
  });
  return form;
}

/** Return the fields of an input or an update. Each length that a call chooses is suggested, and follows from a chosen picture. */
function fieldOf(param, params) {
  const { name, kind, type, access, extra } = param;
  if (kind === "image") return imageField({ ...param, sample: IMAGE_FORMATS.get(param.format).sample }, () => {});
  if (kind === "scalar") {
    const part = numberField(name, type, String(extra.value ?? (/int/.test(type) ? LENGTH : 1)));
    return { ...part, main: part.fields[0] };
  }
  const values = new Map(params.flatMap(({ extra: { shape = [], value }, name: each }) => [...shape.flatMap(namesIn).map((length) => [length, LENGTH]), ...(typeof value === "bigint" ? [[each, value]] : [])]));
  const lengths = extra.shape.map((each) => Number(evaluate(each, values)));
  return arrayField({ name, type, access, align: 0, size: 0, least: 0, isOpen: extra.shape.slice(-2).every((each) => typeof each === "string") }, lengths, () => {});
}
