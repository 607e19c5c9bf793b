// The results of a call: the first elements, minimum, maximum and mean of an array or an image, and pictures of it, which can be saved.

import { IMAGE_FORMATS } from "./devmod-webgpu/formats.js";
import { button, el, visible } from "./dom.js";
import { selection } from "./fields.js";
import { numberOf } from "./fills.js";

const SHOWN = 16;
/** The most pixels of a picture in each direction and in all. */
const MOST_SIDE = 8192;
const MOST_PIXELS = 2 ** 24;
const PICTURES = {
  uint32: { rgba: "packed RGBA", grey: "grey" },
  float32: { grey: "grey" },
  int32: { grey: "grey" },
};
let pictures = 0;

/** Return the block that shows an image; or an array: its element, its data, and its shape, which has one number, or rows and columns. */
export async function resultOf(name, type, value) {
  const titled = (text) =>
    el("h4", {}, el("code", {}, visible(name)), " ", el("span", { class: "quiet" }, text));
  if (!value.element) return imageResult(name, value, titled);
  const { element, data, shape } = value;
  const kinds = element.lanes === 1 && !element.opaque && PICTURES[element.base];
  const picture =
    kinds && data.length / element.stride > 1 ? picturePart(name, kinds, data, shape) : null;
  return el(
    "section",
    { class: "result" },
    titled(`${visible(type)}, ${shape.join(" × ")}`),
    factsOf(element, data, SHOWN),
    picture,
  );
}

/** Return the list of facts: the first elements, and the statistics. */
function factsOf(element, data, shown) {
  const facts = el("dl", { class: "facts" });
  const fact = (term, value) =>
    facts.append(el("dt", {}, term), el("dd", { class: "mono" }, value));
  fact("First", firstOf(element, data, data.length / element.stride, shown));
  if (!element.opaque) for (const [term, value] of statistics(element, data)) fact(term, value);
  return facts;
}

