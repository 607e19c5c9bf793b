"""Programs in Chromium for tests: an object with the calls of a program in Python, which the npm
package runs.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from browser_driver import PRELUDE, Browser, decode_array, encode_array

import devmod
from devmod.backend import read_program, walk
from devmod_readers.programs import bind_lengths, evaluate

_HELPERS = (
    PRELUDE
    + """
const types = {
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, float32: Float32Array,
  float64: Float64Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array, float16: globalThis.Float16Array ?? ArrayBuffer,
};
const decoded = (value) => {
  if (Array.isArray(value)) return Object.fromEntries(value.map(([name, each]) => [name, decoded(each)]));
  if (typeof value !== "object" || value === null) return value;
  if ("number" in value) return buffers[value.number];
  return value.dtype === "float16" && !globalThis.Float16Array ? bytes(value.data) : new types[value.dtype](bytes(value.data));
};
const encoded = (value) => {
  if (value instanceof GPUBuffer || value instanceof kit.Image) return { number: buffers.push(value) - 1 };
  return { data: text(ArrayBuffer.isView(value) ? value : new Uint8Array(value)) };
};
const read = async (buffer) => {
  if (buffer instanceof kit.Image) return text(await buffer.read());
  const room = device.createBuffer({ size: buffer.size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, room, 0, buffer.size);
  device.queue.submit([encoder.finish()]);
  await room.mapAsync(GPUMapMode.READ);
  return text(new Uint8Array(room.getMappedRange()));
};
"""
)


class BrowserArray:
    """An array on the browser's device."""

    def __init__(
        self, device: BrowserDevice, number: int, shape: tuple[int, ...], dtype: str
    ) -> None:
        self.device, self.number, self.shape, self.dtype = device, number, shape, dtype

    def numpy(self) -> Any:
        found = decode_array(
            self.device.run("return await read(buffers[argument])", self.number), self.dtype
        )
        return found[: int(np.prod(self.shape))].reshape(self.shape).copy()


class BrowserDevice:
    """The browser's device, and the files that are open in its page."""

    name, kind = "SwiftShader in Chromium", "webgpu"

    def __init__(self, page: Browser) -> None:
        self._page = page
        self.run(
            "window.device = await kit.defaultDevice(); window.buffers = []; window.programs = [];"
        )

    def run(self, body: str, argument: Any = None) -> Any:
        return self._page.evaluate(_HELPERS + body, argument)

    def from_numpy(self, array: Any) -> BrowserArray:
        body = """
        const data = new Uint8Array(bytes(argument));
        const buffer = device.createBuffer({ size: Math.max(4, Math.ceil(data.length / 4) * 4), usage: 0x80 | 0x04 | 0x08 });
        const room = new Uint8Array(buffer.size);
        room.set(data);
        device.queue.writeBuffer(buffer, 0, room);
        return buffers.push(buffer) - 1;
        """
        return BrowserArray(
            self, self.run(body, encode_array(array)), array.shape, str(array.dtype)
        )

    def zeros(self, shape: Any, dtype: str) -> BrowserArray:
        return self.from_numpy(np.zeros(shape, dtype))

    empty = zeros

    def program(self, module: devmod.Module, name: str) -> BrowserProgram:
        """Return a program of a module."""
        body = """
        const bundle = await kit.open(bytes(argument[0]));
        return programs.push(await bundle.getFunction(argument[1], { device })) - 1;
        """
        number = self.run(body, [b64encode(devmod.dumps(module)).decode(), name])
        owners = [
            each for each in walk(module) if each.kind == "program" and name in each.functions
        ]
        owner = next(
            (each for each in owners if any(other.kind == "webgpu" for other in walk(each))),
            owners[0],
        )
        return BrowserProgram(self, number, read_program(name, owner))


class BrowserProgram:
    """A program, with the calls of one in Python. Arrays of the host are given by their numbers
    alone, as in JavaScript.
    """

    def __init__(self, device: BrowserDevice, number: int, program: Any) -> None:
        self.device, self._number, self.program = device, number, program

    def on(self, device: object) -> BrowserProgram:
        return self

    def state(self, **lengths: int) -> dict[str, BrowserArray]:
        found = self.device.run(
            "return Object.entries(await programs[argument[0]].state(argument[1])).map(([name, each]) => [name, encoded(each)])",
            [self._number, lengths],
        )
        types = {each.name: each.type for each in self.program.arrays("state")}
        shapes = self._shapes({}, lengths)
        return {
            name: BrowserArray(self.device, each["number"], shapes[name], types[name])
            for name, each in found
        }

    def _shapes(self, given: dict[str, Any], lengths: dict[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of a call. `lengths` gets the lengths."""
        binding = [
            each for each in self.program.arrays("input", "update", "state") if each.name in given
        ]
        bind_lengths([(each, each.shape, given[each.name].shape) for each in binding], lengths)
        result = {}
        for each in self.program.arrays("output", "state"):
            if all(
                name in lengths
                for length in each.shape
                if isinstance(length, str)
                for name in [length]
            ):
                result[each.name] = tuple(evaluate(length, dict(lengths)) for length in each.shape)
                result[each.name] += (
                    (each.texel.channels,) if each.texel and each.texel.channels > 1 else ()
                )
        return result

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._call("await f(...values, names)", args, named)

    def bind(self, *args: Any, **named: Any) -> Any:
        """Return a function that launches what is bound once, and waits."""
        body = "const launch = await f.bind(...values, names); programs.push(launch); return programs.length - 1;"
        number = self._call(body, args, named)
        return lambda: self.device.run(
            "const launch = programs[argument]; launch.launch(); await launch.done();", number
        )

    def _call(self, body: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        names = [each.name for each in self.program.arguments]
        given = dict(zip(names, args, strict=False)) | named
        given |= given.get("state", {})
        scalars = {each.name: given.get(each.name, each.default) for each in self.program.scalars}
        lengths: dict[str, Any] = {
            name: int(value)
            for name, value in scalars.items()
            if isinstance(value, int | np.integer)
        }
        shapes = self._shapes(
            {
                name: each
                for name, each in given.items()
                if hasattr(each, "shape") and getattr(each, "ndim", 1)
            },
            lengths,
        )
        open_names = {
            length
            for each in self.program.arrays("input", "update")
            for length in each.shape
            if isinstance(length, str)
        }
        if any(
            len({*each.shape} & open_names) > 1 for each in self.program.arrays("input", "update")
        ):
            named |= {
                name: length
                for name, length in lengths.items()
                if name in open_names and name not in scalars
            }
        launch = (
            body
            if "return" in body
            else f"""
        const result = {body};
        const hosts = Object.entries(names).filter(([, each]) => ArrayBuffer.isView(each));
        return [Object.entries(result).map(([name, each]) => [name, encoded(each)]), hosts.map(([name, each]) => [name, text(each)]), values.map((each) => ArrayBuffer.isView(each) ? text(each) : null)];
        """
        )
        values = [self._encoded(each) for each in args]
        keywords = [[name, self._encoded(each)] for name, each in named.items()]
        found = self.device.run(
            f"const f = programs[argument[0]], values = argument[1].map(decoded), names = decoded(argument[2]); {launch}",
            [self._number, values, keywords],
        )
        if "return" in body:
            return found
        results, hosts, by_position = found
        for array, data in [(named[name], data) for name, data in hosts] + list(
            zip(args, by_position, strict=True)
        ):
            if data is not None and array.flags.writeable:
                array[...] = decode_array(data, str(array.dtype)).reshape(array.shape)
        types = {each.name: each.type for each in self.program.arrays("output")}
        made = []
        for name, each in results:
            if named.get(name) is not None:
                made.append(named[name])
            elif "number" in each:
                made.append(BrowserArray(self.device, each["number"], shapes[name], types[name]))
            else:
                made.append(decode_array(each["data"], types[name]).reshape(shapes[name]).copy())
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    def _encoded(self, value: Any) -> Any:
        if isinstance(value, dict):
            return [[name, self._encoded(each)] for name, each in value.items()]
        if isinstance(value, BrowserArray):
            return {"number": value.number}
        if isinstance(value, np.ndarray):
            return {"dtype": str(value.dtype), "data": encode_array(value)}
        return value.item() if isinstance(value, np.generic) else value
