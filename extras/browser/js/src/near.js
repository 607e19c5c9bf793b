// The known name nearest to an unknown one in any case, by the rule of Python's difflib. tests/test_browser_calls.py compares them.

import { repr } from "./errors.js";

/** The least similarity, and the largest number of names that are compared. The numbers are those of devmod in Python. */
const CUTOFF = 0.6;
const MAX_COMPARED = 2000;
/** Longer names are not compared: a file may have names of megabytes. */
const MAX_LENGTH = 200;

/**
 * Return the end of a message with the known name nearest to an unknown one; "" if none is near.
 * @param {string} name
 * @param {readonly string[]} known
 */
export function didYouMean(name, known) {
  const unknown = name.toLowerCase();
  const names = new Map(known.slice(0, MAX_COMPARED).map((each) => [each.toLowerCase(), each]));
  let [best, ratio] = ["", 0];
  for (const each of names.keys()) {
    const both = each.length + unknown.length;
    if (
      Math.max(each.length, unknown.length) > MAX_LENGTH ||
      (2 * Math.min(each.length, unknown.length)) / both < CUTOFF
    )
      continue;
    const similarity = (2 * matching(each, unknown)) / both;
    if (similarity >= CUTOFF && (similarity > ratio || (similarity === ratio && each > best)))
      [best, ratio] = [each, similarity];
  }
  return best ? `. Did you mean ${repr(names.get(best) ?? best)}?` : "";
}

/**
 * Return the number of characters in the matching blocks: the longest common one, then those on both sides of it.
 * @param {string} one
 * @param {string} other
 * @returns {number}
 */
function matching(one, other) {
  let [size, atOne, atOther] = [0, 0, 0];
  let before = new Uint16Array(other.length + 1);
  for (let i = 0; i < one.length; i++) {
    const now = new Uint16Array(other.length + 1);
    for (let j = 0; j < other.length; j++) {
      if (one[i] !== other[j]) continue;
      const length = /** @type {number} */ (before[j]) + 1;
      now[j + 1] = length;
      if (length > size) [size, atOne, atOther] = [length, i + 1 - length, j + 1 - length];
    }
    before = now;
  }
  if (!size) return 0;
  return (
    size +
    matching(one.slice(0, atOne), other.slice(0, atOther)) +
    matching(one.slice(atOne + size), other.slice(atOther + size))
  );
}
