// The kernels that this page runs: those with the names and signatures of the examples (examples/webgpu).

import { requestDevice } from "./devmod-webgpu/index.js";
import { blurPanel } from "./blur.js";
import { el, visible } from "./dom.js";
import { mandelbrotPanel } from "./mandelbrot.js";

const PANELS = [
  {
    functions: { mandelbrot: ["escape: float32", "width: int32", "height: int32", "left: float32", "top: float32", "pixel: float32", "steps: int32"] },
    make: mandelbrotPanel,
  },
  {
    functions: {
      blur_rows: ["picture: uint32", "between: float32x4", "weights: float32", "radius: int32", "width: int32", "height: int32"],
      blur_columns: ["between: float32x4", "blurred: uint32", "weights: float32", "radius: int32", "width: int32", "height: int32"],
    },
    make: blurPanel,
  },
];

/** One GPU device for all bundles of this page. It is requested again after a loss. */
let device = null;
async function sharedDevice() {
  device ??= requestDevice().then((created) => {
    created.lost.then(() => (device = null));
    return created;
  });
  device.catch(() => (device = null));
  return device;
}

/**
 * Show a panel for each kernel of the bundle that this page can run. `notes` gets the reason if there is none. `mark` is called with
 * the modules whose kernels run.
 */
export async function showRuns(place, notes, bundle, current, mark) {
  place.replaceChildren();
  const running = new Set();
  const note = (id, ...words) => notes.replaceChildren(el("p", { class: "note", id }, words));
  const names = new Set(bundle.webgpuModules.flatMap(({ functionNames }) => functionNames));
  if (!names.size) {
    if (bundle.modules.some(({ functionNames }) => functionNames.length)) {
      note("no-webgpu", "This bundle has no webgpu module, so none of its functions can run in a browser. Compile its sources for webgpu too: devmod compile … -t webgpu");
    }
    return;
  }
  const known = [];
  for (const panel of PANELS) {
    if (Object.keys(panel.functions).every((name) => names.has(name)) && (await fits(bundle, panel.functions))) known.push(panel);
  }
  if (!current()) return;
  if (!known.length) {
    const names = PANELS.flatMap(({ functions }) => Object.keys(functions)).join(", ");
    note("not-known", `This page cannot run the kernels of this bundle. It runs only those of devmod's examples (${names}). For other kernels it shows how to call them.`);
    return;
  }
  let on;
  try {
    on = await sharedDevice();
  } catch (error) {
    // One note for all panels. The rest of the bundle is still shown.
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
    mark([]);
    const again = () => {
      notes.replaceChildren();
      showRuns(place, notes, bundle, current, mark);
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
      if (!current() || gone) return;
      for (const name of wanted) running.add(bundle.find(name));
      mark([...running]);
    } catch (error) {
      if (!panel.children.length) panel.append(el("h2", {}, wanted.join(" and ")), alert);
      failed(error);
    }
  }
}

/** Return whether the functions have the expected signatures. */
async function fits(bundle, functions) {
  for (const [name, params] of Object.entries(functions)) {
    const info = (await bundle.find(name).functions()).get(name);
    const found = info?.interface?.params.map((param) => `${param.name}: ${param.type}`) ?? [];
    if (found.sort().join() !== params.toSorted().join()) return false;
  }
  return true;
}

/** Return a message, with the output of a compiler below it in a monospaced font. */
function problem(message) {
  const [first, ...rest] = message.split("\n").map(visible);
  return el("div", { class: "bad" }, first, rest.length ? el("code", { class: "log" }, rest.join("\n")) : null);
}

/** Make a message of several lines visible. */
function visibleLines(text) {
  return text.split("\n").map(visible).join("\n");
}

/** Wrap `work` so that only one run is active. Of several calls during a run, only the last one runs afterwards. */
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
