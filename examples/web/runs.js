// The kernels that this page runs by itself: those with the signatures of the examples (examples/webgpu).

import { requestDevice } from "./devmod-webgpu/index.js";
import { blurPanel } from "./blur.js";
import { el, visible } from "./dom.js";
import { mandelbrotPanel } from "./mandelbrot.js";

const PANELS = [
  { functions: { mandelbrot: ["handle", "int32", "int32", "float32", "float32", "float32", "int32"] }, make: mandelbrotPanel },
  {
    functions: {
      blur_rows: ["handle", "handle", "handle", "int32", "int32", "int32"],
      blur_columns: ["handle", "handle", "handle", "int32", "int32", "int32"],
    },
    make: blurPanel,
  },
];

/** One GPU device for all bundles of this page, and another after it was lost. */
let device = null;
async function ourDevice() {
  device ??= requestDevice().then((made) => {
    made.lost.then(() => (device = null));
    return made;
  });
  device.catch(() => (device = null));
  return device;
}

/** Show a panel for each kernel of the bundle that this page knows; what keeps them from running is said in `notes`. */
export async function showRuns(place, notes, bundle, current) {
  place.replaceChildren();
  const note = (id, ...words) => notes.replaceChildren(el("p", { class: "note", id }, words));
  const names = new Set(bundle.webgpuModules.flatMap(({ functionNames }) => functionNames));
  if (!names.size) {
    if (bundle.modules.some(({ functionNames }) => functionNames.length)) {
      note("no-webgpu", "This bundle has no webgpu module, so nothing of it runs in a browser. Compile its sources for webgpu too: devmod compile … -t webgpu");
    }
    return;
  }
  const known = [];
  for (const panel of PANELS) {
    if (Object.keys(panel.functions).every((name) => names.has(name)) && (await fits(bundle, panel.functions))) known.push(panel);
  }
  if (!known.length || !current()) return;
  let on;
  try {
    on = await ourDevice();
  } catch (error) {
    // Said once, and not in each panel: all else of the bundle can still be looked at.
    document.body.classList.add("no-device");
    if (current()) note("no-device", `Kernels cannot run here: ${visibleLines(error.message)}.`);
    return;
  }
  document.body.classList.remove("no-device");
  let gone = false;
  on.lost.then(({ message }) => {
    gone = true;
    if (!current()) return;
    place.replaceChildren();
    const again = () => {
      notes.replaceChildren();
      showRuns(place, notes, bundle, current);
    };
    const why = message ? ` (${visible(message)})` : "";
    note("lost-device", `The GPU device was lost${why}.`, el("button", { class: "plain", type: "button", onclick: again }, "Run the kernels again"));
  });
  for (const { functions, make } of known) {
    if (!current() || gone) return;
    const wanted = Object.keys(functions);
    const panel = el("section", { class: "run" });
    place.append(panel);
    const alert = el("div", { role: "alert" });
    const failed = (error) => current() && panel.isConnected && alert.replaceChildren(problem(error.message));
    try {
      const ready = {};
      for (const name of wanted) ready[name] = await bundle.getFunction(name, { device: on });
      if (!current()) return;
      await make(panel, ready, failed, alert);
    } catch (error) {
      if (!panel.children.length) panel.append(el("h2", {}, wanted.join(" and ")), alert);
      failed(error);
    }
  }
}

/** Whether the functions take what this page gives them. */
async function fits(bundle, functions) {
  for (const [name, types] of Object.entries(functions)) {
    const info = (await bundle.find(name).functions()).get(name);
    if (!info || info.argTypes.join() !== types.join()) return false;
  }
  return true;
}

/** A message, and below it what a compiler said, in which columns count. */
function problem(message) {
  const [first, ...rest] = message.split("\n").map(visible);
  return el("div", { class: "bad" }, first, rest.length ? el("code", { class: "log" }, rest.join("\n")) : null);
}

/** A message of several lines. */
function visibleLines(text) {
  return text.split("\n").map(visible).join("\n");
}

/** What panels share: only the newest of several runs asked for while one is under way is done next. */
export function newest(work, failed) {
  let busy = false;
  let again = false;
  return async function run() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    do {
      again = false;
      try {
        await work();
      } catch (error) {
        failed(error);
      }
    } while (again);
    busy = false;
  };
}
