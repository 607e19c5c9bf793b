// The details of one module: facts, functions, source.

import { defaultDevice } from "./devmod-webgpu/index.js";
import { expressionText } from "./devmod-webgpu/expressions.js";
import { IMAGE_FORMATS } from "./devmod-webgpu/formats.js";
import { isValue } from "./devmod-webgpu/members.js";
import { brief, button, el, size, visible } from "./dom.js";
import { kernelForm, whyNot } from "./form.js";
import { programForm } from "./programform.js";
import { sourceBlock } from "./highlight.js";
import { stepList } from "./steps.js";

/** Larger modules are read after a click on a button, not when they are selected. */
export const READ_AT_ONCE = 4_000_000;
const MOST = 300;
const MOST_ARGUMENTS = 60;
/** The kinds with a known distribution. Other names from a file must not appear in a command. */
const KNOWN = ["cuda", "rocm", "metal", "vulkan", "opencl", "hexagon"];
const NODES = {
  bundle:
    "Alternatives for the same functions. devmod uses the first module with an installed runtime and a matching device.",
  program: "Lists of launches of the kernels in this file.",
  _lib: "The host library of a program that TVM exported. It is a node of the tree without bytes.",
};

/** The kinds that have no kernels. */
const WITHOUT_KERNELS = ["bundle", "program", "const_loader", "_lib"];
/** The most modules below a bundle that are looked at for its title. */
const MOST_BELOW = 1000;

/** Return the title of a module: that of a bundle is what it has, for which kinds. `parent` is the module that imports it, if any. */
export function titleOf(module, parent) {
  if (module.kind === "_lib") return "Host library";
  if (module.kind !== "bundle") return visible(module.kind);
  const kinds = kindsBelow(module);
  const last = kinds.pop();
  const choice = kinds.length ? `${kinds.join(", ")} or ${last}` : last;
  const [name, ...others] = module.functionNames;
  let what = "Bundle";
  if (parent?.kind === "program") what = others.length || !name ? "Kernels" : brief(name, 60);
  return choice ? `${what} for ${choice}` : what;
}

/** Return the kinds of the kernels below a module. */
function kindsBelow(module) {
  const seen = new Set([module]);
  for (const each of seen) {
    if (seen.size > MOST_BELOW) break;
    for (const child of each.imports) seen.add(child);
  }
  const kinds = [...seen].map(({ kind }) => kind).filter((kind) => !WITHOUT_KERNELS.includes(kind));
  return [...new Set(kinds)].slice(0, 20).map((kind) => brief(kind, 40));
}

/**
 * Show a module of the file `file` in `place`, below its title. Contents that have to be read are added later. `variantOf` returns the webgpu module that
 * has a function of a name, or null; `select` shows another module.
 */
