"""What the rows share: making modules of samples, getting functions, running and comparing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import devmod
from devmod.targets import TargetSpec, find_spec
from devmod.testing._case import Call, Conformance, Sample
from devmod.testing._row import Row, Skip
from devmod.testing._row import must as must
from devmod.testing._turn import device_turn

if TYPE_CHECKING:
    from devmod._fallback import FallbackModule

#: A name that no sample's function has.
NOBODY = "no_such_function"


def row(name: str) -> Callable[[Callable[[Conformance], None]], Row]:
    """Make a Row of a check; its title is the check's docstring."""
    return lambda check: Row(name, (check.__doc__ or name).rstrip("."), check)


# -- what the backend gave


def samples_of(case: Conformance) -> list[Sample]:
    """The samples that can be had here: one whose toolchain is missing is left out while there are others."""
    must(case.samples, "the Conformance has no samples: it gives a handful of payloads")
    found, missing = [], ""
    for sample in case.samples:
        try:
            must(sample.fmap, f"a sample of format {sample.fmt!r} has no functions")
        except devmod.ToolchainNotFoundError as error:
            missing = str(error)
        else:
            found.append(sample)
    if not found:
        raise Skip(f"no sample can be compiled here: {missing}")
    return found


def spec_of(case: Conformance) -> TargetSpec:
    """The kind's target spec."""
    spec = find_spec(case.kind)
    if spec is None:
        raise Skip(f"the kind {case.kind!r} has no target spec, so it has no fallback and no format of its own (devmod.targets)")
    return spec


def real(case: Conformance, sample: Sample) -> devmod.Module:
    """The real module of a sample."""
    return devmod.create(case.kind, sample.code, sample.fmt, sample.fmap, sample.source)


def fallback(case: Conformance, sample: Sample) -> FallbackModule:
    """Core's fallback of a sample."""
    from devmod._fallback import FallbackModule

    return FallbackModule(spec_of(case), sample.fmt, sample.fmap, sample.code, sample.source)


def source_samples(case: Conformance) -> list[Sample]:
    """The samples that the receiver compiles: those whose payload is source."""
    spec = spec_of(case)
    found = [sample for sample in samples_of(case) if sample.fmt in spec.source_formats]
    if not found:
        raise Skip("no sample's payload is source that the receiver compiles")
    return found


def called_samples(case: Conformance) -> list[tuple[Sample, Call]]:
    """Every call of every sample; the row is skipped where NumPy is missing, for arguments and references are its arrays."""
    numpy()
    found = [(sample, call) for sample in samples_of(case) for call in sample.calls]
    if not found:
        raise Skip("no sample has calls")
    return found


# -- running


def numpy() -> Any:
    """NumPy."""
    try:
        import numpy as np
    except ModuleNotFoundError:
        raise Skip("NumPy is not installed; to add all that the kit uses: pip install 'devmod-core[testing]'") from None
    return np


def function_of(module: devmod.Module, name: str) -> Any:
    """A function; the row is skipped where there is no device to run it."""
    with no_device_skips():
        return module.get_function(name)


def devices_of(case: Conformance) -> list[devmod.Device]:
    """The kind's devices; the row is skipped where there are none."""
    from devmod._memory.device import GROUP, _devices_of
    from devmod._registry import find

    group = find(GROUP, case.kind)
    if group is None:
        raise Skip(f"the backend names no devices ({GROUP}.{case.kind})")
    with no_device_skips():
        found = _devices_of(case.kind, group)
    if not found:
        raise Skip(f"there is no {case.kind} device here")
    return found


@contextmanager
def no_device_skips() -> Iterator[None]:
    """Skip the row where there is no device."""
    try:
        yield
    except devmod.DeviceNotFoundError as error:
        raise Skip(f"there is no {error.kind or 'such'} device here: {error}") from error


def expected(call: Call) -> list[Any]:
    """The arguments as the reference leaves them."""
    numpy()
    arguments = call.make_arguments()
    call.reference(*arguments)
    return arguments


def launch(case: Conformance, function: Any, arguments: Sequence[Any], **keywords: Any) -> None:
    """Call a function while the device is ours."""
    with device_turn(case.kind):
        function(*arguments, **keywords)


def compare(call: Call, got: Sequence[Any], wanted: Sequence[Any], how: str) -> None:
    """Fail where an array is not as the reference has it."""
    np = numpy()
    for number, (one, two) in enumerate(zip(got, wanted, strict=True), 1):
        if not isinstance(two, np.ndarray):
            continue
        exact = two.dtype.kind in "biu"
        same = one == two if exact else np.isclose(one, two, rtol=call.rtol, atol=call.atol, equal_nan=True)
        if not np.all(same):
            at = tuple(int(each) for each in np.argwhere(~same)[0])
            where = at[0] if len(at) == 1 else at
            raise AssertionError(
                f"{call.function!r} {how}: argument {number} is wrong in {int(np.size(same) - np.count_nonzero(same))} of {np.size(same)} "
                f"elements; at {where} it is {one[at]!r}, and the reference has {two[at]!r}"
            )


def written(call: Call) -> list[int]:
    """The numbers, from 0, of the arrays that the reference changes."""
    np = numpy()
    before, after = call.make_arguments(), expected(call)
    return [number for number, (one, two) in enumerate(zip(before, after, strict=True)) if not np.array_equal(one, two)]


# -- failing


@contextmanager
def refused(kind: type[BaseException], what: str) -> Iterator[list[Any]]:
    """Fail unless the body raises such an error; it is put into the list that is given.

    A missing device skips the row, unless that is what is looked for.
    """
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    except (Skip, AssertionError):
        raise
    except devmod.DeviceNotFoundError as error:
        raise Skip(f"there is no {error.kind or 'such'} device here: {error}") from error
    except Exception as error:
        raise AssertionError(f"{what} raises {type(error).__name__} and not {kind.__name__}: {error}") from error
    raise AssertionError(f"{what} is not refused; it must raise {kind.__name__}")


def same(got: object, wanted: object, what: str) -> None:
    """Fail, with both in words, unless they are equal."""
    must(got == wanted, f"{what} is {_short(got)}, and must be {_short(wanted)}")


def same_bytes(got: bytes, wanted: bytes, what: str) -> None:
    """Fail, with the place where they part, unless they are equal."""
    if got == wanted:
        return
    at = next((at for at, (one, two) in enumerate(zip(got, wanted, strict=False)) if one != two), min(len(got), len(wanted)))
    raise AssertionError(
        f"{what}: {len(got)} bytes instead of {len(wanted)}, which differ from byte {at} on: "
        f"{got[at : at + 12]!r} instead of {wanted[at : at + 12]!r}"
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."
