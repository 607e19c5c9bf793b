// Prints what the reader in JavaScript reads in files: a map of JSON on standard input has their bytes in base64, by name.

import { text } from "node:stream/consumers";

import { unknownNeeds } from "../extras/browser/js/src/checks.js";
import { NewerError } from "../extras/browser/js/src/errors.js";
import { FormatError, open } from "../extras/browser/js/src/index.js";
import { checkNames } from "../extras/browser/js/src/programchecks.js";
import { readProgram } from "../extras/browser/js/src/programs.js";
import { decode } from "../extras/browser/js/src/wire.js";

/** Return the text of the error of a use, "" without one. Other errors are faults of the reader. */
async function refusal(use) {
  try {
    await use();
    return "";
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    return error.message;
  }
}

/** Add the errors of functions to what is read in a module. */
function addFunctions(found, functions) {
  for (const [name, { error }] of functions) {
    if (!error) continue;
    const key = error instanceof NewerError ? "newer" : "damaged";
    found[key] = { ...found[key], [name]: error.message };
  }
}

/** Add the unknown needs of programs, and the errors of others. */
async function addPrograms(found, { functions, shaders }) {
  for (const [name, info] of functions) {
    const needs = unknownNeeds(info.interface?.needs ?? []);
    if (needs.length) found.newer = { ...found.newer, [name]: needs };
    else {
      const error = await refusal(() => checkNames(readProgram(name, info, shaders.get(name))));
      if (error) found.damaged = { ...found.damaged, [name]: error };
    }
  }
}

async function describeModule(module) {
  const found = { kind: module.kind, functions: [...module.functionNames] };
  if (module.offset === null) return found;
  found.error = await refusal(() => module.bytes());
  if (!found.error)
    found.error = await refusal(async () => addFunctions(found, await module.functions()));
  if (!found.error && module.kind === "program") await addPrograms(found, await module.contents());
  found.sources = await refusal(() => module.sources());
  for (const key of ["error", "sources"]) if (!found[key]) delete found[key];
  return found;
}

async function describe(name, data) {
  const kind = /\.(\w+)\.bytes$/.exec(name)?.[1];
  const modules = [];
  const error = await refusal(async () => {
    if (kind) {
      const found = { kind, functions: [] };
      addFunctions(found, decode(kind, data).functions ?? []);
      modules.push(found);
      return;
    }
    const bundle = await (await open(data)).readAll();
    for (const module of bundle.modules) modules.push(await describeModule(module));
  });
  return error || modules;
}

const results = {};
for (const [name, data] of Object.entries(JSON.parse(await text(process.stdin))))
  results[name] = await describe(name, Uint8Array.from(Buffer.from(data, "base64")));
process.stdout.write(JSON.stringify(results));
