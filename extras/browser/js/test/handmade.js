// Files that are written by hand, with everything that devmod would refuse to write.

import { createHash } from "node:crypto";

/** A float of msgpack, which may be a whole number. Other whole numbers are integers. */
export class Float {
  constructor(value) {
    this.value = value;
  }
}

/** Bytes of msgpack that are written as they are. */
export class Raw {
  constructor(bytes) {
    this.bytes = bytes;
  }
}

const sha256 = (data) => createHash("sha256").update(data).digest();
const aligned = (offset, align = 64) => Math.ceil(offset / align) * align;

/** Return a number of some bytes, big-endian, behind its first byte. */
function tagged(mark, size, value) {
  const result = Buffer.alloc(1 + size);
  result[0] = mark;
  if (size === 8) result.writeBigUInt64BE(BigInt.asUintN(64, BigInt(value)), 1);
  else result.writeUIntBE(Number(value), 1, size);
  return result;
}

/** Return the bytes of msgpack of a value. An object is a map, and a Buffer a binary. */
export function pack(value) {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === "number" && !Number.isInteger(value)) return pack(new Float(value));
  if (typeof value === "number" || typeof value === "bigint") {
    if (value >= 0 && value < 0x80) return Buffer.from([Number(value)]);
    return tagged(value < 0 || value < 2 ** 63 ? 0xd3 : 0xcf, 8, value);
  }
  if (typeof value === "string")
    return Buffer.concat([tagged(0xda, 2, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Raw) return value.bytes;
  if (value instanceof Float) {
    const result = Buffer.alloc(9, 0xcb);
    result.writeDoubleBE(value.value, 1);
    return result;
  }
  if (value instanceof Uint8Array) return Buffer.concat([tagged(0xc6, 4, value.length), value]);
  if (Array.isArray(value))
    return Buffer.concat([tagged(0xdc, 2, value.length), ...value.map(pack)]);
  const pairs = Object.entries(value).flat();
  return Buffer.concat([tagged(0xde, 2, pairs.length / 2), ...pairs.map(pack)]);
}

/** Return the bytes of a module: its fields one after the other. */
export const moduleBytes = (...fields) => Buffer.concat(fields.map(pack));

/** Return the record of bytes, with them for `fileOf`. */
export function record(bytes, fields) {
  return { ...fields, size: bytes.length, sha256: sha256(bytes), bytes };
}

/**
 * Return a file. `pages` have arrays of records, in the order of the file; each page may have its `name`. `head` has more keys of the
 * head, `sections` its sections.
 */
export function fileOf(pages, head = {}, sections = {}) {
  let body = Buffer.alloc(0);
  const put = (bytes, shift = 0) => {
    if (!bytes.length) return;
    const zeros = Buffer.alloc(aligned(body.length) + shift - body.length);
    body = Buffer.concat([body, zeros, bytes]);
  };
  let before = "";
  const packed = [];
  const rows = pages.map(({ name = "", ...page }, at) => {
    const start = aligned(body.length);
    const written = {};
    let count = 0;
    for (const [key, list] of Object.entries(page)) {
      written[key] = list;
      if (!["modules", "sources", "parts", "attached"].includes(key)) continue;
      if (key !== "attached") count += list.length;
      for (const { bytes, shift } of list) put(bytes, shift);
      written[key] = list.map(({ bytes, ...fields }) => fields);
    }
    const data = pack(written);
    packed.push(data);
    const row = [count, data.length, Math.max(0, body.length - start), sha256(data)];
    if (name === null) return row;
    row.push(0, Buffer.from(at ? name : before));
    before = name;
    return row;
  });
  const named = Object.entries(sections).map(([name, bytes]) => [
    name,
    bytes.length,
    sha256(bytes),
  ]);
  for (const bytes of Object.values(sections)) put(bytes);
  const candidates = pages.flatMap(({ modules = [] }) => modules).filter(({ rank }) => rank >= 0);
  const fields = { candidates: candidates.length, pages: rows, ...head };
  if (named.length) fields.sections = named;
  const bytes = pack(fields);
  const header = Buffer.concat([
    Buffer.from("\x89devmod\n\x06\0\0\0____", "latin1"),
    sha256(bytes),
  ]);
  header.writeUInt32LE(bytes.length, 12);
  const index = Buffer.concat([header, bytes, ...packed]);
  const zeros = Buffer.alloc(aligned(index.length, head.align ?? 64) - index.length);
  return Buffer.concat([index, zeros, body]);
}
