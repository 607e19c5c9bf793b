// The page docs/browser.md: a classifier of drawn digits, and a program that improves a photo.

/** The bytes that each part fetches. `make docs` writes them. */
const BYTES = { package: 0, digits: 0, pictures: 0, lake: 0 };
/** What the address of each `.devmod` file ends with, as `devmod pin` prints it. `make docs` writes them. */
const PINS = { digits: "", pictures: "" };
const at = (id) => document.getElementById(id);
const file = (name) => new URL(`try/${name}`, import.meta.url).href;

/** Create an element with properties and children. */
function el(name, properties = {}, ...children) {
  const { role, label, live, ...others } = properties;
  const element = Object.assign(document.createElement(name), others);
  if (role) element.setAttribute("role", role);
  if (label) element.setAttribute("aria-label", label);
  if (live) element.setAttribute("aria-live", live);
  element.append(...children);
  return element;
}

const say = (text) => (at("try-problem").textContent = text);
const size = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;

/** Show a button that names what it fetches. It then makes place for what `start` returns. */
function offer(place, what, bytes, start) {
  const button = el("button", { type: "button" }, `${what} (fetches up to ${size(bytes + BYTES.package)})`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.textContent = "Loading…";
    try {
      const kit = await import("./devmod-webgpu/index.js");
      const shown = await start(kit);
      place.replaceChildren(...shown);
      place.querySelector("canvas, input")?.focus();
      at("try-recorded").hidden = true;
    } catch (error) {
      button.textContent = "It cannot run here";
      say(error.message);
    }
  });
  place.append(button);
}

// -- the digits

const SIDE = 280, CELLS = 8;

async function digits({ open }) {
  const classify = await (await open(file("digits.devmod") + PINS.digits)).getFunction("classify");
  const hint = "Draw with the mouse or a finger. By keyboard: the arrows move, Space paints, Delete clears.";
  const canvas = el("canvas", { width: SIDE, height: SIDE, tabIndex: 0, role: "application", label: `A field for a digit. ${hint}` });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  Object.assign(context, { lineWidth: 26, lineCap: "round", lineJoin: "round", strokeStyle: "#0f9488", fillStyle: "#0f9488" });
  const bars = Array.from({ length: 10 }, () => el("meter", { min: 0, max: 1, value: 0 }));
  bars.forEach((each, digit) => each.setAttribute("aria-label", `digit ${digit}`));
  const text = el("p", { role: "status", live: "polite" }, hint);
  const cursor = el("span", { className: "cursor", hidden: true });
  let [busy, again, cell] = [false, false, [3, 3]];

  const read = async () => {
    again = busy;
    if (busy) return;
    text.ariaBusy = busy = true;
    const pixels = levels(context);
    if (pixels) {
      const start = performance.now();
      const { digit, score } = await classify(pixels);
      score.forEach((value, number) => (bars[number].value = value));
      text.textContent = `It reads ${digit[0]} (${Math.round(100 * score[digit[0]])}%), in ${(performance.now() - start).toFixed(0)} ms.`;
    }
    text.ariaBusy = busy = false;
    if (again) await read();
  };
  const failed = (error) => say(error.message);
  const clear = () => {
    context.clearRect(0, 0, SIDE, SIDE);
    for (const each of bars) each.value = 0;
    text.textContent = hint;
  };
  const place = ({ offsetX, offsetY }) => [offsetX, offsetY].map((each) => (each * SIDE) / canvas.clientWidth);
  let last = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = place(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    context.beginPath();
    context.moveTo(...last);
    context.lineTo(...(last = place(event)));
    context.stroke();
    read().catch(failed);
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (last = null));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], " ": [0, 0] }[event.key];
    if (event.key === "Delete" || event.key === "Backspace") clear();
    if (!step) return;
    event.preventDefault();
    cell = cell.map((each, axis) => Math.min(CELLS - 1, Math.max(0, each + step[axis])));
    const unit = SIDE / CELLS;
    cursor.hidden = false;
    Object.assign(cursor.style, { left: `${(100 * cell[0]) / CELLS}%`, top: `${(100 * cell[1]) / CELLS}%` });
    if (event.key !== " ") return;
    context.fillRect(cell[0] * unit, cell[1] * unit, unit, unit);
    read().catch(failed);
  });
  const button = el("button", { type: "button", onclick: clear }, "Clear");
  const rows = bars.map((each, digit) => el("li", {}, el("span", {}, String(digit)), each));
  return [el("div", { className: "pad" }, canvas, cursor), el("div", {}, el("ul", { className: "bars" }, ...rows), text, button)];
}

