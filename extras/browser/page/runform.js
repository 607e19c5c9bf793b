// What the forms of kernels and of programs share: their fields, the button, the errors at the fields, and the results.

import { defaultDevice, DevmodError, Image } from "./devmod-webgpu/index.js";
import { brief, el, visible } from "./dom.js";
import { FieldError, fieldList } from "./fields.js";

/**
 * Return a form.
 * @param {string} name What it runs.
 * @param {{ name: string }[]} params
 * @param {object[]} parts The fields of each parameter. Those with `isNumber` follow the others in one group.
 * @param {{ title: string, fields: object[], read: Function, byWord: Function }[]} more Further fields.
 * @param {(device: GPUDevice, values: unknown[]) => Promise<unknown[]>} run Takes the values of all fields. Returns a text, and what shows the results.
 */
export function runForm(name, params, parts, more, run) {
  const all = [...parts, ...more];
  const numbers = parts.filter(({ isNumber }) => isNumber);
  const status = el("p", { class: "quiet", role: "status" });
  const problem = el("div", { role: "alert" });
  const results = el("div", { class: "results" });
  const form = el(
    "form",
    { class: "kernel", noValidate: true, "aria-label": `Run ${brief(name, 80)}` },
    ...parts.filter(({ isNumber }) => !isNumber).map(({ element }) => element),
    numbers.length ? fieldList(numbers) : null,
    ...more
      .filter(({ fields }) => fields.length)
      .map(({ title, fields }) => el("section", {}, el("h4", {}, title), fieldList(fields))),
    el(
      "div",
      { class: "controls" },
      el("button", { class: "plain run-button", type: "submit" }, "Run"),
      status,
    ),
    problem,
    results,
  );

  /** Show an error at the field to which it belongs, otherwise below the button. */
  const fail = (error) => {
    const known = error instanceof DevmodError;
    const at = known
      ? params.findIndex((param, number) => (param.name || String(number + 1)) === error.argument)
      : -1;
    const field =
      parts[at]?.main ?? more.map(({ byWord }) => known && byWord(error.argument)).find(Boolean);
    if (field) {
      field.fail(error.message);
      field.input.focus();
    } else
      problem.replaceChildren(problemOf(known ? error.message : `${error.name}: ${error.message}`));
  };

  /** Read all fields into `values`. Show the errors at the fields, and return whether there are none. */
  const readAll = async (device, values) => {
    const wrong = [];
    for (const part of all) {
      try {
        values.push(await part.read(device));
      } catch (error) {
        if (!(error instanceof FieldError)) throw error;
        wrong.push(error);
      }
    }
    for (const { field, message } of wrong) field.fail(message);
    wrong[0]?.field.input.focus();
    return !wrong.length;
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (results.ariaBusy === "true") return;
    results.ariaBusy = true;
    for (const field of all.flatMap(({ fields }) => fields)) field.clear();
    problem.replaceChildren();
    results.replaceChildren();
    status.textContent = "Running…";
    const values = [];
    try {
      const device = await defaultDevice();
      const [text, ...shown] = (await readAll(device, values)) ? await run(device, values) : [""];
      status.textContent = text;
      results.replaceChildren(...shown);
    } catch (error) {
      status.textContent = "";
      fail(error);
    }
    for (const value of values) if (value instanceof Image) value.destroy();
    results.ariaBusy = false;
  });
  return form;
}

/** Return the milliseconds of work and of what it queues on a device, as a text. */
export async function timeOf(device, work) {
  const start = performance.now();
  await work();
  await device.queue.onSubmittedWorkDone();
  const duration = performance.now() - start;
  return `${duration.toLocaleString("en", { maximumFractionDigits: duration < 10 ? 2 : 0 })} ms`;
}

/** Return a message, with the output of a compiler below it in a monospaced font. */
function problemOf(message) {
  const [first, ...rest] = message.split("\n").map(visible);
  return el(
    "div",
    { class: "bad" },
    first,
    rest.length ? el("code", { class: "log" }, rest.join("\n")) : null,
  );
}
