// The tree of modules: a list of buttons, in the order of the file. The arrow keys go up and down in it.

import { titleOf } from "./details.js";
import { brief, el, size } from "./dom.js";

/** How many modules are listed: a browser has to lay them out. */
const MOST = 1000;

/** Fill `list` with the modules below `roots`; `choose` is called with the one that is chosen. */
export function showTree(list, roots, choose) {
  let room = MOST;
  const buttons = new Map();
  const item = (module) => {
    room--;
    const names = module.functionNames;
    const button = el(
      "button",
      { type: "button", tabIndex: -1, "data-module": String(module.number), onclick: () => select(module) },
      el(
        "span",
        { class: "head" },
        el("strong", {}, titleOf(module)),
        el("small", {}, [module.format, module.variant, module.offset === null ? "" : size(module.size)].filter(Boolean).map((each) => brief(each, 60)).join(" · ")),
        ...(module.kind === "webgpu" && names.length ? [el("span", { class: "runs-here" }, "runs here")] : []),
      ),
      ...(names.length ? [el("small", { class: "names mono" }, names.slice(0, 4).map((name) => brief(name, 60)).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : ""))] : []),
    );
    if (!buttons.has(module)) buttons.set(module, button);
    const below = [];
    for (const child of module.imports) {
      if (room <= 0) break; // a module may be imported by many: the tree of a stranger's file can be endless
      below.push(item(child));
    }
    return el("li", {}, button, ...(below.length ? [el("ul", {}, ...below)] : []));
  };
  const items = roots.slice(0, MOST).map(item);
  if (room <= 0) items.push(el("li", { class: "more" }, `and more; ${MOST} are listed`));
  list.replaceChildren(...items);

  const all = () => [...list.querySelectorAll("button")];
  const select = (module) => {
    for (const button of all()) {
      const here = button.dataset.module === String(module.number);
      button.setAttribute("aria-current", String(here));
      button.tabIndex = here ? 0 : -1;
      if (here) show(button, list.parentElement);
    }
    choose(module);
  };
  list.onkeydown = (event) => {
    const listed = all();
    const at = listed.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: listed.length - 1 }[event.key];
    if (to === undefined || !listed[to]) return;
    event.preventDefault();
    listed[to].focus();
  };
  return { select, listed: [...buttons.keys()] };
}

/** Scroll a button into what its list shows, where that scrolls, and leave the page where it is. */
function show(button, frame) {
  const [inner, outer] = [button.getBoundingClientRect(), frame.getBoundingClientRect()];
  const room = 16;
  if (inner.top < outer.top + room) frame.scrollTop -= outer.top + room - inner.top;
  else if (inner.bottom > outer.bottom - room) frame.scrollTop += inner.bottom - outer.bottom + room;
}