/** Return the drawing as 8 × 8 levels from 0 to 16, as high as the field and in its middle; null without one. */
function levels(context) {
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  let [left, right, top, bottom] = [SIDE, -1, SIDE, -1];
  for (let number = 0; number < SIDE * SIDE; number++) {
    if (!data[4 * number + 3]) continue;
    const [x, y] = [number % SIDE, Math.floor(number / SIDE)];
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  if (right < 0) return null;
  const [width, height] = [right - left + 1, bottom - top + 1];
  const scale = (4 * CELLS) / Math.max(width, height);
  const small = new OffscreenCanvas(4 * CELLS, 4 * CELLS).getContext("2d", { willReadFrequently: true });
  small.drawImage(context.canvas, left, top, width, height, (4 * CELLS - width * scale) / 2, (4 * CELLS - height * scale) / 2, width * scale, height * scale);
  const ink = small.getImageData(0, 0, 4 * CELLS, 4 * CELLS).data;
  const sums = new Float32Array(CELLS * CELLS);
  for (let number = 0; number < 16 * CELLS * CELLS; number++) {
    sums[Math.floor(number / (16 * CELLS)) * CELLS + Math.floor((number % (4 * CELLS)) / 4)] += ink[4 * number + 3] / 255;
  }
  return Uint8Array.from(sums, Math.round);
}

// -- the photo

const MOST = 512;

async function photo({ open }) {
  const enhance = await (await open(file("pictures.devmod") + PINS.pictures)).getFunction("enhance");
  const [before, after] = ["before", "after"].map((label) => el("canvas", { width: 1, height: 1, role: "img", label: `the photo ${label}` }));
  const status = el("p", { role: "status", live: "polite" }, "Choose a photo, or drop one here.");
  const show = async (blob) => {
    const bitmap = await createImageBitmap(blob);
    const scale = Math.min(1, MOST / Math.max(bitmap.width, bitmap.height));
    const [width, height] = [bitmap.width, bitmap.height].map((each) => Math.max(1, Math.round(each * scale)));
    for (const canvas of [before, after]) Object.assign(canvas, { width, height });
    const context = before.getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0, width, height);
    const start = performance.now();
    const { result } = await enhance({ picture: context.getImageData(0, 0, width, height), width, height });
    after.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(result.buffer), width, height), 0, 0);
    status.textContent = `${width} × ${height} pixels in ${(performance.now() - start).toFixed(0)} ms.`;
  };
  const shown = (blob) => show(blob).catch((error) => say(error.message));
  const input = el("input", { type: "file", accept: "image/*", label: "A photo" });
  input.addEventListener("change", () => input.files[0] && shown(input.files[0]));
  const lake = el("button", { type: "button" }, `Use a lake (fetches ${size(BYTES.lake)})`);
  lake.addEventListener("click", async () => shown(await (await fetch(file("lake.png"))).blob()));
  const place = at("try-photo");
  place.addEventListener("dragover", (event) => event.preventDefault());
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) shown(event.dataTransfer.files[0]);
  });
  return [el("div", { className: "controls" }, input, lake, status), el("div", { className: "pair" }, before, after)];
}

if (!navigator.gpu || !(await navigator.gpu.requestAdapter().catch(() => null))) {
  say("This browser has no WebGPU here, so that nothing can run: the picture shows a recorded run. Chrome and Edge 113, Safari 26 and Firefox 141 have it, on pages served over https or from localhost.");
} else {
  offer(at("try-digits"), "Load the classifier", BYTES.digits, digits);
  offer(at("try-photo"), "Load the program", BYTES.pictures, photo);
}