function firstOf(element, data, count, shown) {
  const { lanes, stride, opaque } = element;
  if (opaque) {
    const bytes = [...data.subarray(0, 4 * SHOWN)].map((each) =>
      each.toString(16).padStart(2, "0"),
    );
    return `${bytes.join(" ")}${data.length > 4 * SHOWN ? " …" : ""}`;
  }
  const items = [];
  for (let at = 0; at < Math.min(count, shown); at++) {
    const numbers = [...data.subarray(at * stride, at * stride + lanes)].map((lane) =>
      short(numberOf(element, lane)),
    );
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
  if (seen)
    yield* [
      ["Minimum", short(least)],
      ["Maximum", short(most)],
      ["Mean", short(sum / seen)],
    ];
  if (none) yield ["NaN", `${none.toLocaleString("en")} of ${(none + seen).toLocaleString("en")}`];
}

function short(value) {
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
}

// -- pictures

/**
 * Return a canvas, its problem, what draws it and what makes an input for a number. `read` returns the pixels of the picture with its width
 * and height, or a text if an input is wrong.
 */
function pictureOf(name, read) {
  const id = `picture-${++pictures}-problem`;
  const canvas = el("canvas", { role: "img", class: "picture" });
  const problem = el("p", { class: "problem", role: "alert", id });
  const draw = () => {
    const { wrong = "", pixels, width, height } = read();
    problem.textContent = wrong;
    canvas.hidden = wrong !== "";
    if (wrong) return;
    Object.assign(canvas, { width, height });
    const label = `${visible(name)} as a picture of ${width} × ${height} pixels`;
    canvas.setAttribute("aria-label", label);
    canvas.classList.toggle("small", width < 200);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.putImageData(new ImageData(pixels, width, height), 0, 0);
  };
  const number = (value) =>
    el("input", {
      type: "text",
      inputMode: "numeric",
      value: String(value),
      size: 5,
      "aria-describedby": id,
      oninput: draw,
    });
  return { canvas, problem, draw, number };
}

/** Return the whole number in an input; NaN, and mark the input, if it is not from `least` to `most`. */
function wholeIn(input, least, most) {
  const value = /^\d{1,6}$/.test(input.value.trim()) ? Number(input.value) : NaN;
  const isValid = value >= least && value <= most;
  input.setAttribute("aria-invalid", String(!isValid));
  return isValid ? value : NaN;
}

/** Return the controls and the canvas of a picture of an array. It is open if the array has two dimensions. */
function picturePart(name, kinds, data, shape) {
  const { canvas, problem, draw, number } = pictureOf(name, () => {
    const across = wholeIn(columns, 1, MOST_SIDE);
    const down = wholeIn(rows, 1, MOST_SIDE);
    if (!(across * down <= MOST_PIXELS))
      return {
        wrong: `Width and height are whole numbers from 1 to ${MOST_SIDE}, and ${MOST_PIXELS.toLocaleString("en")} pixels at most.`,
      };
    if (across * down > data.length)
      return {
        wrong: `${across} × ${down} pixels are ${across * down}; the array has ${data.length} elements.`,
      };
    const numbers = data.subarray(0, across * down);
    const pixels =
      kind.value === "rgba"
        ? new Uint8ClampedArray(numbers.slice().buffer)
        : pixelsOf(numbers, 1, rangeOf(numbers, 1), "", false);
    return { pixels, width: across, height: down };
  });
  const side = Math.floor(Math.sqrt(data.length));
  const [rows, columns] = (shape.length === 2 ? shape : [side, side]).map(number);
  const kind = selection(kinds);
  kind.addEventListener("change", draw);
  const controls = el(
    "div",
    { class: "controls" },
    el("label", {}, "Width", columns),
    el("label", {}, "Height", rows),
    el("label", {}, "Colours", kind),
  );
  const part = el(
    "details",
    { open: shape.length === 2 },
    el("summary", {}, "Picture"),
    controls,
    problem,
    canvas,
  );
  part.addEventListener("toggle", () => part.open && draw());
  return part;
}

/** Return the block that shows an image: its numbers, and a picture of a layer. */
async function imageResult(name, image, titled) {
  const { format, shape, layers, type } = image;
  const { dtype, channels } = IMAGE_FORMATS.get(format);
  let numbers = await image.read();
  if (dtype === "float16")
    numbers = Float32Array.from(
      numbers,
      numbers instanceof Uint16Array ? (bits) => numberOf({ base: dtype }, bits) : undefined,
    );
  const facts = factsOf(
    { base: "", lanes: channels, stride: channels, opaque: false },
    numbers,
    SHOWN / channels,
  );
  const title = titled(
    `image ${type} of ${format}, ${shape.join(" × ")}${layers ? ` in ${layers} layers` : ""}`,
  );
  const [width, height = 1, depth = layers || 1] = shape;
  if (Math.max(width, height) > MOST_SIDE || width * height > MOST_PIXELS)
    return el("section", { class: "result" }, title, facts);
  const scale = scaleOf(format, numbers);
  const { canvas, problem, draw, number } = pictureOf(name, () => {
    const at = wholeIn(layer, 0, depth - 1);
    if (Number.isNaN(at)) return { wrong: `Expected a number from 0 to ${depth - 1}.` };
    const count = width * height * channels;
    const shown = numbers.subarray(at * count, (at + 1) * count);
    const hasAlpha = colours.value === "rgba";
    return { pixels: pixelsOf(shown, channels, scale, format, hasAlpha), width, height };
  });
  canvas.classList.toggle("line", height === 1);
  const layer = number(0);
  const colours = selection({ rgba: "RGBA", rgb: "RGB, opaque" });
  if (channels === 4 && numbers.every((each, at) => at % 4 !== 3 || !each)) colours.value = "rgb"; // else nothing is seen
  colours.addEventListener("change", draw);
  const controls = [
    depth > 1 ? el("label", {}, layers ? "Layer" : "Depth", layer) : null,
    channels === 4 ? el("label", {}, "Colours", colours) : null,
    button("Save as PNG", () => savePicture(canvas, name)),
  ];
  draw();
  const why = scale.usual
    ? `The numbers are outside of 0 to ${scale.usual}, so they are scaled: `
    : "";
  const [dark, bright] = [scale.least, scale.most].map((value) =>
    value.toLocaleString("en", Number.isInteger(value) ? {} : { maximumSignificantDigits: 4 }),
  );
  const caption = el("p", { class: "hint" }, `${why}${dark} is dark, ${bright} is bright.`);
  return el(
    "section",
    { class: "result" },
    title,
    canvas,
    caption,
    problem,
    el("div", { class: "controls" }, controls),
    facts,
  );
}

/** Return the least and the greatest finite number, without alpha. */
function rangeOf(numbers, channels) {
  let [least, most] = [Infinity, -Infinity];
  for (let at = 0; at < numbers.length; at++) {
    const value = numbers[at];
    if ((channels === 4 && at % 4 === 3) || !Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return { least, most };
}

/** Return the numbers that are dark and bright: those of the format for colours and small integers, else those of the image. */
function scaleOf(format, numbers) {
  const { channels, sample } = IMAGE_FORMATS.get(format);
  if (format.endsWith("norm")) {
    const most = { "8u": 255, "8s": 127, "16u": 65535, "16s": 32767 }[/\d+[us]/.exec(format)[0]];
    return { least: format.endsWith("unorm") ? 0 : -most, most, one: most };
  }
  const usual = sample === "float" ? 1 : 255;
  const { least, most } = rangeOf(numbers, channels);
  return least < 0 || most > usual
    ? { least, most, one: usual, usual }
    : { least: 0, most: usual, one: usual };
}

/** Return the pixels of texels: grey for one channel. */
function pixelsOf(numbers, channels, { least, most, one }, format, hasAlpha) {
  const result = new Uint8ClampedArray((4 * numbers.length) / channels);
  const factor = most > least ? 255 / (most - least) : 0;
  const order = format === "bgra8unorm" ? [2, 1, 0] : [0, 1, 2];
  for (let at = 0, to = 0; at < numbers.length; at += channels, to += 4) {
    for (let colour = 0; colour < 3; colour++) {
      const from = channels === 1 ? 0 : order[colour];
      result[to + colour] =
        from >= channels || Number.isNaN(numbers[at + from])
          ? 0
          : factor
            ? (numbers[at + from] - least) * factor
            : 128;
    }
    result[to + 3] = channels === 4 && hasAlpha ? (numbers[at + 3] / one) * 255 : 255;
  }
  return result;
}

function savePicture(canvas, name) {
  canvas.toBlob((blob) => {
    const link = el("a", {
      href: URL.createObjectURL(blob),
      download: `${name.replace(/[^\w-]+/g, "_") || "image"}.png`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may still read it
  });
}
