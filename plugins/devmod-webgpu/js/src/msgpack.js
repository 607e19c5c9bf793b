// A strict reader of msgpack, for bytes that strangers wrote: the same rules, and the same words, as devmod's reader in Python.
//
// It takes every valid form of msgpack and refuses what our formats never hold: extension types, keys that are not strings, keys
// that stand twice, strings that are not UTF-8. Nothing is allocated on the word of a length: each is held against the bytes that
// are left first. A binary is a view of the buffer, never a copy. (Readers on npm take a key twice and believe a count.)

import { FormatError, shown } from "./errors.js";

/** How deep arrays and maps may lie in each other where a value of any sort may stand. */
const MAX_DEPTH = 32;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const SHORT = 40;
/** How many objects are remembered to be read again: looking through them must cost less than reading. */
const MAX_KNOWN = 4;
/** How many values a reader reads, where it is not told. */
export const MAX_VALUES = 2 ** 20;

/** @type {Record<number, number>} */
const STR = { 0xd9: 1, 0xda: 2, 0xdb: 4 };
/** @type {Record<number, number>} */
const BIN = { 0xc4: 1, 0xc5: 2, 0xc6: 4 };
/** @type {Record<number, number>} */
const ARRAY = { 0xdc: 2, 0xdd: 4 };
/** @type {Record<number, number>} */
const MAP = { 0xde: 2, 0xdf: 4 };
/** @type {Record<number, [number, boolean]>} */
const INT = {
  0xcc: [1, false], 0xcd: [2, false], 0xce: [4, false], 0xcf: [8, false],
  0xd0: [1, true], 0xd1: [2, true], 0xd2: [4, true], 0xd3: [8, true],
};

/**
 * Any value of msgpack but extension types. An integer that a number does not hold exactly is a bigint.
 * @typedef {null | boolean | number | bigint | string | Uint8Array | Value[] | { [key: string]: Value }} Value
 */

/** Reads one msgpack object after the other. `field` is what is being read, `at` the offset of the next byte; messages name both. */
export class Reader {
  #left;
  #most;
  #view;

