// Bytes and other arrays: whether two are equal, and several as one.

/**
 * An array or a typed array.
 * @template T
 * @typedef {ArrayLike<T> & { every(test: (value: T, at: number) => boolean): boolean }} Items
 */

/**
 * Return whether two arrays have equal items.
 * @template T
 * @param {Items<T>} one
 * @param {Items<T>} other
 */
export function sameItems(one, other) {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}

/**
 * Return the bytes of several pieces in their order.
 * @param {readonly Uint8Array[]} pieces
 */
export function joined(pieces) {
  const result = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    result.set(piece, at);
    at += piece.length;
  }
  return result;
}
