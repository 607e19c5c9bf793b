// A strict reader of msgpack for untrusted bytes. Rules and messages are those of devmod's reader in Python.
//
// It accepts every valid form of msgpack except extension types, keys that are not strings, duplicate keys, and strings that are not
// UTF-8. Every length is compared with the remaining bytes before anything is allocated. A binary is a view of the buffer, never a
// copy. (Readers on npm accept duplicate keys and trust counts.)

import { bytesText, FormatError, quoteName } from "./errors.js";

/** The deepest nesting of arrays and maps in a value of any type. */
const MAX_DEPTH = 32;
export const TOO_DEEP = `arrays and maps are nested more than ${MAX_DEPTH} deep`;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const SHORT = 40;
/**
 * The most arrays and maps in values of any type: this number, plus one for each `BYTES_A_CONTAINER` bytes of the data. An empty map takes
 * one byte in the file and many in memory. Those of a tuned function's variants have a limit of their own.
 */
const FREE_CONTAINERS = 1024;
const BYTES_A_CONTAINER = 8;
const BYTES_A_CONTAINER_OF_TUNE = 4;
/** The number of cached objects. Comparing with all of them must cost less than reading. */
const MAX_KNOWN = 4;

/**
 * The types with a length: the first byte of the short form, the greatest length in it, the bytes of the length by the first byte,
 * and the least bytes of an item; 0 if the length is in bytes.
 * @typedef {{ name: string, first: number, most: number, sizes: Record<number, number>, least: number }} Form
 */
/** @type {Form} */
const STRING = {
  name: "a string",
  first: 0xa0,
  most: 0x1f,
  sizes: { 0xd9: 1, 0xda: 2, 0xdb: 4 },
  least: 0,
};
/** @type {Form} */
const BINARY = {
  name: "a binary",
  first: 0x100,
  most: -1,
  sizes: { 0xc4: 1, 0xc5: 2, 0xc6: 4 },
  least: 0,
};
/** @type {Form} */
const ARRAY = { name: "an array", first: 0x90, most: 0x0f, sizes: { 0xdc: 2, 0xdd: 4 }, least: 1 };
/** @type {Form} */
const MAP = { name: "a map", first: 0x80, most: 0x0f, sizes: { 0xde: 2, 0xdf: 4 }, least: 2 };
/** @type {Record<number, [number, boolean]>} */
const INT = {
  0xcc: [1, false],
  0xcd: [2, false],
  0xce: [4, false],
  0xcf: [8, false],
  0xd0: [1, true],
  0xd1: [2, true],
  0xd2: [4, true],
  0xd3: [8, true],
};

/**
 * Any value of msgpack except extension types. Integers that a number cannot represent exactly are bigints.
 * @typedef {null | boolean | number | bigint | string | Uint8Array | Value[] | { [key: string]: Value }} Value
 */

/** Reads a sequence of msgpack objects. `field` is the current field, `at` the offset of the next byte; messages name both. */
export class Reader {
  #deepAt = -1;
  #room;
  #most;
  #size;
  #view;

