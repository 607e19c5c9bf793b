"""What a backend says of itself: its kind, and some payloads with what their functions compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import devmod

if TYPE_CHECKING:
    import numpy as np

    from devmod._payload import Code

    Arguments = Callable[["np.random.Generator"], Sequence[Any]]
    Dims = int | Sequence[int] | None


class Call:
    """One call of a function, and what it must compute.

    Parameters
    ----------
    function
        The function's name, a key of the fmap.
    arguments
        ``f(rng) -> sequence``: new arguments in the function's order, NumPy arrays and numbers. `rng` is a
        ``numpy.random.Generator`` with a fixed seed: ``lambda rng: [rng.random(64, "float32"), 2.0]``.
    reference
        ``f(*arguments) -> None``: the same on NumPy arrays, which it changes as the function changes them.
    grid, block
        As the function is called with; None: nothing is given.
    rtol, atol
        How far floats may be off, as in ``numpy.allclose``. Integers must be equal.
    """

    def __init__(
        self,
        function: str,
        arguments: Arguments,
        reference: Callable[..., object],
        *,
        grid: Dims = None,
        block: Dims = None,
        rtol: float = 1e-5,
        atol: float = 1e-6,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.reference = reference
        self.grid = grid
        self.block = block
        self.rtol = rtol
        self.atol = atol

    @property
    def shape(self) -> dict[str, Any]:
        """The keyword arguments ``grid`` and ``block``, those that are given."""
        return {name: value for name, value in (("grid", self.grid), ("block", self.block)) if value is not None}

    def make_arguments(self) -> list[Any]:
        """New arguments, the same each time."""
        import numpy as np

        return list(self.arguments(np.random.default_rng(20260)))


class Sample:
    """One payload, and calls of its functions.

    Parameters
    ----------
    code, fmt, fmap, source
        As for `devmod.create`.
    calls
        Calls with their references; without any, the payload is wrapped, saved and loaded, and not run.
    """

    def __init__(
        self,
        code: Code,
        fmt: str,
        fmap: Mapping[str, devmod.FunctionInfo],
        *,
        source: Mapping[str, str | bytes] | None = None,
        calls: Sequence[Call] = (),
    ) -> None:
        self.code = code
        self.fmt = fmt
        self.fmap = dict(fmap)
        self.source = dict(source or {})
        self.calls = tuple(calls)

    @classmethod
    def compiled(cls, text: str, target: str, *, calls: Sequence[Call] = (), **options: Any) -> Sample:
        """A sample whose payload `devmod.compile` makes of a text, when it is first needed.

        Parameters
        ----------
        text, target, options
            As for `devmod.compile`.
        calls
            As for a Sample.
        """
        return _Compiled(text, target, calls, options)


class _Compiled(Sample):
    """A sample that is compiled when one of its parts is asked for: a toolchain may be missing where the rest can be checked."""

    def __init__(self, text: str, target: str, calls: Sequence[Call], options: Mapping[str, Any]) -> None:
        self.calls = tuple(calls)
        self._arguments = (text, target, options)

    def __getattr__(self, name: str) -> Any:
        if name not in ("code", "fmt", "fmap", "source"):
            raise AttributeError(name)
        from devmod._stored import payload_of

        text, target, options = self._arguments
        module = devmod.compile(text, target, **options)
        found = payload_of(module)
        assert found is not None  # what a target compiles has a spec
        _, fmt, fmap, code = found
        super().__init__(code, fmt, fmap, source=module.source, calls=self.calls)
        return getattr(self, name)


class Conformance:
    """What a backend says of itself, so that the contract can be checked. A subclass sets `kind` and `samples`.

    The same class is the entry ``devmod.conformance.<kind>`` of the backend's wheel and the base of its own tests: a class whose
    name begins with ``Test``, with ``pytest_plugins = ["devmod.testing.plugin"]`` beside it.

    Attributes
    ----------
    kind : str
        The backend's kind.
    samples : sequence of Sample
        A handful of payloads: one for each format that matters, some with calls.
    driver_modules : sequence of str
        The importable modules that open or bring the driver, such as "pyopencl". None of them may be imported before the first
        get_function or the first look for a device; and without them the backend must say what to do. Empty: there is no driver.
    driver_libraries : sequence of str
        Parts of the file names of the driver's shared libraries, for a backend that opens them through ctypes: "libcuda".
    bad_payloads : sequence of Sample
        Payloads that the backend must refuse at the first get_function, with an error of devmod's. Empty: the kit makes one of
        the first sample.
    patience : float
        The seconds that a new process may take for one row, and threads for one build, before they are taken to hang.
        ``devmod conformance`` gives the whole of a row three times as long.
    """

    kind: str = ""
    samples: Sequence[Sample] = ()
    driver_modules: Sequence[str] = ()
    driver_libraries: Sequence[str] = ()
    bad_payloads: Sequence[Sample] = ()
    patience: float = 120

    @contextmanager
    def builds(self, sample: Sample, on_build: Callable[[], None]) -> Iterator[None]:
        """Have `on_build` called wherever this backend builds a module of `sample`, once a build, while the body runs.

        What `on_build` raises must come out of that build. The default replaces the compiler of a payload that is source
        (`devmod.set_compiler`); a backend whose payloads are binaries overrides this, and wraps its own loading step.

        Raises
        ------
        NotImplementedError
            The payload is no source, and the backend does not override this.
        """
        from devmod.targets import find_spec

        spec = find_spec(self.kind)
        if spec is None or sample.fmt not in spec.source_formats:
            raise NotImplementedError("its payloads are no source, and it does not override Conformance.builds")

        def compiler(code: bytes) -> tuple[str, bytes]:
            on_build()
            return sample.fmt, code

        devmod.set_compiler(self.kind, compiler)
        try:
            yield
        finally:
            devmod.set_compiler(self.kind, None)

    def test_row(self, conformance_row: Any) -> None:
        """One row of the contract; `devmod.testing.plugin` gives each in turn."""
        result = conformance_row.run(self)
        if result.outcome == "skipped":
            import pytest

            pytest.skip(result.reason)
        if result.outcome == "failed":
            raise AssertionError(f"{conformance_row.id} ({conformance_row.title}): {result.reason}") from result.error
