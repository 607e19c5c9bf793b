"""Random programs, called in random ways, and their results by NumPy. `check` compares them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np

import devmod

#: The values of the lengths n and m. The simulators execute each thread in Python.
_LENGTHS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17)
#: Expressions of n and m with their functions.
_EXPRESSIONS: dict[str, Callable[[int, int], int]] = {
    "n": lambda n, m: n,
    "m": lambda n, m: m,
    "n * m": lambda n, m: n * m,
    "n + m": lambda n, m: n + m,
    "2 * n + 1": lambda n, m: 2 * n + 1,
    "max(n, m)": max,
    "min(n, m)": min,
    "ceildiv(n, 2)": lambda n, m: -(-n // 2),
    "n // 3": lambda n, m: n // 3,
    "m % 4": lambda n, m: m % 4,
    "16": lambda n, m: 16,
}
#: The seeds of the tests of each kind: those of make test, and the volume.
SEEDS = {
    "few": range(5),
    **{f"to {end}": range(max(end - 100, 5), end) for end in range(100, 501, 100)},
}
TARGETS = {
    "cuda": "cuda -arch=compute_80",
    "rocm": "rocm -arch=gfx1100",
    "hexagon": "hexagon -arch=v66",
}


class Kernel(NamedTuple):
    """A kernel over arrays of uint32.

    Attributes
    ----------
    reads
        The arrays that it reads; it writes ``y``, and takes the number ``a``.
    body
        Its text for the element ``i``. ``AT(x, i)`` is an element of an array that repeats.
    new
        The new first elements of ``y``, from the old ones, ``a``, the indices, and the arrays that
        it reads.
    is_update
        Whether it also reads ``y``.
    """

    reads: tuple[str, ...]
    body: str
    new: Callable[..., Any]
    is_update: bool = False


def _at(array: Any, index: Any) -> Any:
    return array[index % len(array)] if len(array) else np.zeros(len(index), "uint32")


KERNELS = {
    "fill": Kernel((), "y[i] = a + i;", lambda y, a, i: a + i),
    "affine": Kernel(("x",), "y[i] = a * AT(x, i) + 3;", lambda y, a, i, x: a * _at(x, i) + 3),
    "combine": Kernel(
        ("x", "z"),
        "y[i] = AT(x, i) ^ (5 * AT(z, i)) ^ a;",
        lambda y, a, i, x, z: _at(x, i) ^ (5 * _at(z, i)) ^ a,
    ),
    "gather": Kernel(
        ("x", "z"), "y[i] = AT(x, AT(z, i)) + a;", lambda y, a, i, x, z: _at(x, _at(z, i)) + a
    ),
    "stencil": Kernel(
        ("x",),
        "y[i] = AT(x, i) + a * AT(x, i + 1);",
        lambda y, a, i, x: _at(x, i) + a * _at(x, i + 1),
    ),
    "sums": Kernel(
        ("x",),
        "uint s = 0; for (uint j = 0; j < a % 9; j++) s += AT(x, i * a + j); y[i] = s;",
        lambda y, a, i, x: sum(
            (_at(x, i * a + np.uint32(j)) for j in range(a % 9)), np.zeros(len(i), "uint32")
        ),
    ),
    "accumulate": Kernel(
        ("x",), "y[i] += AT(x, i) + a;", lambda y, a, i, x: y + _at(x, i) + a, is_update=True
    ),
    "multiply": Kernel((), "y[i] *= a;", lambda y, a, i: y * a, is_update=True),
}
#: Kernels that write the length of an array as they see it. OpenCL C and Metal have no such length;
#: an array of length 0 has another one.
_LENGTH = {
    "length_x": Kernel(
        ("x",),
        "y[i] = a + (n_x == 0 ? 0 : LENGTH(x));",
        lambda y, a, i, x: np.full(len(i), len(x), "uint32") + a,
    ),
    "length_z": Kernel(
        ("x", "z"),
        "y[i] = AT(x, i) + (n_z == 0 ? 0 : LENGTH(z)) + a;",
        lambda y, a, i, x, z: _at(x, i) + np.uint32(len(z)) + a,
    ),
}


def kernels(kind: str) -> dict[str, Kernel]:
    """Return the kernels that a kind has."""
    return KERNELS | _LENGTH if kind in ("cuda", "vulkan", "webgpu") else KERNELS


def source(kind: str) -> str:
    """Return the kernels of a kind as one file: OpenCL C, or Slang."""
    texts = ["#define AT(x, i) (n_##x == 0 ? 0u : x[(i) % n_##x])"]
    if kind != "opencl":
        texts.append(
            "uint length(StructuredBuffer<uint> x) { uint n, s; x.GetDimensions(n, s); return n; }\n#define LENGTH(x) length(x)"
        )
    for name, kernel in kernels(kind).items():
        numbers = ["a", "count", *(f"n_{each}" for each in kernel.reads)]
        if kind == "opencl":
            words = [
                *(f"global const uint *{each}" for each in kernel.reads),
                "global uint *y",
                *(f"uint {each}" for each in numbers),
            ]
            head, index = f"kernel void {name}({', '.join(words)})", "get_global_id(0)"
        else:
            words = [
                *(f"uniform StructuredBuffer<uint> {each}" for each in kernel.reads),
                "uniform RWStructuredBuffer<uint> y",
            ]
            words += [f"uniform uint {each}" for each in numbers]
            head = f'[shader("compute")] [numthreads(32, 1, 1)] void {name}(uint3 id : SV_DispatchThreadID, {", ".join(words)})'
            index = "id.x"
        texts.append(f"{head} {{ uint i = {index}; if (i < count) {{ {kernel.body} }} }}")
    return "\n".join(texts)


@cache
def compiled(kind: str) -> devmod.Module:
    """Return the kernels of a kind."""
    block_or_language: dict[str, Any] = {"block": 32} if kind == "opencl" else {"language": "Slang"}
    return devmod.compile(source(kind), TARGETS.get(kind, kind), **block_or_language)


class Step(NamedTuple):
    """A step: its kernel, the array for each parameter, a number, and the expression of the
    elements that it writes.
    """

    kernel: str
    arrays: dict[str, str]
    number: int
    count: str


class RandomProgram:
    """A program of random declarations and steps. Each array is a vector, whose length is an
    expression of n and m.
    """

    def __init__(self, kind: str, random: Random) -> None:
        self.kind = kind
        self.lengths = {"first": "n", "second": "m"} | {
            f"given{each}": random.choice(["n", "m"]) for each in range(random.randint(0, 2))
        }
        self.inputs = list(self.lengths)
        self.updates = [f"update{each}" for each in range(random.randint(0, 2))]
        self.temporaries = [f"temporary{each}" for each in range(random.randint(0, 7))]
        self.outputs = [f"output{each}" for each in range(random.randint(1, 3))]
        self.constants = {
            f"constant{each}": np.arange(each * 7 + 3, dtype="uint32") * 3
            for each in range(random.randint(0, 2))
        }
        self.lengths |= {name: str(len(value)) for name, value in self.constants.items()}
        written = [*self.updates, *self.temporaries, *self.outputs]
        self.lengths |= {name: random.choice(list(_EXPRESSIONS)) for name in written}
        for name in self.updates:
            self.lengths[name] = random.choice(["n", "m"])
        self.cleared = [
            name for name in (*self.temporaries, *self.outputs) if random.random() < 0.3
        ]
        self.steps: list[Step] = []
        readable = [*self.inputs, *self.updates, *self.constants, *self.cleared]
        targets = [random.choice(written) for _ in range(random.randint(1, 12))]
        missing = [name for name in chain(self.outputs, self.temporaries) if name not in targets]
        for target in [*targets, *missing]:
            allowed = {
                name: each
                for name, each in kernels(kind).items()
                if not each.is_update or target in readable
            }
            name = random.choice(list(allowed))
            sources = [each for each in readable if each != target] or self.inputs
            arrays = {each: random.choice(sources) for each in allowed[name].reads}
            # A first write is whole. A later one may stop early, or have no threads.
            partial = target in readable and random.random() < 0.3
            length = self.lengths[target]
            count = (
                random.choice([f"({length}) // 2", f"min({length}, 3)", "n - n"])
                if partial
                else length
            )
            self.steps.append(Step(name, {**arrays, "y": target}, random.randint(0, 50), count))
            if target not in readable:
                readable.append(target)
        self.module = self._module(random)

    def _module(self, random: Random) -> devmod.Module:
        def declared(names: list[str]) -> list[str]:
            return [
                f"{name}: uint32[{self.lengths[name]}]{' = 0' if name in self.cleared else ''}"
                for name in names
            ]

        steps = []
        for step in self.steps:
            words: dict[str, Any] = {**step.arrays, "a": step.number, "count": step.count}
            words |= {
                f"n_{each}": self.lengths[step.arrays[each]]
                for each in kernels(self.kind)[step.kernel].reads
            }
            steps.append(devmod.step(step.kernel, threads=step.count, **words))
        module: devmod.Module = compiled(self.kind)
        if self.constants:
            module = devmod.bundle(
                module,
                devmod.const_loader(self.constants, {"constants": list(self.constants)}),
                mixed=True,
            )
        made = devmod.program(
            "p",
            module,
            inputs=declared(self.inputs),
            updates=declared(self.updates),
            outputs=declared(self.outputs),
            temporaries=declared(self.temporaries),
            constants=declared(list(self.constants)),
            steps=steps,
        )
        return devmod.loads(devmod.dumps(made)) if random.random() < 0.5 else made

    def value(self, expression: str, n: int, m: int) -> int:
        """Return the value of an expression of the program."""
        if expression.isdigit():
            return int(expression)
        if expression == "n - n":
            return 0
        for end, change in (
            (") // 2", lambda value: value // 2),
            (", 3)", lambda value: min(value, 3)),
        ):
            if expression.endswith(end):
                return change(
                    self.value(
                        expression.removesuffix(end).removeprefix("min").removeprefix("("), n, m
                    )
                )
        return _EXPRESSIONS[expression](n, m)

    def expected(self, given: dict[str, Any], n: int, m: int) -> dict[str, Any]:
        """Return the arrays that a call leaves in its updates and outputs, from those of its inputs
        and updates.
        """
        arrays = {
            name: np.zeros(self.value(length, n, m), "uint32")
            for name, length in self.lengths.items()
        }
        arrays |= self.constants | {name: array.copy() for name, array in given.items()}
        for name, arguments, number, count in self.steps:
            i = np.arange(self.value(count, n, m), dtype="uint32")
            y = arrays[arguments["y"]][: len(i)]
            read = {each: arrays[source] for each, source in arguments.items() if each != "y"}
            y[:] = kernels(self.kind)[name].new(y, np.uint32(number), i, **read)
        return {name: arrays[name] for name in (*self.updates, *self.outputs)}


class Argument:
    """An array of a call: a whole one or a view, of the host or of the device."""

    def __init__(
        self, device: devmod.Device, value: Any, random: Random, *, on_device: bool | None = None
    ) -> None:
        on_device = random.random() < 0.5 if on_device is None else on_device
        alignment = device.limits.get("view_alignment", 1)
        before = random.choice([0, 0, 1, 3]) * (max(alignment // 4, 1) if on_device else 1)
        self.base = np.full(before + len(value) + 5, 0xABCD, "uint32")
        self.inside = slice(before, before + len(value))
        self.base[self.inside] = value
        if on_device:
            self.base_array: Any = device.from_numpy(self.base)
            self.array = self.base_array[self.inside]
        elif random.random() < 0.3:  # not contiguous
            self.base_array = np.repeat(self.base, 2)
            self.array = self.base_array[::2][self.inside]
        else:
            self.base_array = self.base.copy()
            self.array = self.base_array[self.inside]

    def check(self, expected: Any, what: str) -> None:
        """Compare the array, and what lies around it."""
        found = (
            self.base_array if isinstance(self.base_array, np.ndarray) else self.base_array.numpy()
        )
        found = found[::2] if len(found) == 2 * len(self.base) else found
        self.base[self.inside] = expected
        np.testing.assert_array_equal(found, self.base, what)


def call(program: RandomProgram, device: devmod.Device, random: Random, what: str) -> None:
    """Call a program once, in one of the ways that it may be called, and compare its results."""
    f: Any = program.module["p"].on(device)
    n, m = random.choice(_LENGTHS), random.choice(_LENGTHS)
    values = np.random.default_rng(random.randrange(1 << 32))
    given = {
        name: values.integers(0, 1 << 32, program.value(program.lengths[name], n, m), "uint32")
        for name in (*program.inputs, *program.updates)
    }
    expected = program.expected(given, n, m)
    prepared = random.random() < 0.25
    arguments = {
        name: Argument(device, value, random, on_device=True if prepared else None)
        for name, value in given.items()
    }
    named = [name for name in program.outputs if prepared or random.random() < 0.4]
    arguments |= {
        name: Argument(
            device,
            np.full_like(expected[name], 0xEEEE),
            random,
            on_device=True if prepared else None,
        )
        for name in named
    }
    words = {name: each.array for name, each in arguments.items()}
    what = f"{what}, n={n}, m={m}, {'prepared' if prepared else ''}"
    options = {"stream": device.stream()} if random.random() < 0.3 else {}
    if prepared:
        f.bind(**words, **options)()
        results: Any = [words[name] for name in program.outputs]
    else:
        positions = (
            [
                words.pop(name)
                for name in (*program.inputs, *program.updates)
                if random.random() < 0.5
            ]
            if random.random() < 0.2
            else []
        )
        if positions:  # all of them, since positions come first
            words = {name: arguments[name].array for name in named}
            positions = [arguments[name].array for name in (*program.inputs, *program.updates)]
        results = f(*positions, **words, **options)
        results = results if isinstance(results, tuple) else [results]
    for name, result in zip(program.outputs, results, strict=True):
        np.testing.assert_array_equal(
            result if isinstance(result, np.ndarray) else result.numpy(),
            expected[name],
            f"{what}: {name}",
        )
    device.synchronize()
    for name, argument in arguments.items():
        argument.check(expected.get(name, given.get(name)), f"{what}: {name}")


def check(device: devmod.Device, seeds: str) -> None:
    """Make random programs for the kind of a device, call each in random ways, and compare each
    result with NumPy's.
    """
    for seed in SEEDS[seeds]:
        _check(device, seed)


def _check(device: devmod.Device, seed: int) -> None:
    random = Random(seed)
    program = RandomProgram(device.kind, random)
    for number in range(6):
        call(program, device, random, f"{device.kind}, seed {seed}, call {number}")
    failures: list[BaseException] = []

    def several(seed: int) -> None:
        try:
            for number in range(3):
                call(
                    program,
                    device,
                    Random(seed + number),
                    f"{device.kind}, seed {seed}, call {number} of a thread",
                )
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=several, args=(random.randrange(1 << 32),)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
