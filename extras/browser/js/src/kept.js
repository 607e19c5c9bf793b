// Results that are kept for later calls.

/**
 * Return the result of a key, which `make` makes at its first use. A failure is not kept: the next call tries again.
 * @template K, T
 * @param {Map<K, Promise<T>>} map
 * @param {K} key
 * @param {() => Promise<T>} make
 */
export function kept(map, key, make) {
  const forget = (/** @type {unknown} */ error) => {
    map.delete(key);
    throw error;
  };
  const found = map.get(key) ?? make().catch(forget);
  map.set(key, found);
  return found;
}
