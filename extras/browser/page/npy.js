// Files of NumPy: one array with its type and its shape, as numpy.save writes it.

const MAGIC = "\x93NUMPY";
/** The bytes before the header, and the most of the header that is looked at. */
const BEFORE = 12;
const MOST_HEADER = 4096;
const MOST_RANK = 16;
/** The types of elements by NumPy's name of them. */
const TYPES = {
  "|b1": "bool",
  "|u1": "uint8",
  "|i1": "int8",
  "<u2": "uint16",
  "<i2": "int16",
  "<f2": "float16",
  "<u4": "uint32",
  "<i4": "int32",
  "<f4": "float32",
  "<u8": "uint64",
  "<i8": "int64",
  "<f8": "float64",
};

/** Return the type, the shape and the numbers of a file of NumPy as bytes; null for another file. Raise Error, with a text for the user, if it is invalid. */
export function readNpy(buffer, name) {
  const bytes = new Uint8Array(buffer);
  if (textOf(bytes.subarray(0, MAGIC.length)) !== MAGIC) return null;
  const refuse = (why) => new Error(`${name} is a file of NumPy, ${why}`);
  if (bytes.length < BEFORE) throw refuse("and it ends within its header");

  // Version 1 has a length of two bytes, later ones of four.
  const view = new DataView(buffer);
  const start = bytes[MAGIC.length] === 1 ? BEFORE - 2 : BEFORE;
  const length = start === BEFORE ? view.getUint32(8, true) : view.getUint16(8, true);
  if (length > MOST_HEADER || start + length > bytes.length)
    throw refuse("and its header is too long");
  const header = textOf(bytes.subarray(start, start + length));
  const found = (pattern) => pattern.exec(header)?.[1];
  const descr = found(/'descr': *'([^']*)'/);
  const order = found(/'fortran_order': *(True|False)/);
  const lengths = found(/'shape': *\(([\d, ]*)\)/);
  if (descr === undefined || order === undefined || lengths === undefined)
    throw refuse("and its header has no type, order or shape of one array of numbers");
  if (order === "True") throw refuse("by columns: save numpy.ascontiguousarray(x)");
  const shape = lengths
    .split(",")
    .filter((each) => each.trim())
    .map(Number);
  if (shape.length > MOST_RANK) throw refuse(`of more than ${MOST_RANK} dimensions`);
  return {
    type: Object.hasOwn(TYPES, descr) ? TYPES[descr] : descr,
    shape,
    data: buffer.slice(start + length),
  };
}

function textOf(bytes) {
  return String.fromCharCode(...bytes);
}
