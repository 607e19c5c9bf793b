// The head of a `.devmod` file: magic, version, digest and index. docs/formats.md has the layout.

import { FormatError } from "./errors.js";
import { isMap, Reader } from "./msgpack.js";
import { checkRepeats } from "./repeats.js";

/** @import { Repeats } from "./repeats.js" */
/** @import { Source } from "./source.js" */

const MAGIC = [0x89, 0x64, 0x65, 0x76, 0x6d, 0x6f, 0x64, 0x0a];
const VERSION = 3;
const HEADER = 48;
const ALIGN = 64;
/** The largest index in bytes, enough for some hundred thousand modules. */
const MAX_INDEX = 2 ** 26;
/** The most bytes that compressed bytes of size n unpack to: `n * MAX_RATIO`, and `FREE_UNPACKED` more for a whole file. */
const [FREE_UNPACKED, MAX_RATIO] = [2 ** 20, 256];
/** The deepest nesting of imports. */
const MAX_DEPTH = 64;
/** The number by which nodes without bytes may exceed the other modules. */
const MAX_BARE = 1024;
const MAX_INT64 = 2n ** 63n - 1n;

/**
 * The origin of a module: target, toolchain, options, digests of its sources, and unknown keys.
 * @typedef {{ target?: string, toolchain?: string, options?: string[], sources?: Record<string, string> } & Record<string, unknown>} Origin
 */

/**
 * Bytes in the file. `offset` counts from the first byte of the file. `unpacked` is the size of what zstd compressed to them.
 * @typedef {object} Blob
 * @property {number} offset
 * @property {number} size
 * @property {Uint8Array} digest
 * @property {number | null} unpacked
 * @property {Repeats} repeats The ranges of the (unpacked) bytes that a module's bytes have several times.
 */

/**
 * One module in the index. `offset` is null for a node without bytes. `sources` are the bytes of its sources.
 * @typedef {object} Entry
 * @property {string} kind
 * @property {number[]} imports
 * @property {string} format
 * @property {string[]} functions The names of its functions.
 * @property {string} variant
 * @property {Origin | null} origin
 * @property {number | null} offset
 * @property {number} size
 * @property {Uint8Array} digest
 * @property {Blob["unpacked"]} unpacked
 * @property {Repeats} repeats
 * @property {Blob | null} sources
 */

/**
 * Return the SHA-256 of bytes.
 * @param {Uint8Array} data
 */
export async function sha256(data) {
  if (!globalThis.crypto?.subtle) {
    throw new FormatError(
      "this page cannot check digests: the browser has crypto.subtle (and WebGPU) only on pages served by https or from localhost",
    );
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {Uint8Array<ArrayBuffer>} */ (data)));
}

/**
 * Return whether two digests are equal.
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
export function sameBytes(one, other) {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}

/**
 * Read the roots and modules of a file, and check header and index. Nothing after the index is read.
 * @param {Source} source
 * @returns {Promise<{ roots: number[], entries: Entry[] }>}
 */
export async function readHead(source) {
  const { place } = source;
  const header = await source.read(0, HEADER);
  if (!header.length || MAGIC.slice(0, header.length).some((byte, at) => byte !== header[at])) {
    throw new FormatError(`${place} is not a bundle: it does not begin with the magic bytes of a .devmod file`);
  }
  if (header.length < HEADER) throw new FormatError(`${place} is cut short: ${header.length} bytes, and the header alone takes ${HEADER}`);
  const fields = new DataView(header.buffer, header.byteOffset, HEADER);
  const version = fields.getUint32(8, true);
  const length = fields.getUint32(12, true);
  if (version > VERSION) {
    throw new FormatError(
      `${place} is in version ${version} of the .devmod format, and this devmod-webgpu reads versions 1 to ${VERSION}: take a newer devmod-webgpu`,
    );
  }
  if (version < 1) throw new FormatError(`${place} is damaged: version ${version} of the .devmod format does not exist`);
  if (length > MAX_INDEX) {
    throw new FormatError(`${place} is damaged: its index has ${length} bytes; the limit is ${MAX_INDEX}`);
  }
  const left = source.size - HEADER;
  if (source.size >= 0 && length > left) {
    throw new FormatError(`${place} is cut short: an index of ${length} bytes, and ${left} are left`);
  }
  const index = await source.read(HEADER, length);
  if (index.length < length) throw new FormatError(`${place} is cut short: an index of ${length} bytes, and ${index.length} are left`);
  if (!sameBytes(await sha256(index), header.subarray(16, HEADER))) {
    throw new FormatError(`${place} is damaged: the SHA-256 of its index is not the one in its header. Get the file again`);
  }
  const start = aligned(HEADER + length);
  if (source.size >= 0 && source.size < start) {
    throw new FormatError(`${place} is cut short: ${source.size} bytes, and its head alone takes ${start}`);
  }
  return readIndex(index, start, source.size < 0 ? -1 : source.size - start, place, version);
}

