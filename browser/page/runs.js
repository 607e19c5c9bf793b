// The pictures of this page: kernels with the names and signatures of the examples (examples/webgpu). Every kernel has a form: form.js.

import { blurPanel } from "./blur.js";
import { el, visible } from "./dom.js";
import { problemOf, whyNot } from "./form.js";
import { sharedDevice } from "./gpu.js";
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

/** Modules are read for their mark up to this number and this size. */
const MOST_MARKED = 100;
const READ_AT_ONCE = 4_000_000;

/**
 * Show a panel for each picture of the bundle. `notes` gets the reason if no kernel can run. `mark` is called with the modules whose
 * kernels run.
 */
export async function showRuns(place, notes, bundle, current, mark) {
  place.replaceChildren();
  const note = (id, ...words) => notes.replaceChildren(el("p", { class: "note", id }, words));
  const names = new Set(bundle.webgpuModules.flatMap(({ functionNames }) => functionNames));
  if (!names.size) {
    if (bundle.modules.some(({ functionNames }) => functionNames.length)) {
      note("no-webgpu", "This bundle has no webgpu module, so none of its functions can run in a browser. Compile its sources for webgpu too: devmod compile … -t webgpu");
    }
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
  const running = await runnable(bundle.modules.filter(({ runs }) => runs), on);
  if (current() && !gone) mark(running);
  for (const { functions, make } of PANELS) {
    if (!current() || gone) return;
    if (!Object.keys(functions).every((name) => names.has(name)) || !(await fits(bundle, functions))) continue;
    const wanted = Object.keys(functions);
    const panel = el("section", { class: "run" });
    place.append(panel);
    const alert = el("div", { role: "alert" });
    const failed = (error) => current() && panel.isConnected && alert.replaceChildren(problemOf(error.message));
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

/** Return whether the functions have the expected signatures. */
async function fits(bundle, functions) {
  for (const [name, params] of Object.entries(functions)) {
    const info = (await bundle.find(name).functions()).get(name);
    const found = info?.interface?.params.map((param) => `${param.name}: ${param.type}`) ?? [];
    if (found.sort().join() !== params.toSorted().join()) return false;
  }
  return true;
}

/** Return the modules with a kernel that has a form. A module that cannot be read has none. */
async function runnable(modules, device) {
  const result = [];
  for (const module of modules.slice(0, MOST_MARKED)) {
    if (module.storedSize > READ_AT_ONCE) continue;
    const functions = await module.functions().catch(() => new Map());
    if ([...functions.values()].some((info) => !whyNot(info, device))) result.push(module);
  }
  return result;
}

/** Make a message of several lines visible. */
function visibleLines(text) {
  return text.split("\n").map(visible).join("\n");
}
