// A decompressor of zstd (RFC 8878) for untrusted bytes: one frame without a dictionary, whose size is known.
//
// Each length, offset and table is checked before it is used. The work is in proportion to the size of the frame and of the result:
// a block that exceeds its limit is refused at once. (fzstd on npm works on such a block of 22 bytes for a minute.) The checksum of
// the frame is not read: the caller has a SHA-256.

import { Bits, Invalid, byte, little, readCodes, readStream, readTable, require, table } from "./entropy.js";

/** @import { Codes, Table } from "./entropy.js" */

/** The largest block. */
const MAX_BLOCK = 1 << 17;
const [MIN_WINDOW_LOG, MAX_WINDOW_LOG] = [10, 27];

/** The extra bits of the codes of literal lengths and match lengths, and the lengths without them. */
const LITERAL_BITS = Uint8Array.of(...Array(16).fill(0), 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
const MATCH_BITS = Uint8Array.of(...Array(32).fill(0), 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
const LITERAL_BASE = bases(LITERAL_BITS, 0);
const MATCH_BASE = bases(MATCH_BITS, 3);

/** What blocks take over from the blocks before them. @typedef {{ codes: Codes | null, tables: (Table | null)[], offsets: [number, number, number] }} State */

/** The largest accuracy and symbol, and the default distribution, of literal lengths, offsets and match lengths. */
const KINDS = [
  { maxLog: 9, most: 35, initial: table(6, [4, 3, ...Array(11).fill(2), 1, 1, 1, ...Array(9).fill(2), 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1]) },
  { maxLog: 8, most: 31, initial: table(5, [1, 1, 1, 1, 1, 1, 2, 2, 2, ...Array(15).fill(1), -1, -1, -1, -1, -1]) },
  { maxLog: 9, most: 52, initial: table(6, [1, 4, 3, 2, 2, 2, 2, 2, 2, ...Array(37).fill(1), -1, -1, -1, -1, -1, -1, -1]) },
];

/**
 * Return the `size` bytes of one frame, or null if the data is not such a frame. `size` is in proportion to the data.
 * @param {Uint8Array} data
 * @param {number} size
 */
export function decompress(data, size) {
  try {
    return readFrame(data, size);
  } catch (error) {
    if (error instanceof Invalid) return null;
    throw error;
  }
}

/**
 * @param {Uint8Array} data
 * @param {number} size
 */
function readFrame(data, size) {
  require(little(data, 0, 4) === 0xfd2fb528);
  const flags = byte(data, 4);
  const single = flags >> 5 & 1;
  require(!(flags & 8));
  const windowAt = 5;
  const dictionaryAt = windowAt + 1 - single;
  const contentAt = dictionaryAt + ((1 << (flags & 3)) >> 1);
  require(!little(data, dictionaryAt, contentAt - dictionaryAt));
  const contentSize = flags >> 6 ? 1 << (flags >> 6) : single;
  const content = little(data, contentAt, contentSize) + (contentSize === 2 ? 256 : 0);
  require(!contentSize || content === size);
  const exponent = single ? 0 : 2 ** (10 + (byte(data, windowAt) >> 3));
  const window = single ? size : exponent + exponent / 8 * (byte(data, windowAt) & 7);
  require(window <= 2 ** Math.min(Math.max(size ? Math.floor(Math.log2(size)) + 1 : 0, MIN_WINDOW_LOG), MAX_WINDOW_LOG));
  const most = Math.min(window, MAX_BLOCK);
  const out = new Uint8Array(size);
  /** @type {State} */
  const state = { codes: null, tables: [null, null, null], offsets: [1, 4, 8] };
  let at = contentAt + contentSize;
  let end = 0;
  for (let last = 0; !last; ) {
    const header = little(data, at, 3);
    last = header & 1;
    const type = header >> 1 & 3;
    const length = header >> 3;
    at += 3;
    require(length <= most && type !== 3);
    const block = data.subarray(at, at += type === 1 ? 1 : length);
    require(block.length === (type === 1 ? 1 : length));
    if (type === 2) end = readBlock(block, out, end, Math.min(size, end + most), state);
    else {
      require(end + length <= size);
      if (type === 0) out.set(block, end);
      else out.fill(byte(block, 0), end, end + length);
      end += length;
    }
  }
  if (flags & 4) at += 4;
  require(at === data.length && end === size);
  return out;
}

/**
 * Write the bytes of a compressed block from `end` on, at most to `limit`. Return their end.
 * @param {Uint8Array} data
 * @param {Uint8Array} out
 * @param {number} end
 * @param {number} limit
 * @param {State} state
 */
function readBlock(data, out, end, limit, state) {
  const { literals, at: start } = readLiterals(data, limit - end, state);
  let at = start;
  let count = byte(data, at++);
  if (count > 127) count = count < 255 ? (count - 128 << 8) + byte(data, at++) : little(data, (at += 2) - 2, 2) + 0x7f00;
  let literal = 0;
  if (count) {
    const modes = byte(data, at++);
    require(!(modes & 3));
    for (const [kind, { maxLog, most, initial }] of KINDS.entries()) {
      const mode = modes >> (6 - 2 * kind) & 3;
      if (mode === 0) state.tables[kind] = initial;
      else if (mode === 1) {
        const symbol = byte(data, at++);
        require(symbol <= most);
        state.tables[kind] = { log: 0, symbols: Uint8Array.of(symbol), bits: new Uint8Array(1), base: new Uint16Array(1) };
      } else if (mode === 2) {
        const found = readTable(data, at, maxLog, most);
        state.tables[kind] = found.table;
        at = found.at;
      }
    }
    const [literalTable, offsetTable, matchTable] = state.tables;
    if (!literalTable || !offsetTable || !matchTable) throw new Invalid();
    const bits = new Bits(data.subarray(at));
    at = data.length;
    let [literalState, offsetState, matchState] = [bits.take(literalTable.log), bits.take(offsetTable.log), bits.take(matchTable.log)];
    while (count--) {
      const code = byte(offsetTable.symbols, offsetState);
      // A long offset is beyond any window.
      require(code <= MAX_WINDOW_LOG + 1);
      const offsetValue = 2 ** code + bits.take(code);
      const matchCode = byte(matchTable.symbols, matchState);
      const literalCode = byte(literalTable.symbols, literalState);
      const matchLength = byte(MATCH_BASE, matchCode) + bits.take(byte(MATCH_BITS, matchCode));
      const literalLength = byte(LITERAL_BASE, literalCode) + bits.take(byte(LITERAL_BITS, literalCode));
      if (count) {
        literalState = byte(literalTable.base, literalState) + bits.take(byte(literalTable.bits, literalState));
        matchState = byte(matchTable.base, matchState) + bits.take(byte(matchTable.bits, matchState));
        offsetState = byte(offsetTable.base, offsetState) + bits.take(byte(offsetTable.bits, offsetState));
      }
      const offset = nextOffset(offsetValue, literalLength, state.offsets);
      require(literal + literalLength <= literals.length && end + literalLength + matchLength <= limit);
      out.set(literals.subarray(literal, literal += literalLength), end);
      end += literalLength;
      require(offset > 0 && offset <= end);
      if (offset >= matchLength) out.copyWithin(end, end - offset, end - offset + matchLength);
      else for (let index = end; index < end + matchLength; index++) out[index] = byte(out, index - offset); // it repeats its own bytes
      end += matchLength;
    }
    require(bits.left === 0);
  }
  require(at === data.length && end + literals.length - literal <= limit);
  out.set(literals.subarray(literal), end);
  return end + literals.length - literal;
}

/**
 * Return the offset of a match, and remember it for the next ones.
 * @param {number} value
 * @param {number} literalLength
 * @param {[number, number, number]} offsets
 */
function nextOffset(value, literalLength, offsets) {
  const [first, second, third] = offsets;
  const repeated = value > 3 ? 4 : value - 1 + Number(literalLength === 0);
  if (repeated === 0) return first;
  const offset = [0, second, third, first - 1, value - 3][repeated] ?? 0;
  offsets[2] = repeated === 1 ? third : second;
  offsets[1] = first;
  offsets[0] = offset;
  return offset;
}

/**
 * Read the literals of a block.
 * @param {Uint8Array} data
 * @param {number} most
 * @param {State} state
 * @returns {{ literals: Uint8Array, at: number }}
 */
function readLiterals(data, most, state) {
  const first = byte(data, 0);
  const [type, format] = [first & 3, first >> 2 & 3];
  if (type < 2) {
    const header = format & 1 ? (format & 2 ? 3 : 2) : 1;
    const size = little(data, 0, header) >> (header === 1 ? 3 : 4);
    require(size <= most);
    if (type === 1) return { literals: new Uint8Array(size).fill(byte(data, header)), at: header + 1 };
    require(header + size <= data.length);
    return { literals: data.subarray(header, header + size), at: header + size };
  }
  const width = [10, 10, 14, 18][format] ?? 0;
  let at = 4 + 2 * width >> 3;
  const sizes = Math.floor(little(data, 0, at) / 16);
  const [size, stored] = [sizes % 2 ** width, Math.floor(sizes / 2 ** width)];
  const end = at + stored;
  require(size > 0 && size <= most && end <= data.length);
  if (type === 2) {
    const found = readCodes(data.subarray(0, end), at);
    state.codes = found.codes;
    at = found.at;
  }
  if (!state.codes) throw new Invalid();
  const literals = new Uint8Array(size);
  if (!format) readStream(data.subarray(at, end), literals, state.codes);
  else {
    const part = size + 3 >> 2;
    require(size >= 6);
    for (let number = 0, from = at + 6; number < 4; number++) {
      const to = number < 3 ? from + little(data, at + 2 * number, 2) : end;
      require(to <= end && from < to);
      readStream(data.subarray(from, to), literals.subarray(number * part, number < 3 ? (number + 1) * part : size), state.codes);
      from = to;
    }
  }
  return { literals, at: end };
}

/**
 * @param {Uint8Array} bits
 * @param {number} first
 */
function bases(bits, first) {
  let next = first;
  return Uint32Array.from(bits, (count) => (next += 2 ** count) - 2 ** count);
}