/** @param {number} offset */
function aligned(offset) {
  return Math.ceil(offset / ALIGN) * ALIGN;
}

/**
 * @param {Uint8Array} index
 * @param {number} start The number of bytes of the head.
 * @param {number} available The number of bytes after the head; -1 if it is unknown.
 * @param {string} place
 * @param {number} version
 */
function readIndex(index, start, available, place, version) {
  const reader = new Reader(index, `the index of ${place}`);
  /** @type {number[] | null} */
  let roots = null;
  /** @type {RawEntry[] | null} */
  let entries = null;
  /** @type {RawBlob[]} */
  let sources = [];
  /** @type {Set<string>} */
  const taken = new Set();
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    reader.field = "";
    const key = reader.readKey(taken);
    taken.add(key);
    reader.field = key;
    if (key === "roots") roots = readNumbers(reader);
    else if (key === "modules") {
      entries = [];
      for (let count = reader.readArray(); count > 0; count--) entries.push(readEntry(reader, entries.length));
    } else if (key === "sources") {
      sources = [];
      for (let count = reader.readArray(); count > 0; count--) sources.push(readSources(reader, sources.length));
    } else reader.readValue();
  }
  reader.finish();
  if (!roots || !entries) throw new FormatError(`the index of ${place} has no ${roots ? "modules" : "roots"}`);
  checkTree(roots, entries, place);
  checkSources(entries, sources, place);
  const blobs = checkBlobs([...entries, ...sources], start, available, place);
  if (version < 2 && (sources.length || entries.some(({ unpacked }) => unpacked !== null))) {
    throw new FormatError(`the index of ${place} has compressed bytes or sources, which version ${version} of the format does not have`);
  }
  if (version < 3 && entries.some(({ repeats }) => repeats.length)) {
    throw new FormatError(`the index of ${place} has repeats, which version ${version} of the format does not have`);
  }
  const found = blobs.slice(entries.length);
  return {
    roots,
    entries: entries.map((entry, number) => ({
      ...entry,
      .../** @type {Blob} */ (blobs[number]),
      offset: entry.offset === null ? null : /** @type {Blob} */ (blobs[number]).offset,
      sources: entry.sources === null ? null : /** @type {Blob} */ (found[entry.sources]),
    })),
  };
}

/** @typedef {{ kind: string, offset: number | bigint | null, size: number | bigint, digest: Uint8Array, unpacked: number | bigint | null, repeats: bigint[][] }} RawBlob */
/** @typedef {Omit<Entry, keyof RawBlob | "sources"> & RawBlob & { sources: number | null }} RawEntry */

/**
 * @param {Reader} reader
 * @param {number} number
 * @returns {RawEntry}
 */
function readEntry(reader, number) {
  const subject = `modules, ${number}`;
  const start = reader.at;
  /** @type {Set<string>} */
  const taken = new Set();
  /** @type {RawEntry} */
  const result = {
    kind: "", imports: [], format: "", functions: [], variant: "", origin: null, offset: null, size: 0, digest: new Uint8Array(32), unpacked: null, repeats: [], sources: null,
  };
  reader.field = subject;
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    reader.field = subject;
    const key = reader.readKey(taken);
    taken.add(key);
    reader.field = `${subject}, ${key}`;
    if (key === "kind" || key === "format" || key === "variant") result[key] = reader.readStr();
    else if (key === "imports") result.imports = readNumbers(reader);
    else if (key === "functions") {
      result.functions = [];
      for (let count = reader.readArray(); count > 0; count--) result.functions.push(reader.readStr());
    } else if (key === "origin") result.origin = readOrigin(reader);
    else if (key === "repeats") result.repeats = readRepeats(reader);
    else if (key === "sources") result.sources = reader.readInt(0, 2 ** 32 - 1);
    else readPlace(reader, key, result);
  }
  reader.field = subject;
  const bare = result.kind === "bundle" || result.kind === "_lib";
  if (!bare && !/^[a-z][a-z0-9_]{0,31}$/.test(result.kind)) {
    throw reader.error("no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}", start);
  }
  const present = [...LOCATION, "zstd", "repeats", "sources"].filter((key) => taken.has(key));
  if (bare ? present.length : !LOCATION.every((key) => taken.has(key))) {
    const expected = bare ? "no" : "an";
    const found = present.join(", ") || "none";
    throw reader.error(`a module of kind '${result.kind}' has ${expected} offset, size and sha256; found: ${found}`, start);
  }
  if (result.digest.length !== 32) throw reader.error(`a sha256 of ${result.digest.length} bytes`, start);
  return result;
}