  /**
   * @param {Uint8Array} data
   * @param {string} what What the bytes are, for messages: "the bytes of the opencl module".
   * @param {string} [kind] The kind that an error carries.
   * @param {number} [most] How many values are read.
   */
  constructor(data, what, kind = "", most = MAX_VALUES) {
    this.data = data;
    this.what = what;
    this.kind = kind;
    this.field = "";
    this.at = 0;
    this.#left = this.#most = most;
    this.#view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  /**
   * The error that names the field and the offset.
   * @param {string} problem
   * @param {number} [at]
   */
  error(problem, at = this.at) {
    return new FormatError(`${this.what}: ${this.field ? `${this.field}: ` : ""}${problem}, at byte ${at}`, { kind: this.kind });
  }

  /** FormatError where bytes follow the last object. */
  finish() {
    this.field = "";
    const trailing = this.data.length - this.at;
    if (trailing) throw this.error(`${trailing} more ${trailing === 1 ? "byte follows" : "bytes follow"} the last field`);
  }

  // -- one object of a sort that is known

  /** A string. */
  readStr() {
    const mark = this.#mark();
    if (mark >= 0xa0 && mark <= 0xbf) return this.#text(mark & 0x1f);
    const size = STR[mark];
    if (size !== undefined) return this.#text(this.#length(size));
    throw this.#mistyped("a string", mark);
  }

  /** A binary: a view of the buffer. */
  readBin() {
    const mark = this.#mark();
    const size = BIN[mark];
    if (size === undefined) throw this.#mistyped("a binary", mark);
    return this.#slice(this.#length(size));
  }

  /** The number of items of an array, which follow. */
  readArray() {
    const mark = this.#mark();
    if (mark >= 0x90 && mark <= 0x9f) return this.#items(mark & 0x0f, 1);
    const size = ARRAY[mark];
    if (size !== undefined) return this.#items(this.#length(size), 1);
    throw this.#mistyped("an array", mark);
  }

  /** The number of pairs of a map, which follow: each a `readKey` and a value. */
  readMap() {
    const mark = this.#mark();
    if (mark >= 0x80 && mark <= 0x8f) return this.#items(mark & 0x0f, 2);
    const size = MAP[mark];
    if (size !== undefined) return this.#items(this.#length(size), 2);
    throw this.#mistyped("a map", mark);
  }

  /**
   * An integer between two bounds, both included.
   * @param {number | bigint} low
   * @param {number | bigint} high
   * @returns {number | bigint}
   */
  readBig(low, high) {
    const start = this.at;
    const mark = this.#mark();
    const form = INT[mark];
    /** @type {number | bigint} */
    let value;
    if (mark <= 0x7f) value = mark;
    else if (mark >= 0xe0) value = mark - 0x100;
    else if (form !== undefined) value = this.#number(form[0], form[1]);
    else throw this.#mistyped("an integer", mark);
    if (value < low || value > high) throw this.error(`${value} is not between ${low} and ${high}`, start);
    return value;
  }

  /**
   * The same, where the bounds are exact as numbers.
   * @param {number} low
   * @param {number} high
   */
  readInt(low, high) {
    return Number(this.readBig(low, high));
  }

  /**
   * A key of a map, which `taken` must not have yet.
   * @param {{ has(name: string): boolean }} taken
   */
  readKey(taken) {
    const start = this.at;
    const name = this.readStr();
    if (taken.has(name)) throw this.error(`the key ${shown(name)} stands twice`, start);
    return name;
  }

  // -- one object of any sort

  /**
   * Any object but an extension type.
   * @param {number} [depth]
   * @returns {Value}
   */
  readValue(depth = 0) {
    if (depth > MAX_DEPTH) throw this.error(`more than ${MAX_DEPTH} arrays and maps lie in each other`);
    if (this.at >= this.data.length) this.#mark();
    const mark = /** @type {number} */ (this.data[this.at]);
    switch (sortOf(mark)) {
      case "a string":
        return this.readStr();
      case "an integer":
        return this.readBig(-(2n ** 63n), 2n ** 64n - 1n);
      case "an array": {
        /** @type {Value[]} */
        const made = [];
        for (let count = this.readArray(); count > 0; count--) made.push(this.readValue(depth + 1));
        return made;
      }
      case "a map":
        return this.readMapObject(depth);
      case "a binary":
        return this.readBin().slice();
      case "a float":
        this.#mark();
        return this.#float(mark === 0xca ? 4 : 8);
      case "nil":
      case "a boolean":
        this.#mark();
        return mark === 0xc0 ? null : mark === 0xc3;
      default:
        throw this.error(`found ${sortOf(mark)}, which has no place here`);
    }
  }

  /**
   * A map with its values, as `readValue` reads them. The object has no prototype: a key may be any string.
   * @param {number} [depth]
   */
  readMapObject(depth = 0) {
    /** @type {{ [key: string]: Value }} */
    const made = Object.create(null);
    const taken = { has: (/** @type {string} */ name) => name in made };
    for (let count = this.readMap(); count > 0; count--) {
      const name = this.readKey(taken);
      made[name] = this.readValue(depth + 1);
    }
    return made;
  }

  // -- what stands in several places

  /**
   * What `read` makes of the next objects, or what it made before of the very same bytes. An object of msgpack says itself where it
   * ends, so equal bytes are equal objects, whatever follows them. Of the functions of 1,000 shaders, few take new arguments.
   * @template T
   * @param {{ bytes: Uint8Array, values: number, made: T }[]} known The newest first.
   * @param {() => T} read
   * @returns {T}
   */
  shared(known, read) {
    const at = this.at;
    for (const { bytes, values, made } of known) {
      if (values <= this.#left && this.#startsWith(bytes)) {
        this.at += bytes.length;
        this.#left -= values;
        return made;
      }
    }
    const left = this.#left;
    const made = read();
    known.unshift({ bytes: this.data.subarray(at, this.at), values: left - this.#left, made });
    known.length = Math.min(known.length, MAX_KNOWN);
    return made;
  }

  /** @param {Uint8Array} bytes */
  #startsWith(bytes) {
    const { at, data } = this;
    if (bytes.length > data.length - at) return false;
    for (let number = 0; number < bytes.length; number++) if (bytes[number] !== data[at + number]) return false;
    return true;
  }

  // -- bytes

  /** The first byte of the next object. */
  #mark() {
    this.#left -= 1;
    if (this.#left < 0) throw this.error(`more than ${this.#most} values`);
    const mark = this.data[this.at];
    if (mark === undefined) throw this.error("the bytes end where an object should begin");
    this.at += 1;
    return mark;
  }

  /** @param {number} size */
  #slice(size) {
    const left = this.data.length - this.at;
    if (size > left) throw this.error(`a length of ${size} bytes, and ${left} are left`);
    this.at += size;
    return this.data.subarray(this.at - size, this.at);
  }

  /** @param {number} size */
  #length(size) {
    return Number(this.#number(size, false));
  }

  /**
   * @param {number} size
   * @param {boolean} signed
   * @returns {number | bigint}
   */
  #number(size, signed) {
    const at = this.at;
    this.#slice(size);
    if (size === 1) return signed ? this.#view.getInt8(at) : this.#view.getUint8(at);
    if (size === 2) return signed ? this.#view.getInt16(at) : this.#view.getUint16(at);
    if (size === 4) return signed ? this.#view.getInt32(at) : this.#view.getUint32(at);
    const value = signed ? this.#view.getBigInt64(at) : this.#view.getBigUint64(at);
    const plain = Number(value);
    return Number.isSafeInteger(plain) ? plain : value;
  }

