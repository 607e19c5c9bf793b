// The parts of the index of a `.devmod` file: its head and its pages. docs/formats.md has the layout.

import { joined, sameItems } from "./bytes.js";
import { bytesText, FormatError, quoteName } from "./errors.js";
import { isMap, Reader } from "./msgpack.js";
import { checkRepeats } from "./repeats.js";

/** @import { Repeats } from "./repeats.js" */
/** @import { Source } from "./source.js" */

const MAGIC = [0x89, 0x64, 0x65, 0x76, 0x6d, 0x6f, 0x64, 0x0a];
/** The number of version 1 of the format. */
const NUMBER = 6;
const HEADER = 48;
const ALIGN = 64;
/** The largest head and the largest page in bytes. */
const MAX_INDEX = 2 ** 26;
const MAX_NUMBER = 2 ** 32 - 1;
/** The most bytes by which the bytes of a record begin behind a multiple of `ALIGN`. */
const MAX_SHIFT = 0xffff;
/** The largest alignment of the first blob. */
const MAX_ALIGN = 2 ** 16;
/** The most bytes that compressed bytes of size n unpack to: `n * MAX_RATIO`, and `FREE_UNPACKED` more for a whole file. */
export const [FREE_UNPACKED, MAX_RATIO] = [2n ** 20n, 256];
const MAX_INT64 = 2n ** 63n - 1n;

/**
 * The origin of a module: target, toolchain, options, digests of its sources, and unknown keys.
 * @typedef {{ target?: string, toolchain?: string, options?: string[], sources?: Record<string, string> } & Record<string, unknown>} Origin
 */

/**
 * What a record is, as messages say it.
 * @typedef {"module" | "sources" | "part" | "attachment"} Role
 */
/** The roles of the records in the arrays of a page. @type {Record<string, Role>} */
const ROLES = { modules: "module", sources: "sources", parts: "part", attached: "attachment" };
/**
 * What a page of names says of a candidate of another page.
 * @typedef {{ number: number, rank: number, variant: readonly string[] }} Claim
 */

/**
 * One record of the index: a module; or sources, a part or an attachment, whose kind is "". `offset` counts from the first byte of the file, and is null for a
 * node without bytes. `unpacked` is the size of what zstd compressed to its bytes.
 * @typedef {object} Entry
 * @property {Role} role
 * @property {string} kind
 * @property {number[]} imports
 * @property {string} format
 * @property {string[]} functions The names of its functions.
 * @property {string} variant
 * @property {number | null} rank The position of a candidate among the candidates.
 * @property {string[]} features What a reader must know to use its bytes. None is known here.
 * @property {Origin | null} origin
 * @property {number | null} offset
 * @property {number} size
 * @property {Uint8Array} digest
 * @property {number | null} unpacked
 * @property {Repeats} repeats The ranges of the (unpacked) bytes that a module's bytes have several times.
 * @property {number} shift The bytes between a multiple of 64 and its bytes.
 * @property {number | null} sources The number of the record of its sources.
 * @property {number[]} parts The numbers of the records of its large constants.
 * @property {string} function The name of the function of an attachment.
 * @property {string} tag What the bytes of an attachment are.
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
  return new Uint8Array(
    await crypto.subtle.digest("SHA-256", /** @type {Uint8Array<ArrayBuffer>} */ (data)),
  );
}

/**
 * Read the head of a file's index, and check it with the header. Nothing after it is read.
 * @param {Source} source
 */
