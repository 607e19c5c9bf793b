// The fields of an image and of a sampler in a form: its size, a fill or a picture file, and its format.

import { image as createImage, sampler as createSampler } from "./devmod-webgpu/index.js";
import { IMAGE_FORMATS } from "./devmod-webgpu/formats.js";
import { halfOf } from "./devmod-webgpu/scalars.js";
import {
  argumentGroup,
  FieldError,
  fileField,
  fillFields,
  labelled,
  lengthsOf,
  selection,
  suggestionOf,
  textInput,
} from "./fields.js";
import { ARRAYS, pixelsOf, randomNumbers } from "./fills.js";

const ACCESS = { r: "in", w: "out", rw: "in and out" };
/** The formats that the page offers if the shader leaves it open, by what the kernel reads. */
const FORMATS = {
  float: ["rgba8unorm", "r8unorm", "rgba16float", "r32float", "rgba32float"],
  uint: ["rgba8uint", "r8uint", "r32uint"],
  int: ["rgba8sint", "r8sint", "r32sint"],
};
/** The sizes that the form suggests, which fit the suggested size of the launch: the width, the height, and the depth or the layers. */
const SIZES = { "1d": [1024], "2d": [256, 256], "3d": [32, 32, 32], "2d_array": [256, 256, 4] };

/** Return the size that the form suggests for an image. */
export function imageSize({ type }) {
  return SIZES[type];
}

/**
 * Return the fields of an image.
 * @param {import("./devmod-webgpu/interface.js").Param} param
 * @param {(size: number[]) => void} suggest Is called with the width and the height of a chosen picture.
 */
export function imageField(param, suggest) {
  const { name, type, access, format, sample } = param;
  const formats = format
    ? null
    : labelled(
        "Format",
        selection(Object.fromEntries(FORMATS[sample].map((each) => [each, each]))),
      );
  const last = { "3d": " × depth", "2d_array": " × layers" }[type] ?? "";
  const size = labelled(
    "Size",
    textInput(imageSize(param).join(" × ")),
    type === "1d" ? "the width in texels" : `width × height${last} in texels`,
  );
  const fills = {
    zeros: "zeros",
    gradient: "a gradient",
    random: "random",
    ...(type === "2d" ? { file: "a picture file" } : {}),
  };
  const file = fileField(
    "Picture",
    { accept: "image/*" },
    "it gives the size",
    (chosen) => pixelsOf(chosen),
    ({ width, height }) => suggest([width, height]),
  );
  const fill = fillFields(
    fills,
    access !== "w" ? "gradient" : "",
    "",
    file,
    (chosen) => (size.element.hidden = chosen === "file"),
  );
  const suggestSize = suggestionOf(size.input);
  const resize = (lengths) => type === "2d" && suggestSize(lengths.join(" × "));
  const read = async (device) => {
    const picture = fill.chosen() === "file" ? await file.load() : null;
    const lengths = picture
      ? [picture.width, picture.height]
      : readSize(size, imageSize(param).length);
    const seed = fill.seed();
    const layers = type === "2d_array" ? lengths.pop() : 0;
    let made = null;
    try {
      made = await createImage(lengths, format || formats.input.value, { layers, device });
      if (picture && made.format === "rgba8unorm") await made.copyFrom(picture);
      else if (fill.chosen() !== "zeros") {
        const colour = picture ? colourOf(picture.data) : FILLS[fill.chosen()](made, seed);
        await made.copyFrom(texels(made, colour));
      }
      return made;
    } catch (error) {
      made?.destroy();
      if (error instanceof RangeError)
        throw new FieldError(size, "takes more memory than this browser can allocate");
      throw new FieldError(picture ? file : size, error.message);
    }
  };
  const all = [formats, size, ...fill.fields].filter(Boolean);
  return {
    element: argumentGroup(name, `image ${type} of ${format || sample}, ${ACCESS[access]}`, all),
    fields: all,
    main: size,
    read,
    resize,
  };
}

/** Return the fields of a sampler. */
export function samplerField({ name }) {
  const filter = labelled(
    "Filter",
    selection({ linear: "linear", nearest: "nearest" }),
    "between the texels",
  );
  const address = labelled(
    "Address",
    selection({ clamp: "clamp", repeat: "repeat", mirror: "mirror" }),
    "outside of the image",
  );
  return {
    element: argumentGroup(name, "sampler", [filter, address]),
    fields: [filter, address],
    main: filter,
    read: (device) =>
      createSampler({ filter: filter.input.value, address: address.input.value, device }),
  };
}

function readSize(field, count) {
  const expected =
    count === 1
      ? "expected a width such as 1024"
      : `expected ${count} lengths such as ${new Array(count).fill(64).join(" × ")}`;
  const lengths = lengthsOf(field, expected, (found) => found === count);
  if (lengths.includes(0)) throw new FieldError(field, expected);
  return lengths;
}

// -- texels

/** The fills: each returns the colour of the texel at x, y and z, or the layer: red, green, blue and alpha from 0 to 1. */
const FILLS = {
  gradient: ({ shape: [width, height = 1, depth = 1], layers }) => {
    const part = (at, length) => (length > 1 ? at / (length - 1) : 0);
    return (x, y, z) => [part(x, width), part(y, height), part(z, layers || depth), 1];
  },
  random: (_, seed) => {
    const next = randomNumbers(seed);
    return () => [next(), next(), next(), 1];
  },
};

/** Return the colours of a picture of packed RGBA, row by row. */
function colourOf(data) {
  let at = 0;
  return () => [data[at++] / 255, data[at++] / 255, data[at++] / 255, data[at++] / 255];
}

/** The number for 1 in a format: the largest one for colours, and 255 or 127 for integers. */
const ONES = { uint8: 255, int8: 127, uint16: 65535, int16: 32767 };

/** Return the bytes of an image. An image of one channel has the grey of a colour, and one of integers has its 256 levels. */
function texels({ format, shape, layers }, colour) {
  const { dtype, channels, sample } = IMAGE_FORMATS.get(format);
  const [width, height = 1, depth = layers || 1] = shape;
  const data = new ARRAYS[dtype](width * height * depth * channels);
  const one = sample === "float" ? (ONES[dtype] ?? 1) : dtype === "int8" ? 127 : 255;
  let at = 0;
  for (let z = 0; z < depth; z++) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const [r, g, b, a] = colour(x, y, z);
        const numbers =
          channels === 1
            ? [0.2126 * r + 0.7152 * g + 0.0722 * b]
            : format === "bgra8unorm"
              ? [b, g, r, a]
              : [r, g, b, a];
        for (let channel = 0; channel < channels; channel++) {
          const number = numbers[channel] * one;
          data[at++] =
            dtype === "float16" ? halfOf(number) : one === 1 ? number : Math.round(number);
        }
      }
    }
  }
  return data.buffer;
}
