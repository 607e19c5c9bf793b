// Element types as strings ("float32", "handle", "float16x4") and as DLPack's [code, bits, lanes]. All other lists of types are made
// of these tables. tests/test_browser_dtypes.py compares them with the table of devmod in Python.

/** The DLPack type codes whose names end with the number of bits. */
const SIZED = new Map([
  [0, "int"],
  [1, "uint"],
  [2, "float"],
  [4, "bfloat"],
  [5, "complex"],
]);
/** The names of the other types, by code and bits. */
const NAMED = new Map([
  ["3,64", "handle"],
  ["3,0", "void"],
  ["6,8", "bool"],
  ["7,8", "float8_e3m4"],
  ["8,8", "float8_e4m3"],
  ["9,8", "float8_e4m3b11fnuz"],
  ["10,8", "float8_e4m3fn"],
  ["11,8", "float8_e4m3fnuz"],
  ["12,8", "float8_e5m2"],
  ["13,8", "float8_e5m2fnuz"],
  ["14,8", "float8_e8m0fnu"],
  ["15,6", "float6_e2m3fn"],
  ["16,6", "float6_e3m2fn"],
  ["17,4", "float4_e2m1fn"],
]);
/** The element types of typed arrays. @type {Readonly<Record<string, string>>} */
export const TYPED_ARRAYS = {
  Int8Array: "int8",
  Uint8Array: "uint8",
  Uint8ClampedArray: "uint8",
  Int16Array: "int16",
  Uint16Array: "uint16",
  Int32Array: "int32",
  Uint32Array: "uint32",
  Float16Array: "float16",
  Float32Array: "float32",
  Float64Array: "float64",
  BigInt64Array: "int64",
  BigUint64Array: "uint64",
};
/** Return the element type of a typed array; "" for another value. @param {any} value */
export function elementType(value) {
  return TYPED_ARRAYS[value[Symbol.toStringTag] ?? ""] ?? "";
}

/** The types of WGSL's `override` constants. @type {readonly string[]} */
export const CONSTANT_TYPES = ["bool", "int32", "uint32", "float32", "float16"];
const CODES = new Map([...NAMED].map(([pair, name]) => [name, pair.split(",").map(Number)]));

/**
 * A type: its DLPack code, the bits of one lane, and its lanes.
 * @typedef {{ code: number, bits: number, lanes: number }} DType
 */

/**
 * Return the name of a type.
 * @param {DType} dtype
 */
export function dtypeName({ code, bits, lanes }) {
  const base = SIZED.get(code);
  const name = NAMED.get(`${code},${bits}`) ?? (base ? `${base}${bits}` : `type${code}_${bits}`);
  return lanes === 1 ? name : `${name}x${lanes}`;
}

/**
 * Parse a name as `dtypeName` writes it. Return null if it names no type.
 * @param {string} text
 * @returns {DType | null}
 */
export function parseDtype(text) {
  const split = /^(.+)x(0|[1-9]\d{0,4})$/.exec(text);
  if (split && split[1] !== "comple" && split[2] !== "1" && Number(split[2]) <= 0xffff) {
    const one = parseOne(/** @type {string} */ (split[1]));
    return one && { ...one, lanes: Number(split[2]) };
  }
  return parseOne(text);
}

/**
 * @param {string} text
 * @returns {DType | null}
 */
function parseOne(text) {
  const [code, bits] = CODES.get(text) ?? [];
  if (code !== undefined && bits !== undefined) return { code, bits, lanes: 1 };
  const sized = /^(int|uint|float|bfloat|complex)(0|[1-9]\d{0,2})$/.exec(text);
  if (sized && Number(sized[2]) < 256) {
    const found = [...SIZED].find(([, name]) => name === sized[1]);
    return found ? { code: found[0], bits: Number(sized[2]), lanes: 1 } : null;
  }
  const other = /^type(0|[1-9]\d{0,2})_(0|[1-9]\d{0,2})$/.exec(text);
  if (!other) return null;
  const pair = [Number(other[1]), Number(other[2])];
  if (
    pair.some((part) => part > 255) ||
    NAMED.has(pair.join(",")) ||
    SIZED.has(/** @type {number} */ (pair[0]))
  )
    return null;
  return { code: /** @type {number} */ (pair[0]), bits: /** @type {number} */ (pair[1]), lanes: 1 };
}