  /**
   * @param {Uint8Array} data
   * @param {string} subject The name of the bytes in messages: "the bytes of the opencl module".
   * @param {string} [kind] The kind in errors.
   * @param {number} [size] The size to which the limit on arrays and maps is proportional.
   */
  constructor(data, subject, kind = "", size = data.length) {
    this.data = data;
    this.subject = subject;
    this.kind = kind;
    this.field = "";
    this.at = 0;
    /** Whether the integers in values of any type are bigints, which differ from floats. */
    this.wholes = false;
    this.#size = size;
    this.#most = FREE_CONTAINERS + Math.floor(size / BYTES_A_CONTAINER);
    this.#room = this.#most;
    this.#view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  /**
   * Return an error with the field and the offset.
   * @param {string} problem
   * @param {number} [at]
   */
  error(problem, at = this.at) {
    return new FormatError(
      `${this.subject}: ${this.field ? `${this.field}: ` : ""}${problem}, at byte ${at}`,
      { kind: this.kind },
    );
  }

  /** Throw FormatError if bytes follow the last object. */
  finish() {
    this.field = "";
    const trailing = this.data.length - this.at;
    if (trailing)
      throw this.error(
        `${trailing} more ${trailing === 1 ? "byte follows" : "bytes follow"} the last field`,
      );
  }

  // -- one object of an expected type

  /** Read a string. */
  readStr() {
    return this.#text(this.#lengthOf(STRING));
  }

  /** Read a binary, as a view of the buffer. */
  readBin() {
    return this.take(this.readBinHead());
  }

  /** Whether the next object is a binary. */
  isAtBin() {
    return (this.data[this.at] ?? 0) in BINARY.sizes;
  }

  /** Read the head of a binary, and return the number of its bytes, which follow. */
  readBinHead() {
    return this.#lengthOf(BINARY);
  }

  /** Read the number of items of an array. The items follow. */
  readArray() {
    return this.#lengthOf(ARRAY);
  }

  /** Read the number of pairs of a map. The pairs follow: each a `readKey` and a value. */
  readMap() {
    return this.#lengthOf(MAP);
  }

  /** @param {Form} form */
  #lengthOf({ name, first, most, sizes, least }) {
    const mark = this.#mark();
    const isShort = mark >= first && mark <= first + most;
    const size = sizes[mark];
    if (!isShort && size === undefined) throw this.#mistyped(name, mark);
    const length = isShort ? mark - first : Number(this.#number(size ?? 0, false));
    const left = this.data.length - this.at;
    if (length * least > left)
      throw this.error(
        `a count of ${length}, and ${bytesText(left)} ${left === 1 ? "is" : "are"} left`,
      );
    return length;
  }

  /**
   * Read an integer between two bounds, both included.
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
    if (value < low || value > high)
      throw this.error(`${value} is not between ${low} and ${high}`, start);
    return value;
  }

  /**
   * Read an integer between two bounds that a number represents exactly.
   * @param {number} low
   * @param {number} high
   */
  readInt(low, high) {
    return Number(this.readBig(low, high));
  }

  /**
   * Read a key of a map. `taken` must not have it.
   * @param {{ has(name: string): boolean }} taken
   */
  readKey(taken) {
    const start = this.at;
    const name = this.readStr();
    if (taken.has(name)) throw this.error(`the key ${quoteName(name)} is repeated`, start);
    return name;
  }

  /**
   * Read an array, whose items `read` reads.
   * @template T
   * @param {(number: number) => T} read
   * @param {number} [most] The most items.
   * @param {string} [what] What they are, for messages.
   */
  readList(read, most = Infinity, what = "items") {
    /** @type {T[]} */
    const result = [];
    const count = this.readArray();
    if (count > most) throw this.error(`${count} ${what}, and the maximum is ${most}`);
    while (result.length < count) result.push(read(result.length));
    return result;
  }

  /**
   * Read a map, whose values `read` reads. Before each key the field is that of the map.
   * @template T
   * @param {(key: string) => T} read
   */
  readPairs(read) {
    const { field } = this;
    /** @type {Map<string, T>} */
    const result = new Map();
    for (let count = this.readMap(); count > 0; count--) {
      this.field = field;
      const key = this.readKey(result);
      result.set(key, read(key));
    }
    return result;
  }

  // -- one object of any type

  /**
   * Read any object except an extension type.
   * @param {number} [depth]
   * @returns {Value}
   */
  readValue(depth = 0) {
    if (depth > MAX_DEPTH) {
      this.#deepAt = this.at;
      throw this.error(TOO_DEEP);
    }
    if (this.at >= this.data.length) this.#mark();
    const mark = /** @type {number} */ (this.data[this.at]);
    switch (typeOf(mark)) {
      case "a string":
        return this.readStr();
      case "an integer":
        return this.wholes
          ? BigInt(this.readBig(-(2n ** 63n), 2n ** 64n - 1n))
          : this.readBig(-(2n ** 63n), 2n ** 64n - 1n);
      case "an array":
        this.#countContainer();
        return this.readList(() => this.readValue(depth + 1));
      case "a map":
        return this.readMapObject(depth);
      case "a binary":
        return this.readBin().slice();
      case "a float":
        this.#mark();
        this.take(mark === 0xca ? 4 : 8);
        return mark === 0xca
          ? this.#view.getFloat32(this.at - 4)
          : this.#view.getFloat64(this.at - 8);
      case "nil":
      case "a boolean":
        this.#mark();
        return mark === 0xc0 ? null : mark === 0xc3;
      default:
        throw this.error(`found ${typeOf(mark)}, which is not supported here`);
    }
  }

  /**
   * Read a map with its values. The object has no prototype, because a key may be any string.
   * @param {number} [depth]
   */
  readMapObject(depth = 0) {
    /** @type {{ [key: string]: Value }} */
    const result = Object.create(null);
    this.#countContainer();
    const taken = { has: (/** @type {string} */ name) => name in result };
    for (let count = this.readMap(); count > 0; count--) {
      const name = this.readKey(taken);
      result[name] = this.readValue(depth + 1);
    }
    return result;
  }

  /** Read a map that one function has. Return the place where one is nested too deeply: it is skipped, so that other functions can be used. */
  readItem() {
    const start = this.at;
    const room = this.#room;
    this.#deepAt = -1;
    try {
      return this.readMapObject();
    } catch (error) {
      if (this.#deepAt < 0) throw error;
      this.at = start;
      this.#room = room;
      this.#skip();
      return this.#deepAt;
    }
  }

  /** Skip an object, however deep it is. */
  #skip() {
    for (let left = 1; left > 0; left--) {
      const type = typeOf(this.data[this.at] ?? 0);
      if (type !== "an array" && type !== "a map") {
        this.readValue();
        continue;
      }
      this.#countContainer();
      left += type === "a map" ? 2 * this.readMap() : this.readArray();
    }
  }

  /** Read the variants of a tuned function: a map, whose arrays and maps are as many as its bytes allow. */
  readTune() {
    const outside = { room: this.#room, most: this.#most, size: this.#size };
    const start = this.at;
    // The end of the map is unknown, so what is left is the limit at first.
    this.#limitTune(this.data.length - start);
    const result = this.readItem();
    const used = this.#most - this.#room;
    this.#limitTune(this.at - start);
    if (used > this.#most) throw this.#tooMany();
    this.#room = outside.room;
    this.#most = outside.most;
    this.#size = outside.size;
    return result;
  }

  /** @param {number} size The bytes of a tuned function's variants. */
  #limitTune(size) {
    this.#size = size;
    this.#most = Math.floor(size / BYTES_A_CONTAINER_OF_TUNE);
    this.#room = this.#most;
  }

  // -- repeated objects

  /**
   * Return the result of `read` for the next objects, or its cached result for equal bytes. An object of msgpack determines its own end,
   * so equal bytes are equal objects. Most functions of 1,000 shaders have arguments that another function has.
   * @template T
   * @param {{ bytes: Uint8Array, containers: number, result: T }[]} known The newest first.
   * @param {() => T} read
   * @returns {T}
   */
  shared(known, read) {
    const at = this.at;
    for (const { bytes, containers, result } of known) {
      if (containers <= this.#room && this.#startsWith(bytes)) {
        this.at += bytes.length;
        this.#room -= containers;
        return result;
      }
    }
    const room = this.#room;
    const result = read();
    known.unshift({
      bytes: this.data.subarray(at, this.at),
      containers: room - this.#room,
      result,
    });
    known.length = Math.min(known.length, MAX_KNOWN);
    return result;
  }

  /** @param {Uint8Array} bytes */
  #startsWith(bytes) {
    const { at, data } = this;
    if (bytes.length > data.length - at) return false;
    for (let number = 0; number < bytes.length; number++)
      if (bytes[number] !== data[at + number]) return false;
    return true;
  }

  // -- bytes

  /** Count an array or a map in a value of any type. */
  #countContainer() {
    this.#room -= 1;
    if (this.#room < 0) throw this.#tooMany();
  }

  #tooMany() {
    return this.error(
      `more than ${this.#most} arrays and maps in values of any type, too many for ${bytesText(this.#size)}`,
    );
  }

