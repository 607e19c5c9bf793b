"""`devmod.testing`: compare kernels with references. docs/find-out-what-is-wrong.md shows the use.

`devmod_pytest` has the mark ``devices`` of pytest, and imports this module for the first test with
that mark.
"""

from __future__ import annotations

from collections.abc import Mapping

from devmod import Image
from devmod._plugins import registry
from devmod._plugins.devices import device_label, probe
from devmod.backend import LAUNCH_KEYWORDS, describe_value, find_spec
from devmod.errors import ArgumentError, DevmodError, FormatError, did_you_mean
from devmod_workbench._tools.checks import checked_call
from devmod_workbench._tools.difference import errors_and_allowed, worst_element
from devmod_workbench._tools.draws import RANGES, draw_of, random_array
from devmod_workbench._tools.guard import guarded_twice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from os import PathLike
    from typing import Any

    import numpy as np
    import pytest

    from devmod_runtime import Function

    #: The keywords of a call, or arrays by name.
    Case = Mapping[str, Any]
else:
    from devmod.backend import np

__all__ = ["assert_kernel", "draws"]


def draws(case: Case) -> Iterator[dict[str, Any]]:
    """Yield a case of `assert_kernel` with each draw of `devmod.verify` as values of its NumPy
    arrays: from 0 to 1, of both signs, negative ones, and large beside small ones.

    Parameters
    ----------
    case
        The keywords of a call. Arrays of integers whose names suggest indices have small ones.
    """
    for word in RANGES:
        values = dict(case)
        for name, value in case.items():
            if isinstance(value, np.ndarray):
                draw = draw_of(name, value.dtype, word)
                values[name] = random_array(name, value.shape, value.dtype, draw)
        yield values


def assert_kernel(
    f: Function,
    reference: Callable[..., Any],
    cases: Iterable[Case],
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    sanitize: str | PathLike[str] | None = None,
) -> None:
    """Call a kernel with each case, and compare its arrays with those of a reference.

    Parameters
    ----------
    f
        The function or the program, such as ``module["blur"].on(device)``.
    reference
        Called with copies of the case's arguments, by name and without the keywords of the launch.
        It returns the expected array of the argument that the kernel writes, or a mapping from
        names of arguments to expected arrays. Other arrays are not compared. The outputs of a
        program count as arguments.
    cases
        The keywords of each call, such as ``{"y": y, "x": x, "n": 100, "threads": 100}``. NumPy
        arrays are copied, so no call changes them. A case with another array, such as one of a
        device, is called once, so reads outside of its arrays are not found.
    rtol, atol
        The tolerance: ``abs(result - expected) <= atol + rtol * abs(expected)``. The default of
        `rtol` is 16 times the type's precision (1.9e-06 for float32), and 0 for integers. A NaN
        equals a NaN.
    sanitize
        The file of the kernel's source. The source is compiled a second time, and each case is also
        called on the simulated GPU of devmod-simulators, with its checks.

    Raises
    ------
    AssertionError
        An element differs by more than the tolerance. The message has the element with the worst
        error.
    GuardError
        The kernel has written outside of an array: each call is made in a `devmod.guard`. Or it has
        read outside: its results in two guards differ by more than the tolerance of their types.
    SanitizeError
        A check of `sanitize` has found a fault, such as a race. The error has the line.
    CompileError
        The source of `sanitize` cannot be compiled for the simulated GPU.
    ArgumentError
        There is no case, or the reference returned no expected array.
    """
    __tracebackhide__ = True  # pytest shows the line of the caller
    number = -1
    check_faults = None
    if sanitize is not None:
        check_faults = checked_call(f, sanitize, "assert_kernel(sanitize=)")
    for number, case in enumerate(cases):
        try:
            _check(f, reference, case, rtol, atol)
            if check_faults is not None:
                check_faults(_copies(case))
        except (AssertionError, DevmodError) as error:
            error.add_note(f"in case {number}: {_describe(case)}")
            raise
    if number < 0:
        raise ArgumentError("assert_kernel: expected one case or more, got none", argument="cases")


def _check(
    f: Function,
    reference: Callable[..., Any],
    case: Case,
    rtol: float | None,
    atol: float,
) -> None:
    __tracebackhide__ = True
    arguments = {name: value for name, value in case.items() if name not in LAUNCH_KEYWORDS}
    expected = _expected(f, reference(**_copies(arguments)), arguments)
    outputs = getattr(f, "outputs", ())  # of a program

    def launch() -> tuple[dict[str, Any], dict[str, Any]]:
        results = _copies(case)
        returned = f(**results)
        if outputs:
            if not isinstance(returned, tuple):
                returned = (returned,)
            results |= zip(outputs, returned, strict=True)
        arrays = {name: value for name, value in results.items() if isinstance(value, np.ndarray)}
        return results, arrays

    results = guarded_twice(f, launch, all(map(_is_unchanged, arguments.values())))
    for name, array in expected.items():
        _compare(f"{f.__name__}: {name}", name, results[name], np.asarray(array), rtol, atol)


def _copies(values: Case) -> dict[str, Any]:
    copies = dict(values)
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            copies[name] = value.copy()
    return copies


