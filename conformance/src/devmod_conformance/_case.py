"""The cases of a backend: its kind, payloads, and calls with references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import devmod
from devmod import FunctionInfo, Interface, Param

if TYPE_CHECKING:
    import numpy as np

    from devmod.backend import Code

    Arguments = Callable[["np.random.Generator"], Sequence[Any]]
    Dims = int | Sequence[int] | None

#: The names of C for the types of scalars, by devmod's names, such as for kernels that store a
#: scalar of each (`Conformance.scalars`).
C_SCALARS = {
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}


@dataclass(eq=False)
class Call:
    """One call of a function, and its reference.

    Parameters
    ----------
    function
        The function's name, a key of the fmap.
    arguments
        ``f(rng) -> sequence``: creates the arguments in the function's order, NumPy arrays and
        numbers. `rng` is a ``numpy.random.Generator`` with a fixed seed: ``lambda rng:
        [rng.random(64, "float32"), 2.0]``.
    reference
        ``f(*arguments)``: computes the same on NumPy arrays, in place. It returns what the call
        returns: a number, or None.
    grid, block
        The keyword arguments of the call; None omits one.
    rtol, atol
        The tolerances for floats, as in ``numpy.allclose``. Integers must be equal.
    """

    function: str
    arguments: Arguments
    reference: Callable[..., object]
    _: KW_ONLY
    grid: Dims = None
    block: Dims = None
    rtol: float = 1e-5
    atol: float = 1e-6

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments ``grid`` and ``block``, without those that are None."""
        return {
            name: value
            for name, value in (("grid", self.grid), ("block", self.block))
            if value is not None
        }

    def make_arguments(self) -> list[Any]:
        """Create the arguments; their values are the same each time."""
        import numpy as np

        return list(self.arguments(np.random.default_rng(20260)))