  /** Read the first byte of the next object. */
  #mark() {
    const mark = this.data[this.at];
    if (mark === undefined) throw this.error("the bytes end where an object should begin");
    this.at += 1;
    return mark;
  }

  /**
   * Return the next bytes, as a view of the buffer. They must be within the data.
   * @param {number} size
   */
  take(size) {
    const left = this.data.length - this.at;
    if (size > left) throw this.error(`a length of ${bytesText(size)}, and ${left} are left`);
    this.at += size;
    return this.data.subarray(this.at - size, this.at);
  }

  /**
   * @param {number} size
   * @param {boolean} signed
   * @returns {number | bigint}
   */
  #number(size, signed) {
    const at = this.at;
    this.take(size);
    if (size === 1) return signed ? this.#view.getInt8(at) : this.#view.getUint8(at);
    if (size === 2) return signed ? this.#view.getInt16(at) : this.#view.getUint16(at);
    if (size === 4) return signed ? this.#view.getInt32(at) : this.#view.getUint32(at);
    const value = signed ? this.#view.getBigInt64(at) : this.#view.getBigUint64(at);
    const plain = Number(value);
    return Number.isSafeInteger(plain) ? plain : value;
  }

  /** @param {number} size */
  #text(size) {
    const start = this.at;
    const bytes = this.take(size);
    if (size <= SHORT) {
      // Nearly all strings are short and ASCII. A bundle of 1,000 shaders has 50,000 of them, and TextDecoder is slow for each.
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
   * @param {string} wanted
   * @param {number} mark
   */
  #mistyped(wanted, mark) {
    return this.error(`expected ${wanted}, found ${typeOf(mark)}`, this.at - 1);
  }
}