export async function readHead(source) {
  const { place } = source;
  const header = await source.read(0, HEADER);
  if (!header.length || MAGIC.slice(0, header.length).some((byte, at) => byte !== header[at])) {
    throw new FormatError(
      `${place} is not a bundle: it does not begin with the magic bytes of a .devmod file`,
    );
  }
  if (header.length < HEADER)
    throw new FormatError(
      `${place} is cut short: ${bytesText(header.length)}, and the header alone takes ${HEADER}`,
    );
  checkDigest(header.subarray(16), source);
  const fields = new DataView(header.buffer, header.byteOffset, HEADER);
  const number = fields.getUint32(8, true);
  const length = fields.getUint32(12, true);
  if (number > NUMBER) {
    const version = number - NUMBER + 1;
    throw new FormatError(
      `${place} is in version ${version} of the .devmod format, and this devmod-webgpu reads version 1: take a newer devmod-webgpu`,
    );
  }
  if (number > 0 && number < NUMBER) {
    throw new FormatError(
      `${place} is a development file, from before version 1 of the .devmod format: build it again`,
    );
  }
  if (number < 1)
    throw new FormatError(
      `${place} is damaged: the number ${number} of the .devmod format does not exist`,
    );
  if (length > MAX_INDEX)
    throw new FormatError(
      `${place} is damaged: its head has ${bytesText(length)}; the limit is ${MAX_INDEX}`,
    );
  const head = await source.read(HEADER, length);
  if (head.length < length)
    throw new FormatError(
      `${place} is cut short: a head of ${bytesText(length)}, and ${head.length} are left`,
    );
  if (!sameItems(await sha256(head), header.subarray(16, HEADER))) {
    throw new FormatError(
      `${place} is damaged: the SHA-256 of its head is not the one in its header. Get the file again`,
    );
  }
  return { head, end: HEADER + length };
}

/**
 * Check that a file is the one of its address. The SHA-256 of the head is that of the whole file, but for the zeros.
 * @param {Uint8Array} digest That in the header.
 * @param {Source} source
 */
function checkDigest(digest, { place, digests = [] }) {
  const found = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  for (const wanted of digests) {
    if (wanted !== found)
      throw new FormatError(
        `${place} is another file: expected a head with the SHA-256 ${wanted}, got ${found}. Check the address, and get the file again`,
      );
  }
}

/**
 * Read what a head says: the number of candidates, the roots (null: the candidates), the alignment of the first blob, and its pages.
 * @param {Uint8Array} head
 * @param {number} end The offset of the first page.
 * @param {string} place
 */
export function readHeadFields(head, end, place) {
  const reader = new Reader(head, `the index of ${place}`);
  const fields = {
    candidates: -1,
    roots: /** @type {number[] | null} */ (null),
    align: ALIGN,
    pages: /** @type {Page[]} */ ([]),
    sections: /** @type {number[]} */ ([]),
  };
  reader.readPairs((key) => {
    reader.field = key;
    if (key === "candidates") fields.candidates = reader.readInt(0, MAX_NUMBER);
    else if (key === "roots") fields.roots = readNumbers(reader);
    else if (key === "align") fields.align = readAlign(reader);
    else if (key === "pages") fields.pages = readPages(reader, end);
    else if (key === "sections") fields.sections = readSections(reader);
    else reader.readValue();
  });
  reader.finish();
  if (fields.candidates < 0) throw new FormatError(`the index of ${place} has no candidates`);
  if (!fields.pages.length) throw new FormatError(`the index of ${place} has no pages`);
  return fields;
}

/** @param {Reader} reader */
function readAlign(reader) {
  const start = reader.at;
  const align = reader.readInt(ALIGN, MAX_ALIGN);
  if (align & (align - 1)) throw reader.error(`${align} is no power of two`, start);
  return align;
}

/**
 * Read the sections behind the records, of which no name is known, and return their sizes.
 * @param {Reader} reader
 */
function readSections(reader) {
  const names = new Set();
  return reader.readList(() => {
    const start = reader.at;
    if (reader.readArray() !== 3)
      throw reader.error("expected an array of a name, a size and a SHA-256", start);
    names.add(reader.readKey(names));
    const size = Number(reader.readBig(0, MAX_INT64));
    const digest = reader.readBin();
    if (digest.length !== 32) throw reader.error(`a SHA-256 of ${bytesText(digest.length)}`, start);
    return size;
  });
}

