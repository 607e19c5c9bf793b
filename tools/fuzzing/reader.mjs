// Reads what tools/fuzzing/javascript.py sends: lengths of a kind and of the bytes, the kind ("" for a bundle), the bytes. Answers a line of JSON.

import { FormatError, open } from "../../browser/js/src/index.js";
import { NewerError } from "../../browser/js/src/errors.js";
import { decode } from "../../browser/js/src/wire.js";

/** Throw the error of the first function that is damaged. Python lists newer ones. */
function use(functions) {
  for (const { error } of functions.values()) if (error && !(error instanceof NewerError)) throw error;
}

async function read(kind, data) {
  if (kind) {
    use(decode(kind, data)?.functions ?? new Map());
    return "";
  }
  const bundle = await (await open(data)).readAll();
  const compressed = [];
  for (const module of bundle.modules) {
    if (module.offset === null) continue;
    const readings = [() => module.bytes(), async () => use(await module.functions()), () => module.sources()];
    for (const reading of readings) {
      await reading().catch((error) => {
        if (!(error instanceof FormatError && error.message.includes(" compressed with zstd, which browsers"))) throw error;
        compressed.push(error.message);
      });
    }
  }
  return compressed.join("\n");
}

async function answer(kind, data) {
  try {
    return { ok: true, message: await read(kind, data) };
  } catch (error) {
    return { error: error instanceof FormatError ? "FormatError" : (error?.constructor?.name ?? typeof error), message: String(error?.message ?? error) };
  }
}

let held = Buffer.alloc(0);
for await (const chunk of process.stdin) {
  held = Buffer.concat([held, chunk]);
  while (held.length >= 8) {
    const [head, size] = [held.readUInt32LE(0), held.readUInt32LE(4)];
    if (held.length < 8 + head + size) break;
    const kind = held.subarray(8, 8 + head).toString("utf8");
    const data = Uint8Array.from(held.subarray(8 + head, 8 + head + size));
    held = held.subarray(8 + head + size);
    process.stdout.write(`${JSON.stringify(await answer(kind, data))}\n`);
  }
}