export async function showDetails(place, module, name, file, current, variantOf, select) {
  const facts = el("dl", { class: "facts" });
  const fact = (term, ...value) => facts.append(el("dt", {}, term), el("dd", {}, ...value));
  if (module.format) fact("Format", brief(module.format));
  if (module.variant) fact("Architecture", brief(module.variant));
  if (module.offset !== null)
    fact("Size", `${size(module.size)} (${module.size.toLocaleString("en")} bytes)`);
  if (module.storedSize < module.size)
    fact(
      "In the file",
      `${size(module.storedSize)}, ${module.compressed ? "compressed" : "equal shaders once"}`,
    );
  if (module.runs) fact("Runs", "in this browser, if it supports WebGPU");
  else if (KNOWN.includes(module.kind))
    fact("Runs", "in Python, with ", el("code", {}, `pip install devmod-${module.kind}`));
  else if (module.offset !== null && module.kind !== "const_loader")
    fact("Runs", "with a runtime for this kind");
  const { origin } = module;
  if (origin?.target) fact("Target", el("code", {}, brief(origin.target, 500)));
  if (origin?.toolchain) fact("Toolchain", brief(origin.toolchain, 500));
  if (origin?.options?.length)
    fact("Options", el("code", {}, brief(origin.options.join(" "), 2000)));
  const sources = Object.entries(origin?.sources ?? {});
  for (const [name, digest] of sources.slice(0, 20)) {
    fact(
      "Source",
      `${brief(name)} `,
      el(
        "small",
        { class: "quiet mono", title: brief(digest) },
        `sha256 ${visible(digest.slice(0, 12))}…`,
      ),
    );
  }
  if (sources.length > 20) fact("Source", `and ${sources.length - 20} more`);
  const title = el("h2", { id: "details-title", tabIndex: -1 }, name);
  const rest = el("div", {});
  place.setAttribute("aria-labelledby", "details-title");
  place.replaceChildren(
    title,
    ...(Object.hasOwn(NODES, module.kind) ? [el("p", { class: "quiet" }, NODES[module.kind])] : []),
    ...(facts.children.length ? [facts] : []),
    rest,
  );
  if (module.offset === null) return;
  rest.append(functionList(module.functionNames.map((name) => [name, null])));
  if (module.storedSize > READ_AT_ONCE) {
    const prompt = el("p", {});
    rest.append(prompt);
    const offer = `Read its ${size(module.storedSize)} to show signatures and source`;
    await new Promise((resolve) => prompt.append(button(offer, resolve)));
    prompt.replaceChildren("Reading…");
    title.focus(); // the focused button is gone
  }
  rest.ariaBusy = true;
  try {
    const contents = await module.contents();
    const device = module.kind === "webgpu" ? await defaultDevice().catch(() => null) : null; // a form shows the error
    if (!current()) return;
    const parts = [];
    if (!contents)
      parts.push(
        functionList(module.functionNames.map((name) => [name, null])),
        el("p", { class: "quiet" }, "Only the runtime of this kind can read its bytes."),
      );
    else {
      const part = (name, info) => {
        const alone = contents.functions.size === 1;
        if (module.kind === "const_loader") return null;
        if (module.kind === "program") return programPart(module, name, info, alone, contents);
        if (!module.runs) return elsewhere(module, variantOf(name), select);
        const reason = whyNot(info, device);
        if (reason) return el("p", { class: "note why-not" }, reason);
        return runPart(name, alone, () => kernelForm(module, name, info));
      };
      parts.push(functionList([...contents.functions], part));
      const first = [...contents.functions].find(([, info]) => !info.error);
      if (module.kind === "webgpu" && first) parts.push(usage(file, ...first));
      if (contents.constants.size) parts.push(constantList([...contents.constants]));
    }
    for (const [format, text] of await module.sources()) {
      if (typeof text === "string") parts.push(...sourcePart(text, format));
      else
        parts.push(
          el(
            "p",
            { class: "quiet" },
            `The file has its ${visible(format)} as ${size(text.length)} of binary.`,
          ),
        );
    }
    const text = contents ? await module.inspectSource(contents.format) : "";
    if (text) parts.push(...sourcePart(text, contents.format));
    else if (contents && !contents.constants.size && !(await module.sources()).size) {
      parts.push(
        el("p", { class: "quiet" }, "Its payload is binary, and the file has no source of it."),
      );
    }
    if (current()) rest.replaceChildren(...parts);
  } catch (error) {
    if (current()) rest.append(el("p", { class: "bad", role: "alert" }, visible(error.message)));
  } finally {
    rest.ariaBusy = false;
  }
}

/** Return the steps of a program, and its form if it runs here. */
function programPart(module, name, info, open, contents) {
  const { element, showTimes } = stepList(module, name, info, contents);
  if (!module.runs) return element;
  return el(
    "div",
    {},
    runPart(name, open, () => programForm(module, name, info, showTimes)),
    element,
  );
}