/**
 * A page: the number of its first record and of its records, its place and digest, the place of its records' bytes from the first ones on,
 * and its first name (null: it has no names).
 * @typedef {{ first: number, count: number, at: number, size: number, digest: Uint8Array, start: number, end: number, name: Uint8Array | null }} Page
 */

/**
 * @param {Reader} reader
 * @param {number} at
 */
function readPages(reader, at) {
  /** @type {Page[]} */
  const pages = [];
  let [first, end] = [0, 0];
  /** @type {Uint8Array | null} */
  let name = new Uint8Array(0);
  reader.readList(() => {
    reader.field = `pages, ${pages.length}`;
    const begin = reader.at;
    const items = reader.readArray();
    const count = reader.readInt(0, MAX_NUMBER);
    const size = reader.readInt(1, MAX_INDEX);
    const length = BigInt(reader.readBig(0, MAX_INT64));
    const digest = reader.readBin().slice();
    if (items === 6 && name) {
      /** @type {Uint8Array} */
      const before = name;
      const kept = before.subarray(0, reader.readInt(0, before.length));
      name = joined([kept, reader.readBin()]);
      if (pages.length ? compareBytes(name, before) <= 0 : name.length) {
        throw reader.error(
          "its first name is not behind that of the page before, or is not empty for the first page",
          begin,
        );
      }
    } else if (items === 4) name = null;
    else
      throw reader.error(
        "expected an array of 4, or of 6 for a page with names, and those with names first",
        begin,
      );
    if (digest.length !== 32 || count > size) {
      throw reader.error(
        `a SHA-256 of ${bytesText(digest.length)}, or ${count} records in ${bytesText(size)}`,
        begin,
      );
    }
    const start = length ? aligned(end) : end;
    if (BigInt(start) + length > Number.MAX_SAFE_INTEGER - MAX_INDEX)
      throw reader.error(`${bytesText(length)}, beyond any file`, begin);
    end = start + Number(length);
    pages.push({ first, count, at, size, digest, start, end, name });
    first += count;
    at += size;
  });
  reader.field = "pages";
  if (!pages.length) throw reader.error("expected at least one page");
  return pages;
}

/**
 * Compare bytes as names are.
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
export function compareBytes(one, other) {
  const at = one.findIndex((byte, number) => byte !== other[number]);
  if (at < 0) return one.length - other.length;
  return at < other.length
    ? /** @type {number} */ (one[at]) - /** @type {number} */ (other[at])
    : 1;
}

/**
 * Read a page: its records, whose offsets count from `base`, its names of candidates of other pages, and the functions with attachments.
 * @param {Uint8Array} data
 * @param {Page} page
 * @param {number} base The offset of the bytes of the first record.
 * @param {{ free: bigint }} unpacking
 * @param {string} place
 */
export function readPage(data, page, base, unpacking, place) {
  const subject = `the index of ${place}`;
  const reader = new Reader(data, subject);
  /** @type {Record<string, RawEntry[]>} */
  const lists = { modules: [], sources: [], parts: [] };
  /** @type {RawEntry[]} */
  let attached = [];
  /** @type {Map<string, number[]>} */
  const names = new Map();
  /** @type {string[][]} */
  let variants = [];
  reader.readPairs((key) => {
    reader.field = key;
    if (Object.hasOwn(lists, key)) lists[key] = readRecords(reader, key, page.first);
    else if (key === "attached") attached = readAttached(reader);
    else if (key === "names") readNames(reader, names);
    else if (key === "variants") variants = reader.readList(() => readVariant(reader));
    else reader.readValue();
  });
  reader.finish();
  const records = Object.values(lists).flat();
  if (records.length !== page.count)
    throw new FormatError(
      `${subject}: a page has ${records.length} records, and the head says ${page.count}`,
    );
  const entries = placed([...records, ...attached], page, base, unpacking, place);
  const owners = attached.map((each) => each.function);
  return { entries: entries.slice(0, records.length), names, variants, owners };
}