class Sample:
    """One payload, and calls of its functions.

    Parameters
    ----------
    code, fmt, fmap, source
        As for `devmod.create`.
    calls
        The calls. A payload without calls is created, saved and loaded, and never launched.
    global_arrays
        The payload's global arrays: name to ``f() -> array``, which creates the NumPy array that
        `Module.get_global` must return before any launch.

    Attributes
    ----------
    compilation : tuple or None
        The text, the target and the options of a sample that `compiled` created, else None.
    missing_compiler : str or None
        The error of the receiver's compiler for a source, if it is not installed; None before the
        kit has asked.
    """

    missing_compiler: str | None = None
    compilation: tuple[str, str, dict[str, Any]] | None = None

    def __init__(
        self,
        code: Code,
        fmt: str,
        fmap: Mapping[str, devmod.FunctionInfo],
        *,
        source: Mapping[str, str | bytes] | None = None,
        calls: Sequence[Call] = (),
        global_arrays: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.code = code
        self.fmt = fmt
        self.fmap = dict(fmap)
        self.source = dict(source or {})
        self.calls = tuple(calls)
        self.global_arrays = dict(global_arrays or {})

    @classmethod
    def compiled(
        cls,
        text: str,
        target: str,
        *,
        calls: Sequence[Call] = (),
        global_arrays: Mapping[str, Callable[[], Any]] | None = None,
        **options: Any,
    ) -> Sample:
        """Create a sample whose payload is compiled from a text by `devmod.compile`, at its first
        use.

        Parameters
        ----------
        text, target, options
            As for `devmod.compile`.
        calls, global_arrays
            As for a Sample.
        """
        return _Compiled((text, target, options), calls, global_arrays)


class _Compiled(Sample):
    """A sample that is compiled when one of its attributes is first read, since its toolchain may
    be missing.
    """

    def __init__(
        self,
        compilation: tuple[str, str, dict[str, Any]],
        calls: Sequence[Call],
        global_arrays: Any,
    ) -> None:
        self.compilation, self.calls, self.global_arrays = (
            compilation,
            tuple(calls),
            dict(global_arrays or {}),
        )

    def __getattr__(self, name: str) -> Any:
        if name not in ("code", "fmt", "fmap", "source"):
            raise AttributeError(name)
        from devmod.backend import payload_of

        assert self.compilation is not None
        text, target, options = self.compilation
        module = devmod.compile(text, target, **options)
        payload = payload_of(module)
        assert payload is not None  # a kind that a target compiles has a spec
        _, fmt, fmap, code = payload
        super().__init__(
            code,
            fmt,
            fmap,
            source=module.source,
            calls=self.calls,
            global_arrays=self.global_arrays,
        )
        return getattr(self, name)


class Conformance:
    """The cases of a backend. A subclass sets `kind` and `samples`.

    The wheel registers the subclass as the entry ``devmod.conformance.<kind>``. The backend's own
    tests derive a class from it whose name begins with ``Test``; their module has ``pytest_plugins
    = ["devmod_conformance.plugin"]``.

    Attributes
    ----------
    kind : str
        The backend's kind.
    samples : sequence of Sample
        At least one payload for each format that the backend can run, some with calls.
    slow : Sample or None
        A sample whose calls run for about 20 ms, such as `spin_call`. Only the row about times uses
        it. Without one, or without its compiler, that row uses the slowest call of `samples`, and a
        wrong time shows only if that call is slow enough.
    images : sequence of Sample
        Samples with kernels that take images; empty for a backend without images. Their calls are
        not used: the kit recognizes a function by the names of its parameters.

        - ``source`` (an image of floats of any type), ``source_sampler``, ``places`` (float32, as
          many for each place as the image has dimensions, then the layer of an array), ``result``
          (float32, four for each place): thread i reads `source` at place i and stores the four
          channels.
        - ``destination`` (a 2-D image of floats or integers): thread (x, y) writes ``(x, y, x + y,
          255)``, divided by 255 for floats.

        The grid has exactly the needed threads: 128, or 16 × 8. If a function fixes its block, the
        block must divide them. A combined sampler of GLSL with the name ``source`` has the first
        two parameters.

        The device must have rgba8unorm, both filters and the address mode "clamp". It may refuse
        others with ArgumentError.
    subgroups : sequence of Sample
        Samples with functions that require a size of subgroups, each with one parameter, ``result``
        (uint32): thread i of 128 stores the size of its subgroup at place i. Empty if the backend
        cannot require one.
    scalars : sequence of Sample
        Samples with functions of two parameters, an array and a scalar of the same type: thread 0
        stores the scalar in the array. A grid and a block of one thread launch them. Give one for
        each type that a scalar may have.
    driver_modules : sequence of str
        The importable modules that load the driver, such as "pyopencl". None of them may be
        imported before the first get_function or the first list of devices. Without them the
        backend raises DeviceNotFoundError. Empty: there is no driver.
    driver_libraries : sequence of str
        Parts of the file names of the driver's shared libraries, for a backend that opens them with
        ctypes: "libcuda".
    driver_programs : sequence of str
        The names of the programs that the backend starts, such as an emulator: "qemu-hexagon".
    bad_payloads : sequence of Sample
        Invalid payloads, and valid ones whose fmap has another symbol or other types than the
        payload. The first get_function of each must raise FormatError or CompileError. Empty: the
        kit derives one from the first sample.
    several_devices : Mapping[str, str]
        The environment variables with which the driver lists several devices of this machine, such
        as PoCL's ``{"POCL_DEVICES": "pthread pthread"}``. Empty: it lists those that the machine
        has.
    build_step : str
        The dotted name of the function or class that the backend calls once for each build of a
        payload, such as ``"devmod_vulkan._pipeline.Pipeline"``. Empty: all payloads are source, or
        the backend overrides `builds`.
    interrupt_places : int
        The places at which R61 interrupts the uses of the backend, beside those where a lock was
        just acquired. 0 selects all of them; the row then needs a `timeout` of hours.
    timeout : float
        The seconds after which a process of one row, or the threads of one build, count as hanging.
        ``devmod conformance`` allows three times as long for a row.
    """

    kind: str = ""
    samples: Sequence[Sample] = ()
    slow: Sample | None = None
    images: Sequence[Sample] = ()
    subgroups: Sequence[Sample] = ()
    scalars: Sequence[Sample] = ()
    driver_modules: Sequence[str] = ()
    driver_libraries: Sequence[str] = ()
    driver_programs: Sequence[str] = ()
    bad_payloads: Sequence[Sample] = ()
    several_devices: Mapping[str, str] = {}
    build_step: str = ""
    interrupt_places: int = 30
    timeout: float = 120

    def new_handle(self) -> object:
        """Return a new object of another library that the backend adopts (``devmod.adopt``), such
        as a queue; None, the default, if it adopts none.

        Nothing else references the object, and it can be referenced weakly or its references can be
        counted.
        """
        return None

    @contextmanager
    def builds(self, sample: Sample, on_build: Callable[[], None]) -> Iterator[None]:
        """Call `on_build` at each build of a module of `sample` while the body runs.

        The build must raise the exception of `on_build` unchanged. The default calls it in the
        `build_step`. Without one, it replaces the compiler of a source payload
        (`devmod.set_compiler`).

        Raises
        ------
        NotImplementedError
            The payload is not source, and the backend neither has a `build_step` nor overrides this
            method.
        """
        from pkgutil import resolve_name
        from unittest.mock import patch

        from devmod.plugins import find_spec

        if self.build_step:
            build = resolve_name(self.build_step)

            def report_and_build(*args: Any, **options: Any) -> Any:
                on_build()
                return build(*args, **options)

            with patch(self.build_step, report_and_build):
                yield
            return

        spec = find_spec(self.kind)
        if spec is None or sample.fmt not in spec.source_formats:
            raise NotImplementedError(
                "the payload is not source, and the backend does not override Conformance.builds"
            )

        def compiler(code: bytes) -> tuple[str, bytes]:
            on_build()
            return sample.fmt, code

        devmod.set_compiler(self.kind, compiler)
        try:
            yield
        finally:
            devmod.set_compiler(self.kind, None)

    def test_row(self, conformance_row: Any) -> None:
        """Check one row. `devmod_conformance.plugin` parametrizes this test with all rows."""
        result = conformance_row.run(self)
        if result.outcome == "skipped":
            import pytest

            pytest.skip(result.reason)
        if result.outcome == "failed":
            raise AssertionError(
                f"{conformance_row.id} ({conformance_row.title}): {result.reason}"
            ) from result.error


# -- Calls of kernels that several backends ship, with their NumPy references, and the descriptions
# of these kernels.


_FACTOR, _SUMMAND = 1664525, 1013904223


def linear_functions(tags: Sequence[str]) -> dict[str, FunctionInfo]:
    """Return the functions ``axpy`` and ``count`` of `axpy_call` and `count_call`, with an
    interface. `tags` are the launch tags.
    """
    n = Param("n", "scalar", "int32")
    x, y = Param("x", "buffer", "float32", "r"), Param("y", "buffer", "float32", "rw")
    values, counts = (
        Param("values", "buffer", "int32", "r"),
        Param("counts", "buffer", "uint32", "rw"),
    )
    axpy, count = (
        Interface([x, y, Param("a", "scalar", "float32"), n]),
        Interface([values, counts, n]),
    )
    return {
        "axpy": FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], tags, (), axpy),
        "count": FunctionInfo("count", ["handle", "handle", "int32"], tags, (), count),
    }


