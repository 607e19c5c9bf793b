// The modules that run in this browser: their marks in the tree, or why no kernel can run.

import { defaultDevice } from "./devmod-webgpu/index.js";
import { READ_AT_ONCE } from "./details.js";
import { button, el, visible } from "./dom.js";
import { whyNot } from "./form.js";

/** Modules are read for their mark up to this number. */
const MOST_MARKED = 100;

/** Call `mark` with the modules whose kernels run. `notes` gets the reason if no kernel can run, or none any more. */
export async function markRuns(notes, bundle, current, mark) {
  const note = (id, ...words) => notes.replaceChildren(el("p", { class: "note", id }, words));
  if (!bundle.webgpuModules.length) {
    if (bundle.modules.some(({ functionNames }) => functionNames.length)) {
      note(
        "no-webgpu",
        "This bundle has no webgpu module, so none of its functions can run in a browser. Compile its sources for webgpu too: devmod compile … -t webgpu",
      );
    }
    return;
  }
  let device;
  try {
    device = await defaultDevice();
  } catch (error) {
    if (current())
      note(
        "no-device",
        `Kernels cannot run here: ${error.message.split("\n").map(visible).join("\n")}.`,
      );
    return;
  }
  let gone = false;
  device.lost.then(({ message }) => {
    gone = true;
    if (!current()) return;
    mark([]);
    const again = () => {
      notes.replaceChildren();
      markRuns(notes, bundle, current, mark);
    };
    const why = message ? ` (${visible(message)})` : "";
    note("lost-device", `The GPU device was lost${why}.`, button("Use a new device", again));
  });
  const running = [];
  for (const module of bundle.modules.filter(({ runs }) => runs).slice(0, MOST_MARKED)) {
    if (module.storedSize > READ_AT_ONCE) continue;
    const functions = await module.functions().catch(() => new Map()); // a module that cannot be read has none
    if ([...functions.values()].some((info) => !whyNot(info, device))) running.push(module);
  }
  if (current() && !gone) mark(running);
}
