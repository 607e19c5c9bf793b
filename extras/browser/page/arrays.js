// The fields of an array in a form: its shape, and a fill, a file of numbers or an image.

import { visible } from "./dom.js";
import {
  argumentGroup,
  FieldError,
  fileField,
  fillFields,
  labelled,
  lengthsIn,
  lengthsOf,
  productOf,
  selection,
  textInput,
} from "./fields.js";
import { elementOf, filled, fromFile, planesOf, unitOf } from "./fills.js";

const ACCESS = { r: "in", w: "out", rw: "in and out", "": "in and out" };
const TYPES = { float32: "float32", int32: "int32", uint32: "uint32" };

/** Return what the shape of an array of a rank is; 0 for any rank. */
function shapeHint(rank) {
  if (rank === 0) return "a length, or rows × columns";
  if (rank === 1) return "a length";
  return rank === 2 ? "rows × columns" : `${rank} lengths`;
}

/**
 * Return the fields of a buffer.
 * @param {import("./devmod-webgpu/interface.js").Param} param
 * @param {number[]} known The shape that the form suggests.
 * @param {() => void} changed Called when the shape may have changed.
 */
export function arrayField(param, known, changed) {
  const { name, type, access, align } = param;
  const types = type ? null : labelled("Elements", selection(TYPES));
  const element = () => elementOf(type || types.input.value, align);
  const least = Math.max(param.size, param.least);
  const lengths = least ? [Math.ceil(least / unitOf(element()))] : known;
  // A kernel takes an array of any rank.
  const rank = param.isOpen === undefined ? 0 : known.length;
  const shape = labelled("Shape", textInput(lengths.join(" × ") || "1"), shapeHint(rank));
  const fills = element().opaque
    ? { zeros: "zeros", file: "a file of raw bytes" }
    : {
        zeros: "zeros",
        ones: "ones",
        range: "0, 1, 2, …",
        random: "random",
        file: "a file: .npy, raw numbers or an image",
      };
  const suggest = ({ shape: found, given = false }) => {
    if (given || productOf(lengthsIn(shape.input.value).map(Number)) !== productOf(found))
      shape.input.value = found.join(" × ");
    changed();
  };
  shape.input.addEventListener("input", changed);
  const decode = (file) =>
    param.isOpen !== undefined && file.type.startsWith("image/")
      ? planesOf(element(), file, lengthsIn(shape.input.value).map(Number), param.isOpen)
      : fromFile(element(), file);
  const file = fileField(
    "File",
    {},
    ".npy of NumPy and images give the shape; raw numbers are little-endian",
    decode,
    suggest,
    () => types?.input.value,
  );
  const fill = fillFields(
    fills,
    access === "r" && !element().opaque ? "random" : "",
    "floats from 0 to 1, integers from 0 to 255",
    file,
    shape.clear,
  );
  const read = async ({ limits }) => {
    const lengths = lengthsOf(
      shape,
      rank
        ? `expected ${shapeHint(rank)}, such as ${known.join(" × ")}`
        : "expected a length such as 1024, or rows × columns such as 64 × 64",
      (count) => !rank || count === rank,
    );
    const count = productOf(lengths);
    const bytes = count * unitOf(element());
    const most = Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
    if (bytes > most)
      throw new FieldError(
        shape,
        `takes ${bytes.toLocaleString("en")} bytes, but the limit of this device is ${most.toLocaleString("en")}`,
      );
    if (bytes < least)
      throw new FieldError(shape, `takes ${bytes} bytes, and the kernel declares ${least}`);
    if (fill.chosen() === "file") {
      const { data } = await file.load();
      if (data.byteLength !== bytes)
        throw new FieldError(shape, `takes ${bytes} bytes, and the file has ${data.byteLength}`);
      return { data: data.slice(), shape: lengths, element: element() };
    }
    const seed = fill.seed();
    try {
      return {
        data: filled(element(), count, fill.chosen(), seed),
        shape: lengths,
        element: element(),
      };
    } catch (error) {
      throw error instanceof RangeError
        ? new FieldError(
            shape,
            `takes ${bytes.toLocaleString("en")} bytes, which this browser cannot allocate`,
          )
        : error;
    }
  };
  const structs = align ? `structs of ${unitOf(element())} bytes` : type;
  const all = [types, shape, ...fill.fields].filter(Boolean);
  return {
    element: argumentGroup(
      name,
      `${structs ? `array of ${visible(structs)}` : "array"}, ${ACCESS[access]}`,
      all,
    ),
    fields: all,
    main: shape,
    read,
    lengths: () => (least ? null : lengthsIn(shape.input.value).map(Number)),
    type: () => structs || types.input.value,
  };
}
