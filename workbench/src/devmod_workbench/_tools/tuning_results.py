"""The times that other tools measured, as tuning records: results of Kernel Tuner (T4, version
1.0.0 of its schema, as Kernel Tuner 1.5 writes them), and the results of `triton.autotune` in
Triton's cache (``<function>.autotune.json``, as Triton 3.9 writes it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from devmod import TuningRecord
from devmod.backend import read_tuning_file
from devmod.errors import FormatError, list_names
from devmod_runtime import TunedFunction
from devmod_runtime._tuning.choice import record_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_workbench._tools.values import Numbers

#: A configuration, and its seconds; None if it failed.
Row = tuple[Mapping[str, Any], float | None]
#: The seconds of a unit of T4's measurements.
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: What both tools measure in, if a file names no unit.
_MILLISECONDS = 1e-3
#: The parameters of a configuration of Triton beside its keyword arguments.
_OF_TRITON = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


def record_on(function: Any, device: str | None = None) -> TuningRecord | None:
    """Return the record of a function on a device without times; None if it is not tuned."""
    if device is not None:
        function = function.on(device)
    if not isinstance(function, TunedFunction):
        return None
    return record_of(function.name, function.tuning, function.default_device())


def read_results(path: Path, like: TuningRecord | None, sizes: Numbers) -> tuple[TuningRecord, ...]:
    """Return the records in a file of devmod's own, of Kernel Tuner or of Triton.

    Parameters
    ----------
    path
        The file.
    like
        The `record_on` the device of the times, which files of other tools do not name; None: only
        devmod's own files are read.
    sizes
        The sizes of the times, for files that lack them.

    Raises
    ------
    FormatError
        The file is of none of these forms, or lacks a constant or a size of the function.
    """

    def convert(value: Any) -> Sequence[TuningRecord]:
        try:
            return [_record_of(value, like, sizes)]
        except FormatError as error:
            problem = str(error)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            problem = f"invalid results of a tuner: {type(error).__name__}: {error}"
        raise FormatError(f"{str(path)!r}: {problem}")

    return read_tuning_file(path, convert)


def _record_of(value: Any, like: TuningRecord | None, sizes: Numbers) -> TuningRecord:
    if not isinstance(value, dict) or not value.keys() & {"results", "configs_timings"}:
        raise FormatError(
            "the file is of none of the forms that can be imported: tuning records of devmod, results of Kernel Tuner (T4), and "
            "the results of triton.autotune in Triton's cache"
        )
    if like is None:
        raise FormatError(
            "the file does not name the function and the device of its times: give FUNCTION and --device"
        )
    key = _sizes_of(value, like.sizes, sizes)
    if "results" in value:
        rows = _rows_of_kernel_tuner(value["results"])
    else:
        rows = _rows_of_triton(value["configs_timings"])

    measured: dict[Any, float | None] = {}
    for configuration, seconds in rows:
        absent = [name for name in like.constants if name not in configuration]
        if absent:
            raise FormatError(
                f"a configuration of the file lacks the constants {list_names(absent)}; it has {list_names(configuration)}"
            )
        case = (key, tuple([configuration[name] for name in like.constants]))
        before = measured.get(case)
        if before is None or (seconds is not None and seconds < before):
            measured[case] = seconds
    if not measured:
        raise FormatError("the file has no result of a configuration that was run")
    return TuningRecord.from_dict(like.replace(measured=measured).to_dict())


def _sizes_of(value: Mapping[str, Any], names: Sequence[str], given: Numbers) -> tuple[int, ...]:
    """Return the sizes of all times of a file. Triton's has those of its key before the types."""
    numbers = [each for each in value.get("key", ()) if type(each) is int]
    known = dict(given)
    if len(numbers) == len(names):
        known = dict(zip(names, numbers, strict=True)) | known
    for name in names:
        if name not in known:
            raise FormatError(
                f"the file lacks the size {name!r} of its times: give --size {name}=NUMBER"
            )
    return tuple([known[name] for name in names])


def _rows_of_kernel_tuner(results: Sequence[Any]) -> Iterator[Row]:
    """Yield the configurations that were run, and the seconds of each; None if it failed."""
    for each in results:
        state = each["invalidity"]
        if state == "constraints":  # it was not run
            continue
        seconds = None
        if state == "correct" and each["correctness"]:
            seconds = _seconds_of(each["measurements"])
        yield each["configuration"], seconds


def _seconds_of(measurements: Sequence[Any]) -> float:
    for each in measurements:
        if each["name"] == "time":
            unit = each.get("unit") or "ms"
            if unit not in _UNITS:
                raise FormatError(
                    f"a time of the file has the unit {unit!r}; expected one of {list_names(_UNITS)}"
                )
            return float(each["value"]) * _UNITS[unit]
    raise FormatError("a result of the file has no measurement of the name 'time'")


def _rows_of_triton(rows: Sequence[Any]) -> Iterator[Row]:
    """Yield the same for Triton, whose time is the median and two quantiles."""
    for configuration, timing in rows:
        names = dict(configuration["kwargs"])
        for name in _OF_TRITON:
            if configuration.get(name) is not None:
                names[name] = configuration[name]
        if isinstance(timing, list):
            timing = timing[0]
        seconds = None
        if timing != float("inf"):
            seconds = timing * _MILLISECONDS
        yield names, seconds