def _is_unchanged(value: object) -> bool:
    """Return whether a second call has the same argument: `_copies` copies it, or a kernel does not
    write to it.
    """
    if isinstance(value, (np.ndarray, Mapping)):
        return True
    return not isinstance(value, Image) and not hasattr(value, "__setitem__")


def _expected(f: Function, value: object, arguments: Case) -> Case:
    """Return the expected arrays by the names of their arguments."""
    if not isinstance(value, Mapping):
        written = _written_arrays(f)
        if value is None or len(written) != 1:
            names = ", ".join(written) or "none that is known"
            raise ArgumentError(
                f"assert_kernel: the reference returned {describe_value(value)}; expected a mapping from names of arguments to arrays, or "
                f"the array of the one argument that the kernel writes (it writes: {names})",
                argument="reference",
            )
        value = {written[0]: value}
    if not value:
        raise ArgumentError("assert_kernel: the reference returned no array", argument="reference")
    outputs = getattr(f, "outputs", ())
    for name in value:
        if not isinstance(arguments.get(name), np.ndarray) and name not in outputs:
            raise ArgumentError(
                f"assert_kernel: the reference returned an array for {name!r}, and the case has no NumPy array of that name",
                argument="reference",
            )
    return value


def _written_arrays(f: Function) -> list[str]:
    """Return the arrays that a call may write, without the temporaries of a program."""
    names: list[str] = []
    if f.info.interface is None:
        return names
    for each in f.info.interface.params:
        is_array = each.kind == "buffer" and each.extra.get("role") != "temporary"
        if is_array and "w" in each.access:
            names.append(each.name)
    return names


def _compare(
    label: str, name: str, result: Any, expected: Any, rtol: float | None, atol: float
) -> None:
    """Raise AssertionError if an element differs by more than the tolerance."""
    __tracebackhide__ = True
    if result.shape != expected.shape:
        raise AssertionError(
            f"{label} has the shape {result.shape}, and the reference has {expected.shape}"
        )
    if result.dtype.names != expected.dtype.names:
        raise AssertionError(f"{label} is of {result.dtype}, and the reference of {expected.dtype}")
    if result.dtype.names:
        for each in result.dtype.names:
            _compare(f"{label}.{each}", f"{name}.{each}", result[each], expected[each], rtol, atol)
        return
    if rtol is None:
        rtol = 16 * _precision(result.dtype)
    errors, allowed = errors_and_allowed(result, expected, rtol, atol)
    errors[np.isnan(errors)] = np.inf
    wrong = errors > allowed
    if not wrong.any():
        return
    index = int(np.argmax(np.where(wrong, errors, -1)))
    worst = worst_element(result, expected, index, errors.flat[index], is_error=True)
    if worst.place:
        name += worst.subscript
    raise AssertionError(
        f"{label} differs from the reference in {int(wrong.sum())} of {result.size} elements; the worst is {name}: got {worst.value!r}, "
        f"expected {worst.expected!r}, an error of {worst.error:.3g} where {allowed[worst.place]:.3g} is allowed"
    )


def _precision(dtype: Any) -> float:
    """Return the distance from 1 to the next number of a type of floats; 0 for integers. bfloat16
    and fp8 are types of ml_dtypes.
    """
    if dtype.kind in "biu":
        return 0.0
    if dtype.type.__module__ == "numpy":
        return float(np.finfo(dtype).eps)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def _describe(case: Case) -> str:
    """Return the arguments of a case, with the type and the shape of each array."""
    words = []
    for name, value in case.items():
        if isinstance(value, np.ndarray):
            words.append(f"{name}={value.dtype}{list(value.shape)}")
        else:
            words.append(f"{name}={describe_value(value)}")
    return ", ".join(words)


def _has_spec(kind: str) -> bool:
    try:
        return find_spec(kind) is not None
    except FormatError:  # no kind can have this name
        return False


def device_runs(mark: pytest.Mark) -> list[Any]:
    """Return the runs of a test on the devices of the kinds of its mark, or else of all installed
    kinds. A kind without a device has one run that is skipped, with the reason.

    Raises
    ------
    ArgumentError
        The mark has other arguments, or a kind is unknown.
    """
    import pytest

    if mark.kwargs or not all(isinstance(each, str) for each in mark.args):
        raise ArgumentError(
            "the mark devices takes names of kinds, such as devices('opencl', 'vulkan')"
        )
    installed = registry.registered("devmod.device")
    for kind in mark.args:
        if kind not in installed and not _has_spec(kind):
            known = {*installed, *registry.registered("devmod.targets")}
            raise ArgumentError(
                f"the mark devices: unknown kind {kind!r}{did_you_mean(kind, known)}",
                argument="kinds",
            )
    runs = []
    for kind in mark.args or sorted(installed):
        found = []
        reason = f"there is no {kind} device"
        try:
            found = probe(kind)
        except DevmodError as error:
            reason = str(error)
        runs += [pytest.param(each, id=device_label(each)) for each in found]
        if not found:
            runs.append(pytest.param(None, id=kind, marks=pytest.mark.skip(reason=reason)))
    if not runs:
        reason = "no backend of devmod is installed, so there is no device"
        runs.append(pytest.param(None, id="none", marks=pytest.mark.skip(reason=reason)))
    return runs
