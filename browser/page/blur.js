// The Gaussian blur on a canvas: two launches, for rows and for columns. The intermediate picture stays on the device in floats.

import { el } from "./dom.js";
import { newest } from "./gpu.js";

/** Larger pictures are scaled down to this many pixels a side, so that the blur takes about one frame. */
const LARGEST = 1600;
const BUFFER = 0x80 | 0x04 | 0x08; // STORAGE, COPY_SRC, COPY_DST

export async function blurPanel(panel, { blur_rows, blur_columns }, failed, alert) {
  const { device } = blur_rows;
  const canvas = el("canvas", { role: "img", id: "blur" });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const radius = el("input", { type: "range", min: 0, max: 40, step: 1, value: "9", id: "blur-radius" });
  const shown = el("output", { htmlFor: "blur-radius" }, "9");
  const original = el("input", { type: "checkbox", id: "blur-original" });
  const choose = el("input", { type: "file", accept: "image/*", id: "blur-choose" });
  const time = el("p", { class: "quiet", role: "status", id: "blur-time" });
  /** The picture: its name, its pixels, and the device buffer between the two launches. */
  let scene = null;
  let used = null;

  const draw = newest(async () => {
    const mine = scene;
    if (!mine) return; // the picture is still loading
    if (used !== mine) used?.between.destroy(); // no launch is pending here
    used = mine;
    const { picture, between } = mine;
    const { width, height } = picture;
    const reach = Number(radius.value);
    const plain = original.checked;
    if (plain) context.putImageData(picture, 0, 0);
    else {
      const weights = gauss(reach);
      const pixels = new Uint32Array(picture.data.buffer);
      const blurred = new Uint32Array(width * height);
      const all = { weights, radius: reach, width, height };
      const threads = [width, height];
      const start = performance.now();
      await blur_rows.run({ picture: pixels, between, ...all }, { threads });
      await blur_columns.run({ between, blurred, ...all }, { threads });
      const duration = performance.now() - start;
      if (mine !== scene) return; // a newer picture is drawn next
      context.putImageData(new ImageData(new Uint8ClampedArray(blurred.buffer), width, height), 0, 0);
      time.textContent = `${duration.toFixed(0)} ms with WebGPU, copies included, for ${width} × ${height} pixels.`;
    }
    const description = plain || reach === 0 ? "unchanged" : `blurred with a radius of ${reach} pixels`;
    canvas.setAttribute("aria-label", `${mine.name}, ${description}`);
    canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
  }, failed);

  const take = async (bitmap, name) => {
    const scale = Math.min(1, LARGEST / Math.max(bitmap.width, bitmap.height));
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    context.fillStyle = "#fff"; // the blur does not support transparency
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    scene = {
      name,
      picture: context.getImageData(0, 0, canvas.width, canvas.height),
      between: device.createBuffer({ size: 16 * canvas.width * canvas.height, usage: BUFFER }),
    };
    await draw();
  };
  radius.addEventListener("input", () => {
    shown.textContent = radius.value;
    original.checked = false;
    draw();
  });
  original.addEventListener("change", draw);
  choose.addEventListener("change", async () => {
    const [file] = choose.files;
    if (!file) return;
    try {
      alert.replaceChildren();
      const bitmap = await createImageBitmap(file);
      await take(bitmap, file.name);
    } catch (error) {
      failed(new Error(`this browser cannot decode ${file.name} as a picture: ${error.message}`));
    }
    choose.value = "";
  });
  panel.append(
    el("h2", {}, "blur_rows and blur_columns"),
    canvas,
    el(
      "div",
      { class: "controls" },
      el("label", { class: "grow" }, "Radius", radius, shown),
      el("label", {}, original, "Original"),
      el("label", { class: "button" }, choose, "Another picture…"),
    ),
    time,
    alert,
  );
  const answer = await fetch("lake.png");
  if (!answer.ok) throw new Error(`the example picture cannot be fetched: ${answer.status}`);
  await take(await createImageBitmap(await answer.blob(), { colorSpaceConversion: "none" }), "the picture of a lake");
}

/** Return the 2 · radius + 1 weights of a Gaussian with sum one. A radius of 9 gives the weights of the demo. */
function gauss(radius) {
  const sigma = Math.max((radius * 3.5) / 9, 1e-3);
  const weights = Float32Array.from({ length: 2 * radius + 1 }, (_, at) => Math.exp(-((at - radius) ** 2) / (2 * sigma * sigma)));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}
