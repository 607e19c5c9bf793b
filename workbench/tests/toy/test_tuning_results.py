"""Results of Kernel Tuner and of Triton's autotuner as tuning records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toy_backend as toy
from each_case import check_errors
from test_tuned import LIKE, info

from devmod import FunctionInfo, TuningRecord
from devmod_workbench._tools.tuning_results import read_results, record_on


def result(block: int, tile: int, time: float, **fields: Any) -> Any:
    """Return a result with the fields of `kernel_tuner.file_utils.get_t4_results` of Kernel Tuner
    1.5.0 that are read, and one beside them.
    """
    return {
        "configuration": {"TILE": tile, "BLOCK": block, "use_padding": 0},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [
            {"name": "GFLOP/s", "value": 56.2, "unit": ""},
            {"name": "time", "value": time, "unit": "ms"},
        ],
    } | fields


FASTER = result(64, 2, 30)
FASTER["measurements"][1]["unit"] = "us"
T4 = {
    "results": [
        result(64, 2, 0.0355),
        FASTER,
        result(64, 4, 0, invalidity="runtime", measurements=[]),
        result(128, 4, 17.5),
        result(1024, 8, 0, invalidity="constraints", measurements=[]),
        result(128, 8, 1, correctness=0),
    ],
    "schema_version": "1.0.0",
}


def config(block: int, time: Any, **fields: Any) -> list[Any]:
    """Return ``triton.Config(...).__dict__`` of Triton 3.9.0 with a time."""
    about = {"kwargs": {"BLOCK": block}, "num_warps": 4, "num_ctas": 1, "num_stages": 3}
    return [about | {"maxnreg": None} | fields, time]


def of_triton(*timings: Any) -> dict[str, Any]:
    return {"key": [4096, "torch.float32", "torch.float32"], "configs_timings": [*timings]}


TRITON = of_triton(
    config(128, [0.0144, 0.0143, 0.0146]),
    config(256, [0.0119, 0.0118, 0.012], num_warps=8),
    config(65536, [float("inf")] * 3),
    config(512, 0.0125, num_stages=2),
)
OF_TRITON = LIKE.replace(constants=("BLOCK", "num_warps", "num_stages"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def read(path: Path, value: Any, like: TuningRecord | None, **sizes: int) -> Any:
    path.write_text(json.dumps(value))
    return read_results(path, like, sizes)


def test_results_of_kernel_tuner_are_of_a_function_on_a_device(path: Path) -> None:
    with toy.fresh_devices() as devices:
        devices[1].driver_version = "1"
        module = toy.module({"f": info(), "g": FunctionInfo("g", ["int32"])}, {})
        like = record_on(module["f"].on(devices[1]))
        assert record_on(module["g"]) is None
    (record,) = read(path, T4, like, n=10_000)
    assert record == LIKE.replace(
        device="toy number 1",
        measured={
            ((10_000,), (64, 2)): 30 * 1e-6,
            ((10_000,), (64, 4)): None,
            ((10_000,), (128, 4)): 17.5 * 1e-3,
            ((10_000,), (128, 8)): None,
        },
    )


def test_the_results_in_tritons_cache(path: Path) -> None:
    (record,) = read(path, TRITON, OF_TRITON)
    assert record == OF_TRITON.replace(
        measured={
            ((4096,), (128, 4, 3)): 0.0144 * 1e-3,
            ((4096,), (256, 8, 3)): 0.0119 * 1e-3,
            ((4096,), (65536, 4, 3)): None,
            ((4096,), (512, 4, 2)): 0.0125 * 1e-3,
        }
    )
    (record,) = read(path, TRITON, OF_TRITON, n=7)
    assert {sizes for sizes, _ in record.measured} == {(7,)}
    (record,) = read(path, TRITON, OF_TRITON.replace(sizes=()))
    assert {sizes for sizes, _ in record.measured} == {()}


FORMS = (
    "the file is of none of the forms that can be imported: tuning records of devmod, results of Kernel Tuner (T4), and "
    "the results of triton.autotune in Triton's cache"
)
INVALID = "invalid results of a tuner: "


def test_other_files_are_refused(path: Path) -> None:
    n = {"n": 1}
    cases = {
        FORMS: ([], LIKE, n),
        "the file does not name the function and the device of its times: give FUNCTION and --device": (
            T4,
            None,
            n,
        ),
        "the file lacks the size 'n' of its times: give --size n=NUMBER": (T4, LIKE, {}),
        "a time of the file has the unit 'min'; expected one of 's', 'ms', 'us', 'ns'": (
            {
                "results": [
                    result(1, 1, 1, measurements=[{"name": "time", "value": 1, "unit": "min"}])
                ]
            },
            LIKE,
            n,
        ),
        "the file has no result of a configuration that was run": (
            {"results": [result(1, 1, 1, invalidity="constraints")]},
            LIKE,
            n,
        ),
        "the file lacks the size 'm' of its times: give --size m=NUMBER": (
            TRITON,
            OF_TRITON.replace(sizes=("n", "m")),
            n,
        ),
        "a configuration of the file lacks the constants 'ROWS'; it has 'TILE', 'BLOCK', 'use_padding'": (
            T4,
            LIKE.replace(constants=("ROWS", "TILE")),
            n,
        ),
        "a result of the file has no measurement of the name 'time'": (
            {"results": [result(1, 1, 0, measurements=[])]},
            LIKE,
            n,
        ),
        f"{INVALID}KeyError: 'invalidity'": ({"results": [{}]}, LIKE, n),
        f"{INVALID}TypeError: 'int' object is not iterable": ({"results": 3}, LIKE, n),
        "the tuning record of 'f' on 'toy number 0': expected an integer for each size, a value for each constant, and a "
        "time in seconds or None or False, got (1,), (1, 4, 3) and -0.001": (
            of_triton(config(1, -1.0)),
            OF_TRITON,
            n,
        ),
    }
    check_errors(
        {f"{str(path)!r}: {text}": case for text, case in cases.items()},
        lambda case: read(path, case[0], case[1], **case[2]),
    )