/** Return the form of a function, in a part that opens. */
function runPart(name, open, makeForm) {
  const part = el(
    "details",
    { class: "run-it" },
    el("summary", { "aria-label": `Run it: ${brief(name, 80)}` }, "Run it"),
  );
  const show = () => part.open && part.children.length === 1 && part.append(makeForm());
  part.addEventListener("toggle", show);
  part.open = open;
  return part;
}

/** Return why a kernel of another kind does not run here, with a button for the variant that does. */
function elsewhere(module, variant, select) {
  const why = `It cannot run here: a browser runs kernels of kind webgpu, and this one is of kind ${visible(module.kind)}.`;
  if (!variant)
    return el("p", { class: "quiet where" }, `${why} The bundle has no webgpu variant of it.`);
  return el(
    "p",
    { class: "quiet where" },
    `${why} `,
    button("Show its webgpu variant", () => select(variant), "link"),
  );
}

/** Return the list of functions. `part` returns what stands below the signature of one. */
function functionList(functions, part) {
  if (!functions.length) return el("p", { class: "quiet" }, "It has no functions.");
  const below = (name, info) => {
    if (info?.error) return el("p", { class: "note why-not" }, whyNot(info, null));
    return part && info ? part(name, info) : null;
  };
  const items = functions.slice(0, MOST).map(([name, info]) => {
    const block = info?.interface?.block;
    const records = (info?.interface?.blocks ?? [])
      .filter((each) => each.name)
      .slice(0, MOST_ARGUMENTS);
    const tags =
      info?.launchParamTags?.length && !info.interface
        ? `launch: ${info.launchParamTags.slice(0, MOST_ARGUMENTS).join(", ")}`
        : "";
    const where = [
      records.length ? `record ${records.map((each) => each.name).join(", ")}` : "",
      block ? `blocks of ${block.join(" × ")} threads` : "",
      tags,
    ]
      .filter(Boolean)
      .join(" · ");
    return el(
      "li",
      {},
      el("code", {}, signature(name, info)),
      where ? el("p", { class: "quiet where" }, brief(where, 500)) : null,
      below(name, info),
    );
  });
  if (functions.length > MOST)
    items.push(el("li", { class: "quiet" }, `and ${functions.length - MOST} more`));
  const title = functions.length === 1 ? "Function" : `${functions.length} functions`;
  return el("div", {}, el("h3", {}, title), el("ul", { class: "functions" }, ...items));
}

function* signature(name, info) {
  yield el("strong", {}, brief(name));
  if (!info) return;
  yield "(";
  const all =
    info.interface?.params ??
    info.argTypes.map((type) => ({
      name: "",
      kind: type === "handle" ? "buffer" : "scalar",
      type,
      access: "",
    }));
  const params = all.filter(({ extra }) =>
    ["input", "update", "output", undefined].includes(extra?.role),
  ); // of a program, what a call has
  for (const [at, param] of params.slice(0, MOST_ARGUMENTS).entries()) {
    if (at) yield ", ";
    if (param.name) yield `${brief(param.name, 80)}: `;
    const type = param.type || (param.kind === "buffer" ? "bytes" : info.argTypes[at]);
    const lengths = Array.isArray(param.extra?.shape)
      ? `[${brief(param.extra.shape.map((each) => expressionText(each)).join(", "), 80)}]`
      : "";
    yield el(
      "span",
      { class: "t-type" },
      visible(
        lengths ? typeText(param, type).replace(/(\[\])?$/, () => lengths) : typeText(param, type),
      ),
    );
    const access = { r: "", w: " out", rw: " in/out" }[param.access] ?? "";
    if ((param.kind === "buffer" || param.kind === "image") && access)
      yield el("span", { class: "t-keyword" }, access);
    if (param.kind === "local") yield el("span", { class: "t-keyword" }, " local");
  }
  if (params.length > MOST_ARGUMENTS) yield `, and ${params.length - MOST_ARGUMENTS} more`;
  yield ")";
}

