// The Gaussian blur on a canvas: two launches, rows and columns, between them the picture in floats on the device.

import { el } from "./dom.js";
import { newest } from "./runs.js";

/** A picture is scaled down to this many pixels a side: the blur is of the order of a frame then. */
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
  let picture = null;
  let name = "the picture of a lake";
  let between = null;

  const draw = newest(async () => {
    if (!picture) return; // it is still on its way
    const { width, height } = picture;
    if (original.checked) context.putImageData(picture, 0, 0);
    else {
      const reach = Number(radius.value);
      const weights = gauss(reach);
      const pixels = new Uint32Array(picture.data.buffer);
      const blurred = new Uint32Array(width * height);
      const grid = [Math.ceil(width / 16), Math.ceil(height / 16)];
      const begun = performance.now();
      await blur_rows.run([pixels, between, weights, reach, width, height], { grid });
      await blur_columns.run([between, blurred, weights, reach, width, height], { grid });
      const taken = performance.now() - begun;
      context.putImageData(new ImageData(new Uint8ClampedArray(blurred.buffer), width, height), 0, 0);
      time.textContent = `${taken.toFixed(0)} ms with WebGPU, copies included, for ${width} × ${height} pixels.`;
    }
    const how = original.checked || radius.value === "0" ? "as it is" : `blurred with a radius of ${radius.value} pixels`;
    canvas.setAttribute("aria-label", `${name}, ${how}`);
    canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
  }, failed);

  const take = async (bitmap) => {
    const scale = Math.min(1, LARGEST / Math.max(bitmap.width, bitmap.height));
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    context.fillStyle = "#fff"; // the blur knows no transparency
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    picture = context.getImageData(0, 0, canvas.width, canvas.height);
    between?.destroy();
    between = device.createBuffer({ size: 16 * canvas.width * canvas.height, usage: BUFFER });
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
      name = file.name;
      await take(bitmap);
    } catch (error) {
      failed(new Error(`${file.name} is no picture that this browser reads: ${error.message}`));
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
  await take(await createImageBitmap(await answer.blob(), { colorSpaceConversion: "none" }));
}

/** The 2 · radius + 1 weights of a Gaussian, which sum to one; at 9 those of the demo. */
function gauss(radius) {
  const sigma = Math.max((radius * 3.5) / 9, 1e-3);
  const weights = Float32Array.from({ length: 2 * radius + 1 }, (_, at) => Math.exp(-((at - radius) ** 2) / (2 * sigma * sigma)));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}
