// Equal shaders of a module. A file has each of them once, and its index has the positions at which the module's bytes repeat it.

import { joined } from "./bytes.js";
import { bytesText, FormatError } from "./errors.js";

/** @import { Reader } from "./msgpack.js" */

/** The most bytes of a module for each of its bytes in the file. */
const MAX_REPEATS = 2n ** 16n;

/**
 * For each range of a module's stored bytes that repeats: its offset, its size, and the positions at which it is inserted.
 * @typedef {number[][]} Repeats
 */

/**
 * Return the number of bytes that repeats add.
 * @param {Repeats} repeats
 */
export function repeatedSize(repeats) {
  let total = 0;
  for (const [, size = 0, ...positions] of repeats) total += size * positions.length;
  return total;
}

/**
 * Check the repeats in `size` bytes, which take `stored` bytes in the file, and return them as numbers.
 * @param {bigint[][]} repeats
 * @param {bigint} size
 * @param {bigint} stored
 * @param {string} subject
 * @returns {Repeats}
 */
export function checkRepeats(repeats, size, stored, subject) {
  let end = 0n;
  let total = size;
  const taken = new Set();
  for (const each of repeats) {
    if (each.length < 3) throw new FormatError(`${subject} have a repeat without a position`);
    const [start = 0n, length = 0n, ...positions] = each;
    if (start < end || length <= 0n || length > size - start) {
      throw new FormatError(
        `${subject} have repeats that are empty, not in order or not within ${bytesText(size)}: ${bytesText(length)} at ${start}`,
      );
    }
    end = start + length;
    let before = end;
    for (const position of positions) {
      if (position < before || position > size || taken.has(position)) {
        throw new FormatError(
          `${subject} have repeats at positions that are not in order or not within ${bytesText(size)}: ${position}`,
        );
      }
      taken.add(position);
      before = position;
    }
    total += length * BigInt(positions.length);
  }
  if (repeats.length && total > stored * MAX_REPEATS) {
    throw new FormatError(
      `${subject} have repeats to ${bytesText(total)}; the limit for ${bytesText(stored)} is ${stored * MAX_REPEATS}`,
    );
  }
  return repeats.map((each) => each.map(Number));
}

/**
 * Return each position at which a range is inserted, with that range.
 * @param {Repeats} repeats
 */
function insertions(repeats) {
  return repeats.flatMap(([start = 0, size = 0, ...positions]) =>
    positions.map((position) => ({ position, start, size })),
  );
}

/**
 * Return a module's bytes from those in the file.
 * @param {Uint8Array} data
 * @param {Repeats} repeats
 */
export function expand(data, repeats) {
  const inserted = insertions(repeats).sort((one, other) => one.position - other.position);
  const pieces = [];
  let from = 0;
  for (const { position, start, size } of inserted) {
    pieces.push(data.subarray(from, position), data.subarray(start, start + size));
    from = position;
  }
  return joined([...pieces, data.subarray(from)]);
}

/**
 * Read a shader map. Repeated shaders are one object.
 * @param {Reader} reader
 * @param {Repeats} repeats
 */
export function readShaders(reader, repeats) {
  const ranges = new Map(insertions(repeats).map((each) => [each.position, each]));
  /** @type {Map<number, Uint8Array>} */
  const stored = new Map();
  const shaders = reader.readPairs(() => {
    const size = reader.readBinHead();
    const { at } = reader;
    const range = ranges.get(at);
    const shader = range ? stored.get(range.start) : reader.take(size);
    if (!shader || size !== (range?.size ?? size) || size !== shader.length) {
      throw reader.error(
        `a repeat of ${bytesText(range?.size)} at ${range?.start}, which is no earlier shader of ${size}`,
      );
    }
    if (range) ranges.delete(at);
    else stored.set(at, shader);
    return shader;
  });
  if (ranges.size) {
    const first = [...ranges.keys()].reduce((one, other) => Math.min(one, other));
    throw reader.error(`a repeat at ${first}, where no shader is expected`);
  }
  return shaders;
}
