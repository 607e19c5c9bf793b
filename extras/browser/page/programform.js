// A form for one program: a field for each input and update.

import { image, Image } from "./devmod-webgpu/index.js";
import { evaluate, namesIn } from "./devmod-webgpu/expressions.js";
import { IMAGE_FORMATS } from "./devmod-webgpu/formats.js";
import { arrayField } from "./arrays.js";
import { numberField } from "./fields.js";
import { elementOf, unitOf } from "./fills.js";
import { imageField } from "./images.js";
import { resultOf } from "./results.js";
import { runForm, timeOf } from "./runform.js";

/** What the form suggests for a length that a call chooses. */
const LENGTH = 64n;

/** Return the form of a program. `showTimes` shows the milliseconds of its steps, and returns a text. */
export function programForm(module, name, info, showTimes) {
  const { params } = info.interface;
  const withRole = (...roles) => params.filter(({ extra }) => roles.includes(extra.role));
  const given = withRole("input", "update");
  const parts = given.map((param) => fieldOf(param, params));
  /** Call the program. Return the time, and what shows its results. */
  const run = async (device, values) => {
    const f = await module.getFunction(name, { device });
    const known = new Map();
    values.forEach((value, at) => {
      const { kind, extra } = given[at];
      const lengths =
        kind === "scalar" ? [] : value instanceof Image ? value.shape.toReversed() : value.shape;
      if (kind === "scalar" && Number.isInteger(Number(value)))
        known.set(given[at].name, BigInt(value));
      if (kind !== "scalar")
        lengths.forEach(
          (length, axis) =>
            typeof extra.shape[axis] === "string" && known.set(extra.shape[axis], BigInt(length)),
        );
    });
    const named = Object.fromEntries(
      values.map((value, at) => [given[at].name, value.data?.buffer ?? value]),
    );
    for (const [length, value] of known) named[length] ??= value;
    const fixed = withRole("constant").flatMap(({ extra }) => extra.shape);
    const open = withRole("state")
      .flatMap(({ extra }) => extra.shape.flatMap(namesIn))
      .filter((each) => !fixed.includes(each));
    if (withRole("state").length)
      named.state = await f.state(
        Object.fromEntries(open.map((each) => [each, Number(known.get(each) ?? LENGTH)])),
      );
    const outputs = [];
    for (const { name: output, kind, type, format, extra } of withRole("output")) {
      const shape = extra.shape.map((each) => Number(evaluate(each, known)));
      const element = kind === "image" ? null : elementOf(type, 0);
      const size = element && shape.reduce((one, other) => one * other, unitOf(element));
      named[output] = element
        ? new ArrayBuffer(size)
        : await image(shape.toReversed(), format, { device });
      values.push(named[output]); // an image is destroyed with the others
      const data = () => new element.Array(named[output]);
      outputs.push(() =>
        resultOf(
          output,
          type,
          element ? { element, data: data(), shape: shape.length ? shape : [1] } : named[output],
        ),
      );
    }
    let times = null;
    const time = await timeOf(device, async () => {
      ({ times } = await f.profile(named));
    });
    const longest = showTimes(times);
    const updates = given.flatMap((param, at) =>
      param.extra.role === "update" ? [resultOf(param.name, parts[at].type?.(), values[at])] : [],
    );
    return [
      `${time}, copies included.${longest}`,
      ...(await Promise.all([...outputs.map((show) => show()), ...updates])),
    ];
  };
  return runForm(name, given, parts, [], run);
}

/** Return the fields of an input or an update. Each length that a call chooses is suggested, and follows from a chosen picture. */
function fieldOf(param, params) {
  const { name, kind, type, access, extra } = param;
  if (kind === "image")
    return imageField({ ...param, sample: IMAGE_FORMATS.get(param.format).sample }, () => {});
  if (kind === "scalar") {
    const part = numberField(name, type, String(extra.value ?? (/int/.test(type) ? LENGTH : 1)));
    return { ...part, isNumber: true, main: part.fields[0] };
  }
  const values = new Map(
    params.flatMap(({ extra: { shape = [], value }, name: each }) => [
      ...shape.flatMap(namesIn).map((length) => [length, LENGTH]),
      ...(typeof value === "bigint" ? [[each, value]] : []),
    ]),
  );
  const lengths = extra.shape.map((each) => Number(evaluate(each, values)));
  return arrayField(
    {
      name,
      type,
      access,
      align: 0,
      size: 0,
      least: 0,
      isOpen: extra.shape.slice(-2).every((each) => typeof each === "string"),
    },
    lengths,
    () => {},
  );
}
