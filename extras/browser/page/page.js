// The page: opens a bundle from a file or from ?file=, and shows its tree.

import { DevmodError, open } from "./devmod-webgpu/index.js";
import { showDetails } from "./details.js";
import { el, size, visible } from "./dom.js";
import { markRuns } from "./runs.js";
import { markRunning, showTree } from "./tree.js";

const at = (id) => document.getElementById(id);
let turn = 0; // the number of opened bundles; only the last one is shown
let opened = null;

async function show(from, name) {
  const mine = ++turn;
  const current = () => mine === turn;
  at("alert").replaceChildren();
  at("notes").replaceChildren();
  at("status").textContent = "Reading the bundle…";
  at("tree").ariaBusy = true;
  try {
    const bundle = await (await open(from)).readAll();
    if (!current()) return bundle.close();
    opened?.close();
    opened = bundle;
    at("empty").hidden = true;
    at("bundle").hidden = false;
    if (mine > 1) scrollTo(0, 0);
    document.title = `${visible(name)} – devmod`;
    const count = bundle.modules.filter(({ offset }) => offset !== null).length;
    const facts = [
      `${count} ${count === 1 ? "module" : "modules"}`,
      ...(bundle.size >= 0 ? [size(bundle.size)] : []),
    ].map((each) => each.replace(" ", "\u00a0"));
    at("file").replaceChildren(el("strong", {}, visible(name)), ` · ${facts.join(" · ")}`);
    at("file").hidden = false;
    let selections = 0;
    const variantOf = (name) =>
      bundle.webgpuModules.find(({ functionNames }) => functionNames.includes(name)) ?? null;
    const show = (module) => {
      select(module);
      document.getElementById("details-title").focus();
    };
    const { select, listed } = showTree(at("tree"), bundle.roots, (module, title) => {
      const selection = ++selections;
      showDetails(
        at("details"),
        module,
        title,
        name,
        () => current() && selection === selections,
        variantOf,
        show,
      ).catch(fail);
    });
    select(
      listed.find(({ kind, runs }) => kind === "program" && runs) ??
        listed.find(({ kind }) => kind === "webgpu") ??
        listed.find(({ offset }) => offset !== null) ??
        listed[0],
    );
    at("status").textContent = "";
    await markRuns(at("notes"), bundle, current, (modules) => markRunning(at("tree"), modules));
  } catch (error) {
    if (current()) fail(error);
  } finally {
    if (current()) at("tree").ariaBusy = false;
  }
}

function fail(error) {
  at("status").textContent = "";
  // Other errors are faults of this page. Their name helps in bug reports.
  const text = error instanceof DevmodError ? error.message : `${error.name}: ${error.message}`;
  at("alert").replaceChildren(el("p", { class: "bad" }, visible(text)));
  at("alert").scrollIntoView({ block: "nearest" }); // the user may have scrolled down
  at("empty").hidden = opened !== null;
}

function showFile(file) {
  if (file) show(file, file.name);
}

at("choose").addEventListener("change", (event) => {
  showFile(event.target.files[0]);
  event.target.value = ""; // selecting the same file again must fire the event
});

let inside = 0;
/** Whether a file is dragged that is no picture. */
const dragged = (event) =>
  [...(event.dataTransfer?.types ?? [])].includes("Files") && !pictured(event);
const pictured = (event) =>
  [...(event.dataTransfer?.items ?? [])].some(({ type }) => type.startsWith("image/"));

/** Return the file input of the array or the image below the pointer, and the selection of its fill. */
function pictureField(event) {
  const group = event.target.closest?.("fieldset.array");
  const fill = [...(group?.querySelectorAll("select") ?? [])].find((each) =>
    [...each.options].some(({ value }) => value === "file"),
  );
  return { input: fill && group.querySelector("input[type=file]"), fill };
}

addEventListener("dragenter", (event) => {
  if (!dragged(event)) return;
  inside++;
  at("drop").hidden = false;
});
addEventListener("dragleave", (event) => {
  if (dragged(event) && --inside <= 0) at("drop").hidden = true;
});
addEventListener("dragover", (event) => {
  if (dragged(event) || (pictured(event) && pictureField(event).input)) event.preventDefault();
});
addEventListener("drop", (event) => {
  const { input, fill } = pictured(event) ? pictureField(event) : {};
  if (input) {
    event.preventDefault();
    fill.value = "file";
    input.files = event.dataTransfer.files;
    for (const each of [fill, input]) each.dispatchEvent(new Event("change"));
  }
  if (!dragged(event)) return;
  event.preventDefault();
  inside = 0;
  at("drop").hidden = true;
  showFile(event.dataTransfer.files[0]);
});

const wanted = new URLSearchParams(location.search).get("file");
if (wanted) {
  const path = wanted.split(/[?#]/)[0].split("/").at(-1);
  let name = path;
  try {
    name = decodeURIComponent(path);
  } catch {
    // a name with invalid escapes is shown unchanged
  }
  show(wanted, name);
} else at("empty").hidden = false;
