// The result of a kernel: the first elements, minimum, maximum and mean of an array, and a picture of it.

import { el, visible } from "./dom.js";
import { numberOf } from "./fills.js";

const SHOWN = 16;
/** The most pixels of a picture in each direction and in all. */
export const MOST_SIDE = 8192;
export const MOST_PIXELS = 2 ** 24;
const PICTURES = { uint32: { rgba: "packed RGBA", grey: "grey" }, float32: { grey: "grey" }, int32: { grey: "grey" } };

/** Return the block that shows one array. `shape` has one number, or rows and columns. */
export function resultOf(name, type, element, data, shape) {
  const count = data.length / element.stride;
  const title = el("h4", {}, el("code", {}, visible(name)), " ", el("span", { class: "quiet" }, `${type}, ${shape.join(" × ")}`));
  const kinds = element.lanes === 1 && !element.opaque && PICTURES[element.base];
  return el("section", { class: "result" }, title, factsOf(element, data), kinds && count > 1 ? picturePart(name, kinds, data, shape) : null);
}

/** Return the list of facts: the first elements, and the statistics. */
export function factsOf(element, data, shown = SHOWN) {
  const facts = el("dl", { class: "facts" });
  const fact = (term, value) => facts.append(el("dt", {}, term), el("dd", { class: "mono" }, value));
  fact("First", firstOf(element, data, data.length / element.stride, shown));
  if (!element.opaque) for (const [term, value] of statistics(element, data)) fact(term, value);
  return facts;
}

function firstOf(element, data, count, shown) {
  const { lanes, stride, opaque } = element;
  if (opaque) {
    const bytes = [...data.subarray(0, 4 * SHOWN)].map((each) => each.toString(16).padStart(2, "0"));
    return `${bytes.join(" ")}${data.length > 4 * SHOWN ? " …" : ""}`;
  }
  const items = [];
  for (let at = 0; at < Math.min(count, shown); at++) {
    const numbers = [...data.subarray(at * stride, at * stride + lanes)].map((lane) => short(numberOf(element, lane)));
    items.push(lanes > 1 ? `(${numbers.join(", ")})` : numbers[0]);
  }
  return `${items.join(", ")}${count > shown ? ", …" : ""}`;
}

/** Yield the minimum, maximum and mean of the numbers, and how many are no number. */
function* statistics(element, data) {
  const { lanes, stride } = element;
  let [least, most, sum, seen, none] = [Infinity, -Infinity, 0, 0, 0];
  for (let at = 0; at < data.length; at++) {
    if (at % stride >= lanes) continue;
    const value = numberOf(element, data[at]);
    if (Number.isNaN(value)) {
      none++;
      continue;
    }
    if (value < least) least = value;
    if (value > most) most = value;
    sum += value;
    seen++;
  }
  if (seen) yield* [["Minimum", short(least)], ["Maximum", short(most)], ["Mean", short(sum / seen)]];
  if (none) yield ["NaN", `${none.toLocaleString("en")} of ${(none + seen).toLocaleString("en")}`];
}

function short(value) {
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
}

let pictures = 0;

/** Return the controls and the canvas of a picture. It is open if the array has two dimensions. */
function picturePart(name, kinds, data, shape) {
  const id = `picture-${++pictures}`;
  const square = Math.floor(Math.sqrt(data.length));
  const [rows, columns] = shape.length === 2 ? shape : [square, square];
  const number = (value) => el("input", { type: "text", inputMode: "numeric", value: String(value), size: 5, "aria-describedby": `${id}-problem` });
  const width = number(columns);
  const height = number(rows);
  const kind = el("select", {}, Object.entries(kinds).map(([value, text]) => el("option", { value }, text)));
  const canvas = el("canvas", { role: "img", class: "picture" });
  const problem = el("p", { class: "problem", role: "alert", id: `${id}-problem` });
  const draw = () => {
    problem.textContent = "";
    const [across, down] = [width, height].map((input) => (/^\d{1,6}$/.test(input.value.trim()) ? Number(input.value) : 0));
    for (const [input, value] of [[width, across], [height, down]]) input.setAttribute("aria-invalid", String(value < 1 || value > MOST_SIDE));
    if (!across || !down || Math.max(across, down) > MOST_SIDE || across * down > MOST_PIXELS) {
      problem.textContent = `Width and height are whole numbers from 1 to ${MOST_SIDE}, and ${MOST_PIXELS.toLocaleString("en")} pixels at most.`;
    } else if (across * down > data.length) {
      problem.textContent = `${across} × ${down} pixels are ${across * down}; the array has ${data.length} elements.`;
    }
    canvas.hidden = problem.textContent !== "";
    if (canvas.hidden) return;
    canvas.width = across;
    canvas.height = down;
    canvas.setAttribute("aria-label", `${visible(name)} as a picture of ${across} × ${down} pixels`);
    canvas.classList.toggle("small", across < 200);
    canvas.getContext("2d", { willReadFrequently: true }).putImageData(new ImageData(colours(kind.value, data.subarray(0, across * down)), across, down), 0, 0);
  };
  for (const input of [width, height]) input.addEventListener("input", draw);
  kind.addEventListener("change", draw);
  const controls = el("div", { class: "controls" }, el("label", {}, "Width", width), el("label", {}, "Height", height), el("label", {}, "Colours", kind));
  const part = el("details", { open: shape.length === 2 }, el("summary", {}, "Picture"), controls, problem, canvas);
  part.addEventListener("toggle", () => part.open && draw());
  return part;
}

/** Return the pixels of numbers: packed RGBA as it is, or grey from the least to the greatest number. */
function colours(kind, data) {
  if (kind === "rgba") return new Uint8ClampedArray(data.slice().buffer);
  let [least, most] = [Infinity, -Infinity];
  for (const value of data) {
    if (Number.isFinite(value) && value < least) least = value;
    if (Number.isFinite(value) && value > most) most = value;
  }
  const scale = most > least ? 255 / (most - least) : 0;
  const result = new Uint8ClampedArray(4 * data.length);
  data.forEach((value, at) => {
    const grey = Number.isNaN(value) ? 0 : scale ? (value - least) * scale : 128;
    result.fill(grey, 4 * at, 4 * at + 3);
    result[4 * at + 3] = 255;
  });
  return result;
}
