// The tree of modules: a list of buttons in the order of the file. The arrow keys move the focus.

import { titleOf } from "./details.js";
import { brief, el, size } from "./dom.js";

/** The most modules that are listed, because the layout takes time. */
const MOST = 1000;

/** Fill `list` with the modules below `roots`. `choose` is called with the selected module and its title. */
export function showTree(list, roots, choose) {
  let room = MOST;
  const buttons = new Map();
  const titles = new Map();
  const item = (module, parent) => {
    room--;
    const title = titleOf(module, parent);
    titles.set(module, title);
    const names = module.functionNames;
    const button = el(
      "button",
      {
        type: "button",
        tabIndex: -1,
        "data-module": String(module.number),
        onclick: () => select(module),
      },
      el(
        "span",
        { class: "head" },
        el("strong", {}, title),
        el(
          "small",
          {},
          [module.format, module.variant, module.offset === null ? "" : size(module.size)]
            .filter(Boolean)
            .map((each) => brief(each, 60))
            .join(" · "),
        ),
      ),
      ...(names.length
        ? [
            el(
              "small",
              { class: "names mono" },
              names
                .slice(0, 4)
                .map((name) => brief(name, 60))
                .join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : ""),
            ),
          ]
        : []),
    );
    buttons.set(module, button);
    const below = [];
    const above = [];
    // A module may be imported along many paths. It is listed only at its first occurrence.
    for (const child of module.imports) {
      if (room <= 0) break;
      if (titles.has(child)) {
        if (above.length < 20) above.push(titles.get(child));
      } else below.push(item(child, module));
    }
    if (above.length)
      below.push(
        el("li", { class: "more" }, brief(`also imports, shown above: ${above.join(", ")}`)),
      );
    return el("li", {}, button, ...(below.length ? [el("ul", {}, ...below)] : []));
  };
  const items = roots.slice(0, MOST).map((root) => item(root, null));
  if (room <= 0) items.push(el("li", { class: "more" }, `and more; the first ${MOST} are listed`));
  list.replaceChildren(...items);

  const all = () => [...list.querySelectorAll("button")];
  const select = (module) => {
    for (const button of all()) {
      const here = button.dataset.module === String(module.number);
      button.setAttribute("aria-current", String(here));
      button.tabIndex = here ? 0 : -1;
      if (here) show(button, list.parentElement);
    }
    choose(module, titles.get(module));
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

/** Mark the modules whose kernels the page runs. */
export function markRunning(list, modules) {
  for (const mark of list.querySelectorAll(".runs-here")) mark.remove();
  const numbers = new Set(modules.map(({ number }) => String(number)));
  for (const button of list.querySelectorAll("button")) {
    if (numbers.has(button.dataset.module))
      button.querySelector(".head").append(el("span", { class: "runs-here" }, "runs here"));
  }
}

/** Scroll the list so that a button is visible, without scrolling the page. */
function show(button, frame) {
  const [inner, outer] = [button.getBoundingClientRect(), frame.getBoundingClientRect()];
  const room = 16;
  if (inner.top < outer.top + room) frame.scrollTop -= outer.top + room - inner.top;
  else if (inner.bottom > outer.bottom - room)
    frame.scrollTop += inner.bottom - outer.bottom + room;
}
