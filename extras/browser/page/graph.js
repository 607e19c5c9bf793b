// The graph of a program: the arrays of a call, its steps, and which step uses what another one has written.

import { expressionText } from "./devmod-webgpu/expressions.js";
import { isArray, nameOf } from "./devmod-webgpu/programs.js";
import { brief } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
/** The width and the height of a box, and the room between boxes, in pixels. */
const WIDTH = 168;
const HEIGHT = 58;
const GAP = 22;
/** The most arrays of a call, and the most of a step. */
const MOST_GIVEN = 60;
const MOST_ARRAYS = 300;
/** What a box has of a name. */
const LETTERS = 22;

/**
 * Return the names of the arguments that each kernel may write, by the kernel's name, from the modules that a program imports.
 */
export async function writtenBy(module) {
  const result = new Map();
  const waiting = [...module.imports];
  while (waiting.length) {
    const each = waiting.shift();
    waiting.push(...each.imports);
    if (each.kind === "const_loader" || each.kind === "program") continue;
    for (const [name, info] of await each.functions()) {
      if (result.has(name) || !info.interface) continue;
      const written = info.interface.params.filter(({ access }) => access?.includes("w"));
      result.set(name, new Set(written.map((param) => param.name)));
    }
  }
  return result;
}

/**
 * Return the picture of a program's first steps, and a function that shows the milliseconds of each. `written` is of `writtenBy`.
 */
export function stepGraph(program, written, most) {
  const steps = program.steps.slice(0, most);
  const around = program.repeatsOfSteps();
  const boxes = [];
  /** The box that has written an array last, by its name. */
  const last = new Map();
  const arrays = [...program.declared.values()].filter(isArray);
  for (const each of arrays
    .filter(({ role }) => ["input", "update"].includes(role))
    .slice(0, MOST_GIVEN)) {
    const box = { lines: [each.name, shapeText(each)], kind: "given", from: [] };
    last.set(each.name, box);
    boxes.push(box);
  }
  const times = steps.map((step, number) => {
    const own = [...step.args]
      .filter(([, value]) => isArray(program.declared.get(nameOf(value))))
      .slice(0, MOST_ARRAYS);
    const targets = own.filter(([argument]) => written.get(step.kernel)?.has(argument));
    const from = new Set(own.map(([, value]) => last.get(nameOf(value))).filter(Boolean));
    const names = targets.map(([, value]) => nameOf(value));
    const repeats = around[number] ?? [];
    const box = {
      lines: [
        `${number + 1} ${shortName(step.kernel, program.name)}`,
        names.map((name) => shapeText(program.declared.get(name), true)).join(", "),
        "",
      ],
      title: repeats
        .map(({ name, count }) => `for ${name} in range(${expressionText(count)})`)
        .join(", "),
      kind: repeats.length ? "repeated" : "launch-of",
      from: [...from],
    };
    for (const name of names) last.set(name, box);
    boxes.push(box);
    return box;
  });
  const made = arrays.filter(({ name, role }) => role === "output" && last.has(name));
  for (const each of made.slice(0, MOST_GIVEN))
    boxes.push({ lines: [each.name, shapeText(each)], kind: "given", from: [last.get(each.name)] });

  const { width, height } = place(boxes);
  const lines = boxes.flatMap((box) => box.from.map((each) => edge(each, box)));
  const label = `The graph of ${steps.length === 1 ? "1 step" : `${steps.length} steps`}`;
  const picture = svg(
    "svg",
    {
      class: "graph",
      role: "img",
      "aria-label": label,
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
    },
    ...lines,
    ...boxes.map(boxOf),
  );
  const showTimes = (texts, longest) => {
    times.forEach((box, number) => {
      box.texts[2].textContent = texts[number] ?? "";
      box.element.classList.toggle("most", number === longest);
    });
  };
  return { element: picture, showTimes };
}

/** Give each box its place: below all from which it gets arrays. Return the size of the picture. */
function place(boxes) {
  const columns = [];
  for (const box of boxes) {
    box.level = Math.max(-1, ...box.from.map(({ level }) => level)) + 1;
    box.column = columns[box.level] ?? 0;
    columns[box.level] = box.column + 1;
  }
  const most = Math.max(1, ...columns);
  for (const box of boxes) {
    const indent = ((most - columns[box.level]) * (WIDTH + GAP)) / 2;
    box.x = indent + box.column * (WIDTH + GAP) + 1;
    box.y = box.level * (HEIGHT + GAP) + 1;
  }
  return {
    width: most * (WIDTH + GAP) - GAP + 2,
    height: columns.length * (HEIGHT + GAP) - GAP + 2,
  };
}

function edge(one, two) {
  const x = one.x + WIDTH / 2;
  const y = one.y + HEIGHT;
  const end = two.x + WIDTH / 2;
  const middle = (y + two.y) / 2;
  return svg("path", { d: `M ${x} ${y} C ${x} ${middle} ${end} ${middle} ${end} ${two.y}` });
}

function boxOf(box) {
  const { x, y, lines, kind } = box;
  box.texts = lines.map((line, number) => {
    const text = svg("text", {
      x: x + 8,
      y: y + 17 + number * 16,
      class: number ? "quiet" : "name",
    });
    text.textContent = brief(line, LETTERS).replace(/… \(.*$/, "…");
    return text;
  });
  const title = svg("title", {});
  title.textContent = [...lines, box.title]
    .filter(Boolean)
    .map((line) => brief(line))
    .join("\n");
  const frame = svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: kind === "given" ? 20 : 6 });
  box.element = svg("g", { class: kind }, title, frame, ...box.texts);
  return box.element;
}

/** Return the name of a kernel without that of its program, by which all begin in a program of a model. */
function shortName(kernel, program) {
  return kernel.startsWith(`${program}_`) ? kernel.slice(program.length + 1) : kernel;
}

/** Return the type and the shape of an array. Of what a step writes, all but temporaries have their names too. */
function shapeText(array, hasName = false) {
  const shape = array.shape.map((each) => expressionText(each)).join(", ");
  const text = `${array.format || array.type}[${shape}]`;
  return hasName && array.role !== "temporary" ? `${array.name} ${text}` : text;
}

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
