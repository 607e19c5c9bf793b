// The result of a kernel that is an image: its numbers, and a picture of each layer, which can be saved.

import { IMAGE_FORMATS } from "./devmod-webgpu/formats.js";
import { el, visible } from "./dom.js";
import { numberOf } from "./fills.js";
import { factsOf, MOST_PIXELS, MOST_SIDE } from "./results.js";

let pictures = 0;

/** Return the block that shows an image: its numbers, and a picture of a layer. */
export async function imageResult(name, image) {
  const { format, shape, layers, type } = image;
  const { dtype, channels } = IMAGE_FORMATS.get(format);
  let numbers = await image.read();
  if (dtype === "float16") numbers = Float32Array.from(numbers, numbers instanceof Uint16Array ? (bits) => numberOf({ base: dtype }, bits) : undefined);
  const facts = factsOf({ base: "", lanes: channels, stride: channels, opaque: false }, numbers, 16 / channels);
  const size = `${shape.join(" × ")}${layers ? ` in ${layers} layers` : ""}`;
  const title = el("h4", {}, el("code", {}, visible(name)), " ", el("span", { class: "quiet" }, `image ${type} of ${format}, ${size}`));
  const [width, height = 1, depth = layers || 1] = shape;
  if (Math.max(width, height) > MOST_SIDE || width * height > MOST_PIXELS) return el("section", { class: "result" }, title, facts);
  const scale = scaleOf(format, numbers);
  const id = `image-${++pictures}`;
  const layer = el("input", { type: "text", inputMode: "numeric", value: "0", size: 5, "aria-describedby": `${id}-problem` });
  const colours = el("select", {}, [["rgba", "RGBA"], ["rgb", "RGB, opaque"]].map(([value, text]) => el("option", { value }, text)));
  if (channels === 4 && numbers.every((each, at) => at % 4 !== 3 || !each)) colours.value = "rgb"; // else nothing is seen
  const canvas = el("canvas", { role: "img", class: `picture${width < 200 ? " small" : ""}${height === 1 ? " line" : ""}`, width, height });
  const problem = el("p", { class: "problem", role: "alert", id: `${id}-problem` });
  const draw = () => {
    const at = /^\d{1,6}$/.test(layer.value.trim()) ? Number(layer.value) : depth;
    layer.setAttribute("aria-invalid", String(at >= depth));
    problem.textContent = at < depth ? "" : `Expected a number from 0 to ${depth - 1}.`;
    canvas.hidden = at >= depth;
    if (canvas.hidden) return;
    canvas.setAttribute("aria-label", `${visible(name)} as a picture of ${width} × ${height} pixels`);
    const start = at * width * height * channels;
    const pixels = pixelsFrom(numbers.subarray(start, start + width * height * channels), channels, scale, format, colours.value === "rgba");
    canvas.getContext("2d", { willReadFrequently: true }).putImageData(new ImageData(pixels, width, height), 0, 0);
  };
  layer.addEventListener("input", draw);
  colours.addEventListener("change", draw);
  const save = el("button", { class: "plain", type: "button", onclick: () => savePicture(canvas, name) }, "Save as PNG");
  const controls = [
    depth > 1 ? el("label", {}, layers ? "Layer" : "Depth", layer) : null,
    channels === 4 ? el("label", {}, "Colours", colours) : null,
    save,
  ];
  draw();
  const why = scale.usual ? `The numbers are outside of 0 to ${scale.usual}, so they are scaled: ` : "";
  const caption = el("p", { class: "hint" }, `${why}${short(scale.least)} is dark, ${short(scale.most)} is bright.`);
  return el("section", { class: "result" }, title, canvas, caption, problem, el("div", { class: "controls" }, controls), facts);
}

function short(value) {
  return value.toLocaleString("en", Number.isInteger(value) ? {} : { maximumSignificantDigits: 4 });
}

/** Return the numbers that are dark and bright: those of the format for colours and small integers, else those of the image. */
function scaleOf(format, numbers) {
  const { channels, sample } = IMAGE_FORMATS.get(format);
  if (format.endsWith("norm")) {
    const most = { "8u": 255, "8s": 127, "16u": 65535, "16s": 32767 }[/\d+[us]/.exec(format)[0]];
    return { least: format.endsWith("unorm") ? 0 : -most, most, one: most };
  }
  const usual = sample === "float" ? 1 : 255;
  let [least, most] = [Infinity, -Infinity];
  for (let at = 0; at < numbers.length; at++) {
    const value = numbers[at];
    if ((channels === 4 && at % 4 === 3) || !Number.isFinite(value)) continue; // alpha
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return least < 0 || most > usual ? { least, most, one: usual, usual } : { least: 0, most: usual, one: usual };
}

/** Return the pixels of texels: grey for one channel. */
function pixelsFrom(numbers, channels, { least, most, one }, format, hasAlpha) {
  const result = new Uint8ClampedArray((4 * numbers.length) / channels);
  const factor = 255 / (most - least || 1);
  const order = format === "bgra8unorm" ? [2, 1, 0] : [0, 1, 2];
  for (let at = 0, to = 0; at < numbers.length; at += channels, to += 4) {
    for (let colour = 0; colour < 3; colour++) {
      const from = channels === 1 ? 0 : order[colour];
      result[to + colour] = from < channels ? (numbers[at + from] - least) * factor : 0;
    }
    result[to + 3] = channels === 4 && hasAlpha ? (numbers[at + 3] / one) * 255 : 255;
  }
  return result;
}

function savePicture(canvas, name) {
  canvas.toBlob((blob) => {
    const link = el("a", { href: URL.createObjectURL(blob), download: `${name.replace(/[^\w-]+/g, "_") || "image"}.png` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may still read it
  });
}