  /** @param {number} size */
  #float(size) {
    const at = this.at;
    this.#slice(size);
    return size === 4 ? this.#view.getFloat32(at) : this.#view.getFloat64(at);
  }

  /** @param {number} size */
  #text(size) {
    const start = this.at;
    const bytes = this.#slice(size);
    if (size <= SHORT) {
      // Nearly every string of ours is short and plain, and a bundle of 1,000 shaders has 50,000 of them: a decoder is slow to ask.
      let text = "";
      let at = 0;
      for (; at < size; at++) {
        const byte = /** @type {number} */ (bytes[at]);
        if (byte > 0x7f) break;
        text += String.fromCharCode(byte);
      }
      if (at === size) return text;
    }
    try {
      return UTF8.decode(bytes);
    } catch {
      throw this.error("a string is not UTF-8", start + validPrefix(bytes));
    }
  }

  /**
   * `count`, held against the bytes that are left: an item takes at least one.
   * @param {number} count
   * @param {number} size
   */
  #items(count, size) {
    const left = this.data.length - this.at;
    if (count * size > left) throw this.error(`a count of ${count}, and ${left} bytes are left`);
    return count;
  }

  /**
   * @param {string} wanted
   * @param {number} mark
   */
  #mistyped(wanted, mark) {
    return this.error(`expected ${wanted}, found ${sortOf(mark)}`, this.at - 1);
  }
}

/**
 * How many bytes of this are UTF-8 before the first that are not.
 * @param {Uint8Array} bytes
 */
function validPrefix(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let good = 0;
  try {
    for (let at = 0; at < bytes.length; at++) {
      if (decoder.decode(bytes.subarray(at, at + 1), { stream: true })) good = at + 1;
    }
  } catch {
    // what is not UTF-8 begins at `good`
  }
  return good;
}

/**
 * What sort of object begins with this byte.
 * @param {number} mark
 */
function sortOf(mark) {
  if (mark <= 0x7f || mark >= 0xe0 || mark in INT) return "an integer";
  if ((mark >= 0xa0 && mark <= 0xbf) || mark in STR) return "a string";
  if (mark in BIN) return "a binary";
  if ((mark >= 0x90 && mark <= 0x9f) || mark in ARRAY) return "an array";
  if ((mark >= 0x80 && mark <= 0x8f) || mark in MAP) return "a map";
  if (mark === 0xca || mark === 0xcb) return "a float";
  if (mark === 0xc2 || mark === 0xc3) return "a boolean";
  if (mark === 0xc0) return "nil";
  return mark === 0xc1 ? "the byte 0xC1, which msgpack does not use" : "an extension type";
}