/**
 * @param {Reader} reader
 * @param {string} key
 * @param {number} first The number of the first record.
 */
function readRecords(reader, key, first) {
  const role = /** @type {Role} */ (ROLES[key]);
  return reader.readList((number) => readEntry(reader, `${key}, ${first + number}`, role));
}

/** Read the attachments of a page. @param {Reader} reader */
function readAttached(reader) {
  const start = reader.at;
  const attached = readRecords(reader, "attached", 0);
  const different = new Set(attached.map((each) => JSON.stringify([each.function, each.tag])));
  if (different.size < attached.length) {
    reader.field = "";
    throw reader.error("two attachments have the same function and tag", start);
  }
  return attached;
}

/**
 * @param {Reader} reader
 * @param {Map<string, number[]>} names
 */
function readNames(reader, names) {
  reader.readList(() => {
    const start = reader.at;
    if (reader.readArray() !== 2)
      throw reader.error("expected an array of a name and numbers", start);
    names.set(reader.readKey(names), readNumbers(reader));
  });
}

/** @param {Reader} reader */
function readVariant(reader) {
  const start = reader.at;
  if (reader.readArray() !== 3)
    throw reader.error("expected an array of a kind, a format and a variant", start);
  return [reader.readStr(), reader.readStr(), reader.readStr()];
}

/**
 * @param {number} offset
 * @param {number} [align]
 */
export function aligned(offset, align = ALIGN) {
  return Math.ceil(offset / align) * align;
}

/** @typedef {{ size: number | bigint, unpacked: number | bigint | null, repeats: bigint[][] }} RawBlob */
/** @typedef {Omit<Entry, keyof RawBlob> & RawBlob} RawEntry */

const LOCATION = ["size", "sha256"];
/** The keys that an attachment must have. */
const OF_ATTACHMENT = ["function", "tag", ...LOCATION];
/** The keys that a node without bytes does not have. */
const OF_BYTES = [...LOCATION, "zstd", "repeats", "sources", "features", "shift", "parts"];

/**
 * Read the record of a module, or of sources, a part or an attachment.
 * @param {Reader} reader
 * @param {string} subject
 * @param {Role} role
 * @returns {RawEntry}
 */