def axpy_call() -> Call:
    """``axpy(x: float32*, y: float32*, a: float32, n: int32)``: y += a · x over the first n
    elements. n is not a multiple of the block.
    """
    return Call(
        "axpy",
        lambda rng: [rng.random(100, "float32"), rng.random(100, "float32"), 2.5, 90],
        _axpy,
        grid=4,
        block=32,
    )


def count_call() -> Call:
    """``count(values: int32*, counts: uint32*, n: int32)``: add the number of values with each
    remainder modulo 8, with atomics.
    """
    return Call(
        "count",
        lambda rng: [rng.integers(0, 99, 64, "int32"), rng.integers(0, 9, 8, "uint32"), 64],
        _count,
        grid=8,
        block=8,
    )


def transpose_call(name: str = "transpose") -> Call:
    """``transpose(source: float32*, target: float32*, width: int32, height: int32)``: in tiles of 4
    × 4.
    """
    return Call(
        name,
        lambda rng: [rng.random((9, 14), "float32"), rng.random((14, 9), "float32"), 14, 9],
        _transpose,
        grid=(4, 3),
        block=(4, 4),
    )


def spin_call(elements: int = 1024, rounds: int = 40_000, **keywords: int) -> Call:
    """``spin(x: uint32*, n: int32)``: x = x · 1664525 + 1013904223, n times, for
    `Conformance.slow`. `keywords` have the grid and block.
    """
    return Call(
        "spin", lambda rng: [rng.integers(0, 99, elements, "uint32"), rounds], _spin, **keywords
    )


def _spin(x: Any, n: int) -> None:
    factor, summand = 1, 0
    for bit in f"{n:b}":  # twice as many rounds, and one more for a one
        factor, summand = factor * factor, factor * summand + summand
        if bit == "1":
            factor, summand = factor * _FACTOR, summand * _FACTOR + _SUMMAND
        factor, summand = factor % 2**32, summand % 2**32
    x[...] = x * x.dtype.type(factor) + x.dtype.type(summand)


def _axpy(x: Any, y: Any, a: float, n: int) -> None:
    y[:n] += x.dtype.type(a) * x[:n]


def _count(values: Any, counts: Any, n: int) -> None:
    for value in values[:n] & 7:
        counts[value] += 1


def _transpose(source: Any, target: Any, _width: int, _height: int) -> None:
    target[...] = source.T
