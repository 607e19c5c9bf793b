// The Mandelbrot kernel on a canvas, with zoom by clicks, the wheel, buttons and keys.

import { el } from "./dom.js";
import { newest } from "./gpu.js";

const WIDTH = 720;
const HEIGHT = 480;
const START = { left: -2.25, top: 1.15, pixel: 0.0048 };
/** At smaller sizes, neighbouring pixels have the same float32 coordinates. */
const FINEST = 3e-7;

export async function mandelbrotPanel(panel, { mandelbrot }, failed, alert) {
  const canvas = el("canvas", { width: WIDTH, height: HEIGHT, tabIndex: 0, role: "img", id: "mandelbrot", "aria-describedby": "mandelbrot-help" });
  const steps = el("input", { type: "range", min: 50, max: 2000, step: 50, value: "300", id: "mandelbrot-steps" });
  const shown = el("output", { htmlFor: "mandelbrot-steps" }, "300");
  const time = el("p", { class: "quiet", role: "status", id: "mandelbrot-time" });
  const view = { ...START };
  const escape = new Float32Array(WIDTH * HEIGHT);
  const context = canvas.getContext("2d");
  const picture = context.createImageData(WIDTH, HEIGHT);

  const draw = newest(async () => {
    const { left, top, pixel } = view;
    const count = Number(steps.value);
    const start = performance.now();
    await mandelbrot.run({ escape, width: WIDTH, height: HEIGHT, left, top, pixel, steps: count }, { threads: [WIDTH, HEIGHT] });
    const duration = performance.now() - start;
    colour(escape, picture.data);
    context.putImageData(picture, 0, 0);
    canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
    const zoom = START.pixel / pixel;
    const digits = Math.max(3, Math.ceil(-Math.log10(pixel)));
    const x = left + (WIDTH / 2) * pixel;
    const y = top - (HEIGHT / 2) * pixel;
    const place = `${x < 0 ? "−" : ""}${Math.abs(x).toFixed(digits)} ${y < 0 ? "−" : "+"} ${Math.abs(y).toFixed(digits)} i`;
    canvas.setAttribute("aria-label", `The Mandelbrot set around ${place}, magnified ${zoom.toFixed(1)} times`);
    const mega = ((WIDTH * HEIGHT) / duration / 1000).toFixed(1);
    const magnified = zoom === 1 ? "" : ` Magnified ${zoom.toLocaleString("en", { maximumFractionDigits: 1 })} times.`;
    time.textContent = `${duration.toFixed(0)} ms with WebGPU, copies included: ${mega} million pixels a second.${magnified}`;
  }, failed);

  const zoomAt = (column, row, factor) => {
    const pixel = Math.min(Math.max(view.pixel / factor, FINEST), 4 * START.pixel);
    view.left += column * (view.pixel - pixel);
    view.top -= row * (view.pixel - pixel);
    view.pixel = pixel;
    draw();
  };
  const move = (columns, rows) => {
    view.left += columns * view.pixel;
    view.top -= rows * view.pixel;
    draw();
  };
  const reset = () => {
    Object.assign(view, START);
    draw();
  };
  const zoomIn = () => zoomAt(WIDTH / 2, HEIGHT / 2, 2);
  const zoomOut = () => zoomAt(WIDTH / 2, HEIGHT / 2, 0.5);
  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
  };
  canvas.addEventListener("click", (event) => zoomAt(...spot(event), event.shiftKey ? 0.5 : 2));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // without Ctrl the wheel scrolls the page
    event.preventDefault();
    zoomAt(...spot(event), event.deltaY < 0 ? 1.25 : 0.8);
  });
  const keys = {
    "+": zoomIn, "=": zoomIn, "-": zoomOut, 0: reset,
    ArrowLeft: () => move(-60, 0), ArrowRight: () => move(60, 0), ArrowUp: () => move(0, -60), ArrowDown: () => move(0, 60),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  steps.addEventListener("input", () => {
    shown.textContent = steps.value;
    draw();
  });
  const button = (text, label, onclick) => el("button", { class: "plain", type: "button", "aria-label": label, onclick }, text);
  panel.append(
    el("h2", {}, "mandelbrot"),
    canvas,
    el(
      "div",
      { class: "controls" },
      el("span", { class: "pair" }, button("+", "Zoom in", zoomIn), button("−", "Zoom out", zoomOut), button("Reset", "Show the whole set", reset)),
      el("label", { class: "grow" }, "Steps", steps, shown),
    ),
    el("p", { class: "quiet", id: "mandelbrot-help" }, "Click to zoom in, with Shift to zoom out. Keys: arrows, + and −, 0."),
    time,
    alert,
  );
  await draw();
}

/** Colour the escape times: a cycle over their square root, black inside the set. The demo in Python uses the same colours. */
function colour(escape, data) {
  for (let at = 0; at < escape.length; at++) {
    const value = escape[at];
    const phase = Math.sqrt(value) * 0.9;
    const inside = value === 0;
    data[4 * at] = inside ? 0 : (0.5 - 0.5 * Math.cos(phase + 3.4)) * 255;
    data[4 * at + 1] = inside ? 0 : (0.5 - 0.5 * Math.cos(phase + 2.6)) * 236;
    data[4 * at + 2] = inside ? 0 : (0.5 - 0.5 * Math.cos(phase + 1.7)) * 250;
    data[4 * at + 3] = 255;
  }
}