function typeText({ kind, align, format, sample, members = [] }, type) {
  if (kind === "sampler") return kind;
  if (kind === "image")
    return [kind, type === "handle" ? "" : type, format || sample].filter(Boolean).join(" ");
  if (type === "handle") return "buffer";
  if (kind !== "buffer" && isValue(members))
    return `${members[0].type || "struct"}${members[0].shape.map((length) => `[${length}]`).join("")}`;
  const one = align && /^uint8x\d+$/.test(type) ? `struct of ${type.slice(6)} bytes` : type;
  return kind === "buffer" ? `${one}[]` : one;
}

/** Return the URL of a file beside the page, from its name. */
const urlOf = (file) => file.replace(/[\s\p{Cc}%?#:\\]/gu, encodeURIComponent);

/** Return example code that calls a function of a file. */
function usage(file, name, info) {
  const safe = (word, other) => (/^[A-Za-z_$][\w$]{0,40}$/.test(word) ? word : other);
  const params = info.interface?.params ?? info.argTypes.map(() => ({ name: "" }));
  const args = params.slice(0, 30).map((param, at) => safe(param.name, `argument${at + 1}`));
  const named =
    params.length <= 30 &&
    params.every((param, at) => param.name === args[at] && args.indexOf(param.name) === at);
  const given = named ? `{ ${args.join(", ")} }` : `[${args.join(", ")}]`;
  const launch = info.interface?.block
    ? "threads: [/* threads in x, y, z */]"
    : "grid: [/* blocks in x, y, z */]";
  const f = safe(name, "f");
  const made = params.slice(0, 30).flatMap(({ kind, access, format }, at) => {
    if (kind === "sampler")
      return [["sampler", `const ${args[at]} = await sampler({ filter: "linear" });`]];
    if (kind !== "image") return [];
    if (access === "r" || !IMAGE_FORMATS.has(format))
      return [["imageFrom", `const ${args[at]} = await imageFrom(picture); // an ImageBitmap`]];
    return [
      [
        "image",
        `const ${args[at]} = await image([/* width, height */], "${format}"); // await ${args[at]}.read() has its numbers`,
      ],
    ];
  });
  const text = [
    `import { ${[...new Set(made.map(([maker]) => maker)), "open"].sort().join(", ")} } from "devmod-webgpu";`,
    "",
    `const bundle = await open(${JSON.stringify(urlOf(file))});`,
    `const ${f} = await bundle.getFunction(${JSON.stringify(name.length > 1000 ? `${name.slice(0, 1000)}…` : name)});`,
    ...made.map(([, line]) => line),
    `await ${f}.run(${given}, { ${launch} });`,
  ].join("\n");
  return el(
    "details",
    { class: "usage" },
    el("summary", {}, "Call it from JavaScript"),
    sourceBlock(text, "js", "How to call it"),
  );
}

function constantList(constants) {
  const items = constants
    .slice(0, MOST)
    .map(([name, { type, shape, size: bytes }]) =>
      el(
        "li",
        {},
        el(
          "code",
          {},
          el("strong", {}, brief(name)),
          ": ",
          el("span", { class: "t-type" }, `${type}[${shape.join(" × ")}]`),
        ),
        el("span", { class: "quiet" }, ` ${size(Number(bytes))}`),
      ),
    );
  return el("div", {}, el("h3", {}, "Constants"), el("ul", { class: "functions" }, ...items));
}

function sourcePart(text, format) {
  const copy = button("Copy", async () => {
    await navigator.clipboard.writeText(text).then(
      () => (copy.textContent = "Copied"),
      () => (copy.textContent = "Copying failed"),
    );
    setTimeout(() => (copy.textContent = "Copy"), 2000);
  });
  return [
    el(
      "div",
      { class: "bar" },
      el("h3", {}, "Source"),
      el("span", { class: "quiet" }, visible(format)),
      copy,
    ),
    sourceBlock(text, format, "Source"),
  ];
}
