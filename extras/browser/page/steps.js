// The steps of a program in their order: the kernel, the arrays with their shapes, the launch, and the time after a run.

import { expressionText } from "./devmod-webgpu/expressions.js";
import { isArray, nameOf, readProgram } from "./devmod-webgpu/programs.js";
import { brief, el, visible } from "./dom.js";
import { stepGraph, writtenBy } from "./graph.js";

const MOST = 300;
const MOST_ARGUMENTS = 60;

/**
 * Return the graph and the list of the steps of a program, and a function that shows the milliseconds of each step and returns a text about the longest.
 * The list has the reason if the steps cannot be read here.
 */
export function stepList(module, name, info, contents) {
  let program;
  try {
    program = readProgram(name, info, contents.shaders.get(name));
  } catch (error) {
    return {
      element: el("p", { class: "quiet where" }, visible(error.message)),
      showTimes: () => "",
    };
  }

  const { steps, requires } = program;
  const around = program.repeatsOfSteps();
  const times = steps.slice(0, MOST).map(() => el("span", { class: "time quiet" }));
  /** Return the items of some steps within `depth` repeats. */
  const items = (first, end, depth) => {
    const result = [];
    for (let number = first; number < Math.min(end, MOST); ) {
      const repeat = around[number][depth];
      if (repeat) {
        const head = `for ${visible(repeat.name)} in range(${expressionText(repeat.count)})`;
        const inner = items(number, repeat.end, depth + 1);
        result.push(el("li", { class: "repeat" }, el("code", {}, brief(head)), listOf(inner)));
      } else result.push(item(program, number, times[number]));
      number = repeat?.end ?? number + 1;
    }
    return result;
  };
  const list = listOf(items(0, steps.length, 0));
  const picture = el("div", { class: "graph-of" });
  let graph = null;
  writtenBy(module).then(
    (written) => {
      graph = stepGraph(program, written, MOST);
      picture.replaceChildren(graph.element);
      // The first box is in the middle of a graph that is wider than the page.
      picture.scrollLeft = (picture.scrollWidth - picture.clientWidth) / 2;
    },
    (error) => picture.replaceChildren(el("p", { class: "quiet" }, visible(error.message))),
  );
  const more = steps.length - MOST;
  const conditions = requires
    .slice(0, MOST_ARGUMENTS)
    .map(([sign, left, right]) => `${expressionText(left)} ${sign} ${expressionText(right)}`);
  const element = el(
    "section",
    { class: "steps-of" },
    el("h4", {}, `${steps.length} ${steps.length === 1 ? "step" : "steps"}`),
    conditions.length
      ? el("p", { class: "quiet where" }, brief(`requires ${conditions.join(", ")}`, 500))
      : null,
    picture,
    list,
    more > 0 ? el("p", { class: "quiet" }, `and ${more} more`) : null,
  );
  const showTimes = (found) => {
    const most = Math.max(...(found ?? []));
    times.forEach((each, number) => {
      const time = found?.[number];
      each.textContent = time === undefined ? "" : timeText(time);
      each.classList.toggle("most", time > 0 && time === most);
    });
    const texts = times.map((each) => each.textContent);
    graph?.showTimes(texts, most > 0 ? found.indexOf(most) : -1);
    if (!(most > 0)) return "";
    return ` Step ${found.indexOf(most) + 1} took the longest, ${timeText(most)}.`;
  };
  return { element, showTimes };
}

function listOf(items) {
  return el("ol", { class: "steps" }, ...items);
}

/** Return a step: its number and kernel, its launch, and each argument with what the program gives for it. */
function item(program, number, time) {
  const step = program.steps[number];
  const given = [...step.args]
    .slice(0, MOST_ARGUMENTS)
    .flatMap(([argument, value], at) => [
      at ? ", " : "",
      `${brief(argument, 80)}=`,
      el("span", { class: "t-type" }, givenText(program, value)),
    ]);
  if (step.args.size > MOST_ARGUMENTS) given.push(`, and ${step.args.size - MOST_ARGUMENTS} more`);
  return el(
    "li",
    { class: "step", value: number + 1 },
    el("span", { class: "head" }, el("code", {}, el("strong", {}, brief(step.kernel))), time),
    el("code", { class: "arguments" }, ...given),
    el("span", { class: "launch quiet" }, launchText(step)),
  );
}

/** Return what a step gives: a number, or an array with its type and its shape. */
function givenText(program, value) {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const declared = program.declared.get(nameOf(value));
  if (!isArray(declared)) return brief(expressionText(value), 80);
  const shape = declared.shape.map((each) => expressionText(each)).join(", ");
  const type = nameOf(value) === value ? declared.format || declared.type : value.type;
  return brief(`${nameOf(value)} ${type}[${shape}]`, 120);
}

function launchText(step) {
  return ["grid", "threads", "block"]
    .filter((word) => step[word].length)
    .map((word) =>
      brief(`${word} ${step[word].map((each) => expressionText(each)).join(" × ")}`, 120),
    )
    .join(", ");
}

function timeText(time) {
  const digits = time < 10 ? 3 : 0;
  return `${time.toLocaleString("en", { maximumFractionDigits: digits })} ms`;
}