const LOCATION = ["offset", "size", "sha256"];

/**
 * @param {Reader} reader
 * @param {number} number
 * @returns {RawBlob}
 */
function readSources(reader, number) {
  const subject = `sources, ${number}`;
  const start = reader.at;
  /** @type {Set<string>} */
  const taken = new Set();
  /** @type {RawBlob} */
  const result = { kind: "", offset: 0, size: 0, digest: new Uint8Array(32), unpacked: null, repeats: [] };
  reader.field = subject;
  for (let pairs = reader.readMap(); pairs > 0; pairs--) {
    reader.field = subject;
    const key = reader.readKey(taken);
    taken.add(key);
    reader.field = `${subject}, ${key}`;
    readPlace(reader, key, result);
  }
  reader.field = subject;
  const missing = LOCATION.find((key) => !taken.has(key));
  if (missing || result.digest.length !== 32) throw reader.error(missing ? `no ${missing}` : `a sha256 of ${result.digest.length} bytes`, start);
  return result;
}

/**
 * Read a field of the place of bytes; skip the value of an unknown key.
 *
 * @param {Reader} reader
 * @param {string} key
 * @param {RawEntry | RawBlob} result
 */
function readPlace(reader, key, result) {
  if (key === "offset" || key === "size") result[key] = reader.readBig(0, MAX_INT64);
  else if (key === "sha256") result.digest = reader.readBin().slice();
  else if (key === "zstd") result.unpacked = readUnpacked(reader);
  else reader.readValue();
}

/** Read the size of what was compressed. Its digest is not used here. @param {Reader} reader */
function readUnpacked(reader) {
  const start = reader.at;
  if (reader.readArray() === 2) {
    const size = reader.readBig(0, MAX_INT64);
    if (reader.readBin().length === 32) return size;
  }
  throw reader.error("expected an array of a size and a SHA-256", start);
}

/** @param {Reader} reader */
function readRepeats(reader) {
  const result = [];
  for (let count = reader.readArray(); count > 0; count--) {
    const numbers = [];
    for (let left = reader.readArray(); left > 0; left--) numbers.push(BigInt(reader.readBig(0, MAX_INT64)));
    result.push(numbers);
  }
  return result;
}

/** @param {Reader} reader */
function readNumbers(reader) {
  const result = [];
  for (let count = reader.readArray(); count > 0; count--) result.push(reader.readInt(0, 2 ** 32 - 1));
  return result;
}

/**
 * @param {Reader} reader
 * @returns {Origin}
 */
function readOrigin(reader) {
  const start = reader.at;
  const result = reader.readMapObject();
  const strings = (/** @type {unknown} */ value) => typeof value === "string";
  if (!strings(result.target ?? "") || !strings(result.toolchain ?? "")) {
    throw reader.error("the target and the toolchain of an origin are strings", start);
  }
  if ("options" in result && !(Array.isArray(result.options) && result.options.every(strings))) {
    throw reader.error("the options of an origin are a list of strings", start);
  }
  const { sources } = result;
  if ("sources" in result && !(isMap(sources) && Object.values(sources).every(strings))) {
    throw reader.error("the sources of an origin are a map of strings", start);
  }
  return /** @type {Origin} */ (result);
}

/**
 * Check that all imports exist, that every module is reachable, and that the tree has no cycle and is not too deep.
 * @param {number[]} roots
 * @param {RawEntry[]} entries
 * @param {string} place
 */
