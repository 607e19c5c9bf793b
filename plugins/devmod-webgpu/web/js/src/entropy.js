// The tables and the streams of bits of zstd (RFC 8878): finite state entropy and Huffman codes. Each is checked before it is used.

const MAX_HUFFMAN_BITS = 11;

/** The data is invalid. */
export class Invalid extends Error {}

/** A table of finite state entropy: for each state its symbol, the bits of the next state, and its base. @typedef {{ log: number, symbols: Uint8Array, bits: Uint8Array, base: Uint16Array }} Table */
/** A table of Huffman codes: for the next `log` bits the symbol and the bits of its code. @typedef {{ log: number, symbols: Uint8Array, bits: Uint8Array }} Codes */
/**
 * @param {Uint8Array} data
 * @param {Uint8Array} out
 * @param {Codes} codes
 */
export function readStream(data, out, { log, symbols, bits }) {
  const stream = new Bits(data);
  for (let at = 0; at < out.length; at++) {
    const code = stream.peek(log);
    out[at] = byte(symbols, code);
    stream.left -= byte(bits, code);
    require(stream.left >= 0);
  }
  require(stream.left === 0);
}

/**
 * Read the description of Huffman codes.
 * @param {Uint8Array} data
 * @param {number} at
 */
export function readCodes(data, at) {
  const header = byte(data, at++);
  /** @type {number[]} */
  const weights = [];
  const end = at + (header < 128 ? header : header - 126 >> 1);
  require(end <= data.length);
  if (header < 128) {
    const found = readTable(data.subarray(0, end), at, 6, 255);
    const { log, symbols, bits, base } = found.table;
    const stream = new Bits(data.subarray(found.at, end));
    const states = [stream.take(log), stream.take(log)];
    for (let turn = 0; ; turn ^= 1) {
      const state = states[turn] ?? 0;
      weights.push(byte(symbols, state));
      require(weights.length < 255);
      if (byte(bits, state) > stream.left) {
        weights.push(byte(symbols, states[turn ^ 1] ?? 0));
        break;
      }
      states[turn] = byte(base, state) + stream.take(byte(bits, state));
    }
  } else for (let index = 0; index < header - 127; index++) weights.push(byte(data, at + (index >> 1)) >> (index & 1 ? 0 : 4) & 15);
  require(weights.every((weight) => weight <= MAX_HUFFMAN_BITS));
  const total = weights.reduce((sum, weight) => sum + (weight && 1 << weight - 1), 0);
  require(total > 0);
  const log = 32 - Math.clz32(total);
  const rest = (1 << log) - total;
  require(log <= MAX_HUFFMAN_BITS && (rest & rest - 1) === 0);
  weights.push(32 - Math.clz32(rest));
  const codes = { log, symbols: new Uint8Array(1 << log), bits: new Uint8Array(1 << log) };
  let place = 0;
  for (let weight = 1; weight <= log; weight++) {
    weights.forEach((each, symbol) => {
      if (each !== weight) return;
      codes.symbols.fill(symbol, place, place + (1 << weight - 1));
      codes.bits.fill(log + 1 - weight, place, place += 1 << weight - 1);
    });
  }
  require(place === 1 << log);
  return { codes, at: end };
}

/**
 * Read the distribution of a table of finite state entropy.
 * @param {Uint8Array} data
 * @param {number} at
 * @param {number} maxLog
 * @param {number} most The largest symbol.
 */
export function readTable(data, at, maxLog, most) {
  let bit = 8 * at;
  const take = (/** @type {number} */ count) => {
    const value = little(data, bit >> 3, Math.min(3, data.length - (bit >> 3))) >> (bit & 7) & (1 << count) - 1;
    bit += count;
    return value;
  };
  const log = take(4) + 5;
  require(log <= maxLog);
  /** @type {number[]} */
  const counts = [];
  let left = 1 << log;
  while (left > 0) {
    const width = 32 - Math.clz32(left + 1);
    const low = take(width - 1);
    const limit = (1 << width) - 2 - left;
    let value = low;
    if (low >= limit && take(1)) value = low + (1 << width - 1) - limit;
    const count = value - 1;
    counts.push(count);
    left -= Math.abs(count);
    require(left >= 0);
    if (!count) {
      let zeros;
      do {
        zeros = take(2);
        for (let each = 0; each < zeros; each++) counts.push(0);
        require(counts.length <= most + 1);
      } while (zeros === 3);
    }
    require(counts.length <= most + 1 && bit <= 8 * data.length);
  }
  return { table: table(log, counts), at: bit + 7 >> 3 };
}

/**
 * Return the table of a distribution.
 * @param {number} log
 * @param {number[]} counts For each symbol the number of its states; −1 for one state at the end.
 * @returns {Table}
 */
export function table(log, counts) {
  const size = 1 << log;
  const symbols = new Uint8Array(size);
  let high = size;
  counts.forEach((count, symbol) => {
    if (count === -1) symbols[--high] = symbol;
  });
  let place = 0;
  counts.forEach((count, symbol) => {
    for (let each = 0; each < count; each++) {
      symbols[place] = symbol;
      do place = place + (size >> 1) + (size >> 3) + 3 & size - 1;
      while (place >= high);
    }
  });
  const next = counts.map(Math.abs);
  const [bits, base] = [new Uint8Array(size), new Uint16Array(size)];
  symbols.forEach((symbol, state) => {
    const number = next[symbol] ?? 0;
    next[symbol] = number + 1;
    const width = (bits[state] = log - (31 - Math.clz32(number)));
    base[state] = (number << width) - size;
  });
  return { log, symbols, bits, base };
}

/** Bits that are read from the end of some bytes. The highest one of the last byte marks the end. */
export class Bits {
  #data;

  /** @param {Uint8Array} data */
  constructor(data) {
    const last = byte(data, data.length - 1);
    require(last);
    this.#data = data;
    /** The number of bits left. */
    this.left = 8 * data.length - 1 - (Math.clz32(last) - 24);
  }

  /**
   * Return the next bits. Those behind the last one are zero.
   * @param {number} count At most 24.
   */
  peek(count) {
    const low = this.left - count;
    const at = low >> 3;
    const data = this.#data;
    const word = (data[at] ?? 0) | (data[at + 1] ?? 0) << 8 | (data[at + 2] ?? 0) << 16 | (data[at + 3] ?? 0) << 24;
    return word >>> (low & 7) & (1 << count) - 1;
  }

  /**
   * @param {number} count At most 32.
   * @returns {number}
   */
  take(count) {
    require(count <= this.left);
    const high = count > 24 ? this.take(count - 16) : 0;
    const rest = count > 24 ? 16 : count;
    const value = this.peek(rest);
    this.left -= rest;
    return high * 2 ** 16 + value;
  }
}

/**
 * Return an element of an array.
 * @param {Uint8Array | Uint16Array | Uint32Array} array
 * @param {number} at
 */
export function byte(array, at) {
  const value = array[at];
  if (value === undefined) throw new Invalid();
  return value;
}

/**
 * Return a little-endian number.
 * @param {Uint8Array} data
 * @param {number} at
 * @param {number} count
 */
export function little(data, at, count) {
  let value = 0;
  for (let index = count - 1; index >= 0; index--) value = value * 256 + byte(data, at + index);
  return value;
}

/** @param {unknown} condition */
export function require(condition) {
  if (!condition) throw new Invalid();
}