/**
 * Return whether a value is a map, as `readMapObject` returns it.
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isMap(value) {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null;
}

/**
 * Return a map with its integers as numbers, except those that a number cannot represent exactly.
 * @param {Record<string, unknown>} map
 */
export function withNumbers(map) {
  /** @type {Record<string, unknown>} */
  const result = Object.create(null);
  for (const [key, value] of Object.entries(map)) result[key] = numberOf(value);
  return result;
}

/**
 * @param {unknown} value
 * @returns {unknown}
 */
function numberOf(value) {
  if (Array.isArray(value)) return value.map(numberOf);
  if (isMap(value)) return withNumbers(value);
  const number = Number(value);
  return typeof value === "bigint" && Number.isSafeInteger(number) ? number : value;
}

/**
 * Return the number of valid UTF-8 bytes before the first invalid one.
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
    // the first invalid byte is at `good`
  }
  return good;
}

/**
 * Return the type of the object that begins with this byte.
 * @param {number} mark
 */
function typeOf(mark) {
  if (mark <= 0x7f || mark >= 0xe0 || mark in INT) return "an integer";
  const form = [STRING, BINARY, ARRAY, MAP].find(
    ({ first, most, sizes }) => (mark >= first && mark <= first + most) || mark in sizes,
  );
  if (form) return form.name;
  if (mark === 0xca || mark === 0xcb) return "a float";
  if (mark === 0xc2 || mark === 0xc3) return "a boolean";
  if (mark === 0xc0) return "nil";
  return mark === 0xc1 ? "the byte 0xC1, which msgpack does not use" : "an extension type";
}
