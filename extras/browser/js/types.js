// Put the text of each `@typedef` of the sources before its type. tsc drops it, or leaves it in a
// comment that belongs to nothing, and no editor shows it then.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const COMMENT = /\/\*\*((?:(?!\*\/)[^])*)\*\/\n?/g;
const ALIAS = /^export type (\w+).* = import\((".*")\)\.\1.*;$/gm;

for (const name of readdirSync("types")) {
  const source = readFileSync(`src/${name.replace(".d.ts", ".js")}`, "utf8");
  const texts = new Map();
  for (const [, inner] of source.matchAll(COMMENT)) {
    const type = /@typedef\b[^]*?\} (\w+)\s*$/m.exec(inner)?.[1];
    const [text] = inner.replace(/\s*\n \*/g, "").split(/(?:^|\s)@[a-z]/);
    if (type && text.trim()) texts.set(type, `/** ${text.trim()} */\n`);
  }
  const code = readFileSync(`types/${name}`, "utf8")
    .replace(COMMENT, (comment) => (/@typedef|@import/.test(comment) ? "" : comment))
    .replace(/^export type (\w+)/gm, (line, type) => (texts.get(type) ?? "") + line)
    .replace(ALIAS, "export type { $1 } from $2;"); // an alias of a type would hide its text
  writeFileSync(`types/${name}`, code);
}
