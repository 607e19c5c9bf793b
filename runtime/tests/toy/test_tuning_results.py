"""Results of Kernel Tuner and of Triton's autotuner as tuning records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toy_backend as toy

import devmod
from devmod import FunctionInfo, Interface, Param, TuningRecord
from devmod.backend import write_tuning_file
from devmod_runtime.tools.tuning_results import read_results, record_on

LIKE = TuningRecord(
    "vector_add",
    "cuda",
    "NVIDIA CUDA",
    "NVIDIA H100",
    "sm_90",
    "580.65",
    ("block_size_x", "tile"),
    ("n",),
)


def result(configuration: dict[str, Any], invalidity: str = "correct", **fields: Any) -> Any:
    """Return a result as `kernel_tuner.file_utils.get_t4_results` of Kernel Tuner 1.5.0 makes
    it.
    """
    times = {
        "compilation": 190.1,
        "benchmark": 2.3,
        "framework": 1.2,
        "search_algorithm": 0.0,
        "validation": 0.0,
        "runtimes": [0.036, 0.035],
    }
    return {
        "timestamp": "2026-11-20 10:00:00.000000+00:00",
        "configuration": configuration,
        "times": times,
        "invalidity": invalidity,
        "correctness": 1,
        "measurements": [
            {"name": "GFLOP/s", "value": 56.2, "unit": ""},
            {"name": "time", "value": 0.0355, "unit": "ms"},
        ],
        "objectives": ["time"],
    } | fields


T4: dict[str, Any] = {
    "results": [
        result({"tile": 2, "block_size_x": 64, "use_padding": 0}),
        result(
            {"tile": 2, "block_size_x": 64, "use_padding": 1},
            measurements=[{"name": "time", "value": 0.03, "unit": "ms"}],
        ),
        result({"tile": 4, "block_size_x": 64}, "runtime", measurements=[]),
        result(
            {"tile": 4, "block_size_x": 128},
            measurements=[{"name": "time", "value": 17.5, "unit": "us"}],
        ),
        result({"tile": 8, "block_size_x": 1024}, "constraints", measurements=[]),
        result({"tile": 8, "block_size_x": 128}, correctness=0),
    ],
    "schema_version": "1.0.0",
    "metadata": {"timeunit": "milliseconds"},
}


def config(kwargs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return ``triton.Config(...).__dict__`` of Triton 3.9.0."""
    return {
        "kwargs": kwargs,
        "num_warps": 4,
        "num_ctas": 1,
        "num_stages": 3,
        "maxnreg": None,
        "pre_hook": None,
        "ir_override": None,
    } | fields


TRITON: dict[str, Any] = {
    "key": [4096, "torch.float32", "torch.float32"],
    "configs_timings": [
        [config({"BLOCK": 128}), [0.0144, 0.0143, 0.0146]],
        [config({"BLOCK": 256}, num_warps=8), [0.0119, 0.0118, 0.012]],
        [config({"BLOCK": 65536}), [float("inf")] * 3],
        [config({"BLOCK": 512}, num_stages=2), 0.0125],
    ],
}
OF_TRITON = LIKE.replace(constants=("BLOCK", "num_warps", "num_stages"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def read(path: Path, value: Any, like: TuningRecord | None = LIKE, **sizes: int) -> Any:
    path.write_text(json.dumps(value))
    return read_results(path, like, sizes)


def test_results_of_kernel_tuner(path: Path) -> None:
    (record,) = read(path, T4, n=10_000)
    assert record == LIKE.replace(
        measured={
            ((10_000,), (64, 2)): 0.03 * 1e-3,
            ((10_000,), (64, 4)): None,
            ((10_000,), (128, 4)): 17.5e-6,
            ((10_000,), (128, 8)): None,
        }
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


def test_the_times_are_of_a_function_on_a_device(path: Path) -> None:
    tune = {
        "constants": ["block_size_x", "tile"],
        "variants": [{"values": [64, 2]}],
        "sizes": ["n"],
    }
    interface = Interface(
        [Param("n", "scalar", "int32")], extra={"tune": tune}, needs=["tuned"], block=(1, 1, 1)
    )
    with toy.fresh_devices() as devices:
        devices[1].driver_version = "7"
        about = FunctionInfo("f", ["int32"], (), (), interface)
        module: Any = toy.module({"f": about, "g": FunctionInfo("g", ["int32"])}, {})
        like = record_on(module["f"].on(devices[1]))
        assert like is not None
        (record,) = read(path, T4, like, n=5)
        assert record_on(module["g"]) is None
    assert (record.function, record.device, record.driver) == ("f", "toy number 1", "7")
    assert record.measured[(5,), (128, 4)] == 17.5e-6


def test_records_of_devmod(path: Path) -> None:
    known = LIKE.replace(measured={((1,), (64, 2)): 1.0})
    write_tuning_file(path, [known])
    assert read_results(path, None, {}) == (known,)


FORMS = (
    "the file is of none of the forms that can be imported: tuning records of devmod, results of Kernel Tuner (T4), and "
    "the results of triton.autotune in Triton's cache"
)


@pytest.mark.parametrize(
    ("value", "like", "sizes", "message"),
    [
        ([], LIKE, {}, FORMS),
        ({"records": []}, LIKE, {}, FORMS),
        (
            T4,
            None,
            {},
            "the file does not name the function and the device of its times: give FUNCTION and --device",
        ),
        (T4, LIKE, {}, "the file lacks the size 'n' of its times: give --size n=NUMBER"),
        (
            TRITON,
            OF_TRITON.replace(sizes=("n", "m")),
            {"n": 1},
            "the file lacks the size 'm' of its times: give --size m=NUMBER",
        ),
        (
            T4,
            LIKE.replace(constants=("BLOCK", "tile")),
            {"n": 1},
            "a configuration of the file lacks the constants 'BLOCK'; it has 'tile', 'block_size_x', 'use_padding'",
        ),
        (
            {"results": [result({"tile": 1, "block_size_x": 1}, measurements=[])]},
            LIKE,
            {"n": 1},
            "a result of the file has no measurement of the name 'time'",
        ),
        (
            {"results": [{}]},
            LIKE,
            {"n": 1},
            "invalid results of a tuner: KeyError: 'invalidity'",
        ),
        (
            {"results": 3},
            LIKE,
            {"n": 1},
            "invalid results of a tuner: TypeError: 'int' object is not iterable",
        ),
        (
            {"configs_timings": [[config({"BLOCK": [1]}), 1.0]]},
            OF_TRITON,
            {"n": 1},
            "invalid results of a tuner: TypeError: unhashable type: 'list'",
        ),
        (
            {"configs_timings": [["x", 1.0]]},
            OF_TRITON,
            {"n": 1},
            "invalid results of a tuner: TypeError: string indices must be integers, not 'str'",
        ),
        (
            {"configs_timings": [[config({"BLOCK": 1}), -1.0]]},
            OF_TRITON,
            {"n": 1},
            "the tuning record of 'vector_add' on 'NVIDIA H100': expected an integer for each size, a value for each constant, and a "
            "time in seconds or None, got (1,), (1, 4, 3) and -0.001",
        ),
    ],
)
def test_other_files_are_refused(
    path: Path, value: Any, like: TuningRecord | None, sizes: dict[str, int], message: str
) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        read(path, value, like, **sizes)
    assert str(caught.value) == f"{str(path)!r}: {message}"