function readEntry(reader, subject, role) {
  const start = reader.at;
  /** @type {RawEntry} */
  const result = {
    role,
    kind: "",
    imports: [],
    format: "",
    functions: [],
    variant: "",
    rank: null,
    features: [],
    origin: null,
    offset: 0,
    size: 0,
    digest: new Uint8Array(32),
    unpacked: null,
    repeats: [],
    shift: 0,
    sources: null,
    parts: [],
    function: "",
    tag: "",
  };
  const isModule = role === "module";
  reader.field = subject;
  const taken = reader.readPairs((key) => {
    reader.field = `${subject}, ${key}`;
    if (key === "size") result.size = reader.readBig(0, MAX_INT64);
    else if (key === "sha256") result.digest = reader.readBin().slice();
    else if (key === "zstd") result.unpacked = readUnpacked(reader);
    else if (key === "features") result.features = reader.readList(() => reader.readStr());
    else if (key === "shift") result.shift = reader.readInt(0, MAX_SHIFT);
    else if (role === "attachment" && (key === "function" || key === "tag"))
      result[key] = reader.readStr();
    else if (!isModule) reader.readValue();
    else if (key === "kind" || key === "format" || key === "variant")
      result[key] = reader.readStr();
    else if (key === "imports" || key === "parts") result[key] = readNumbers(reader);
    else if (key === "functions") result.functions = reader.readList(() => reader.readStr());
    else if (key === "origin") result.origin = readOrigin(reader);
    else if (key === "repeats")
      result.repeats = reader.readList(() =>
        reader.readList(() => BigInt(reader.readBig(0, MAX_INT64))),
      );
    else if (key === "rank" || key === "sources") result[key] = reader.readInt(0, MAX_NUMBER);
    else reader.readValue();
  });
  reader.field = subject;
  const isNode = ["bundle", "_lib"].includes(result.kind);
  if (isModule && !isNode && !/^[a-z][a-z0-9_]{0,31}$/.test(result.kind)) {
    throw reader.error("no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}", start);
  }
  const wanted = role === "attachment" ? OF_ATTACHMENT : LOCATION;
  const missing = wanted.find((key) => !taken.has(key));
  const present = OF_BYTES.filter((key) => taken.has(key));
  if (isNode ? present.length : missing) {
    const found = present.join(", ") || "none";
    throw reader.error(
      !isModule
        ? `no ${missing}`
        : `a module of kind '${result.kind}' has ${isNode ? "no" : "a"} size and sha256; found: ${found}`,
      start,
    );
  }
  if (result.digest.length !== 32)
    throw reader.error(`a sha256 of ${bytesText(result.digest.length)}`, start);
  if (result.parts.length && result.kind !== "const_loader" && !result.features.length)
    throw reader.error(
      `a module of kind '${result.kind}' has parts, which only constants and modules with features have`,
      start,
    );
  return { ...result, offset: isNode ? null : 0 };
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
function readNumbers(reader) {
  return reader.readList(() => reader.readInt(0, MAX_NUMBER));
}

/**
 * @param {Reader} reader
 * @returns {Origin}
 */
function readOrigin(reader) {
  const start = reader.at;
  const result = reader.readMapObject();
  const strings = (/** @type {unknown} */ value) => typeof value === "string";
  if (![result.target, result.toolchain].every((text) => text === undefined || strings(text))) {
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
 * Return a record in a message.
 * @param {RawEntry} record
 * @param {number} number
 */
function described({ role, kind, tag, function: name }, number) {
  if (role === "module") return `module ${number} (${kind})`;
  if (role === "attachment") return `the attachment ${quoteName(tag)} of ${quoteName(name)}`;
  return role === "part" ? "a part" : role;
}

/**
 * Return the records of a page with their places. Check that they unpack to an allowed size, and that they have the bytes that the head says.
 * @param {RawEntry[]} records
 * @param {Page} page
 * @param {number} base
 * @param {{ free: bigint }} unpacking
 * @param {string} place
 * @returns {Entry[]}
 */
function placed(records, page, base, unpacking, place) {
  let end = BigInt(page.start);
  const result = records.map((record, at) => {
    const { offset, size, unpacked, repeats, shift, features } = record;
    if (offset === null) return { ...record, size: 0, unpacked: null, repeats: [] };
    const subject = `the index of ${place}: the bytes of ${described(record, page.first + at)}`;
    const stored = BigInt(unpacked ?? size);
    const limit = unpacking.free + BigInt(size) * BigInt(MAX_RATIO);
    // Features may give both another meaning, and nothing of the bytes is used.
    const isUsed = !features.length;
    if (isUsed && unpacked !== null) {
      if (stored > limit)
        throw new FormatError(
          `${subject} unpack from ${size} to ${bytesText(stored)}; the limit is ${limit}`,
        );
      const beyond = stored - BigInt(size) * BigInt(MAX_RATIO);
      if (beyond > 0n) unpacking.free -= beyond;
    }
    const checked = isUsed ? checkRepeats(repeats, stored, BigInt(size), subject) : [];
    const start = ((end + 63n) / 64n) * 64n + BigInt(shift);
    if (size) end = start + BigInt(size);
    return {
      ...record,
      offset: base + Number(start),
      size: Number(size),
      unpacked: unpacked === null ? null : Number(unpacked),
      repeats: checked,
    };
  });
  if (end !== BigInt(page.end)) {
    const [found, said] = [end - BigInt(page.start), page.end - page.start];
    throw new FormatError(
      `the index of ${place}: the records of a page have ${bytesText(found)}, and the head says ${said}`,
    );
  }
  return result;
}