function checkTree(roots, entries, place) {
  const subject = `the index of ${place}`;
  const depth = new Array(entries.length).fill(0);
  for (const root of roots) {
    if (root >= entries.length) throw new FormatError(`${subject}: the root ${root} is none of its ${entries.length} modules`);
    depth[root] = 1;
  }
  if (!roots.length) throw new FormatError(`${subject} has no root`);
  if (new Set(roots).size !== roots.length) throw new FormatError(`${subject} names a root twice`);
  entries.forEach((entry, number) => {
    if (!depth[number]) throw new FormatError(`${subject}: module ${number} is neither a root nor imported by a module before it`);
    if (depth[number] > MAX_DEPTH) throw new FormatError(`${subject}: module ${number} is more than ${MAX_DEPTH} imports deep`);
    for (const child of entry.imports) {
      if (child >= entries.length) {
        throw new FormatError(`${subject}: module ${number} imports ${child}, and there are ${entries.length} modules`);
      }
      if (child <= number) {
        throw new FormatError(`${subject}: module ${number} imports ${child}, which may be a cycle; expected a number after its own`);
      }
      depth[child] = Math.max(depth[child], depth[number] + 1);
    }
  });
  const bare = entries.filter((entry) => entry.offset === null).length;
  const others = entries.length - bare;
  if (bare - others > MAX_BARE) {
    throw new FormatError(`${subject}: ${bare} nodes without bytes and ${others} modules with some; there may be ${MAX_BARE} more of the first`);
  }
}

/**
 * Check that the sources of each module exist, and that a module uses each of them.
 * @param {RawEntry[]} entries
 * @param {RawBlob[]} sources
 * @param {string} place
 */
function checkSources(entries, sources, place) {
  const used = new Set();
  for (const [number, { sources: source }] of entries.entries()) {
    if (source === null) continue;
    if (source >= sources.length) {
      throw new FormatError(`the index of ${place}: module ${number} has the sources ${source}, and there are ${sources.length}`);
    }
    used.add(source);
  }
  const unused = sources.findIndex((_, number) => !used.has(number));
  if (unused >= 0) throw new FormatError(`the index of ${place}: no module has the sources ${unused}`);
}

/**
 * Check that the bytes are in order, aligned, without overlap or gap, end at the end of the file, and unpack to an allowed size.
 * @param {RawBlob[]} blobs
 * @param {number} start
 * @param {number} available
 * @param {string} place
 * @returns {Blob[]}
 */
function checkBlobs(blobs, start, available, place) {
  let end = 0;
  let free = BigInt(FREE_UNPACKED); // for the whole file
  const result = blobs.map(({ kind, offset, size, digest, unpacked, repeats }, number) => {
    if (offset === null) return { offset: 0, size: 0, digest, unpacked: null, repeats: [] };
    const subject = `the index of ${place}: the bytes of ${kind ? `module ${number} (${kind})` : "sources"}`;
    const stored = BigInt(unpacked ?? size);
    const beyond = unpacked !== null ? stored - BigInt(size) * BigInt(MAX_RATIO) : 0n;
    if (beyond > free) {
      throw new FormatError(`${subject} unpack from ${size} to ${stored} bytes; the limit is ${free + BigInt(size) * BigInt(MAX_RATIO)}`);
    }
    if (beyond > 0n) free -= beyond;
    const checked = checkRepeats(repeats, stored, BigInt(size), subject);
    if (offset < end) {
      throw new FormatError(`${subject} overlap those before them: they begin at ${offset}, and those end at ${end}`);
    }
    if (offset !== aligned(end)) throw new FormatError(`${subject} have a bad offset: expected ${aligned(end)}, got ${offset}`);
    const stop = BigInt(offset) + BigInt(size);
    if (available >= 0 && stop > available) {
      throw new FormatError(`${subject} end at ${stop}, and there are ${available}: the file is cut short, or the size is wrong`);
    }
    if (stop > Number.MAX_SAFE_INTEGER - ALIGN) throw new FormatError(`${subject} end at ${stop}, beyond any file`);
    end = Number(stop);
    return { offset: start + Number(offset), size: Number(size), digest, unpacked: unpacked === null ? null : Number(unpacked), repeats: checked };
  });
  if (available >= 0 && end !== available) {
    throw new FormatError(`${place}: ${available - end} more bytes than its index describes`);
  }
  return result;
}
