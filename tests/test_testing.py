"""`devmod.testing`: what `assert_kernel` reports, and the mark `devices` of pytest."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import run_python
from each_case import raised, refusal
from forked import python
from pages import blocks

import devmod
from devmod.testing import assert_kernel, draws

SOURCE = """
kernel void scale(global float *y, global const float *x, float v) { y[get_global_id(0)] = v * x[get_global_id(0)]; }
kernel void next(global ulong *y, global const ulong *x) { y[get_global_id(0)] = x[get_global_id(0)] + 1; }
kernel void both(global float *y, global int *z) { y[get_global_id(0)] = NAN; z[get_global_id(0)] = 3; }
"""


@pytest.fixture(scope="module")
def kernels() -> devmod.Module:
    return devmod.compile(SOURCE, "opencl")


def message(*args: Any, **options: Any) -> list[str]:
    error = raised(AssertionError, assert_kernel, *args, **options)
    return [str(error), *error.__notes__]


@pytest.mark.devices("opencl")
def test_the_worst_element_is_reported(device: devmod.Device, kernels: devmod.Module) -> None:
    scale = kernels["scale"].on(device)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    case = {"y": np.zeros_like(x), "x": x, "v": 2.0, "grid": 12, "block": 1}

    def wrong(y: Any, x: Any, v: float) -> Any:
        result = v * x
        result[1, 2] += 1
        result[2, 1] += 5
        return result

    assert_kernel(scale, lambda y, x, v: v * x, [case, case | {"v": 3.0}])
    assert not case["y"].any()
    assert message(scale, wrong, [case]) == [
        "scale: y differs from the reference in 2 of 12 elements; the worst is y[2, 1]: got 18.0, expected 23.0, an error of 5 where "
        "4.39e-05 is allowed",
        "in case 0: y=float32[3, 4], x=float32[3, 4], v=2.0, grid=12, block=1",
    ]
    assert_kernel(scale, wrong, [case], atol=5)
    assert_kernel(scale, lambda y, x, v: v * x * 1.001, [case], rtol=0.01)


def test_draws_are_those_of_verify(kernels: devmod.Module) -> None:
    x = np.zeros(1000, "float32")
    case = {"y": x, "x": x, "v": 2.0, "grid": 1000, "block": 1}
    cases = list(draws(case))
    limits = [(0, 1), (-8, 8), (-8, 0), (-1e5, 1e5)]
    for each, (low, high) in zip(cases, limits, strict=True):
        size = (high - low) / 50
        assert low <= each["x"].min() < low + size
        assert high - size < each["x"].max() <= high
    assert (cases[1]["v"], cases[1]["grid"], x.any()) == (2.0, 1000, False)
    assert_kernel(kernels["scale"], lambda y, x, v: v * x, cases)
    wrong = message(kernels["scale"], lambda y, x, v: v * np.abs(x), cases)
    assert wrong[1].startswith("in case 1: ")
    whole = draws({"chosen": np.zeros(99, "int32"), "index": np.zeros(99, "int32")})
    assert [(each["chosen"].min() < 0, each["index"].min() < 0) for each in whole] == [
        (False, False),
        (True, False),
        (True, False),
        (True, False),
    ]


def test_integers_are_compared_exactly(kernels: devmod.Module) -> None:
    x = np.array([2**63, 2**64 - 2], "uint64")
    case = {"y": np.zeros_like(x), "x": x, "threads": 2}
    assert_kernel(kernels["next"], lambda y, x: x + 1, [case])
    text = (
        "next: y differs from the reference in 2 of 2 elements; the worst is y[0]: got 9223372036854775809, expected 9223372036854775808, "
        "an error of 1 where 0 is allowed"
    )
    assert message(kernels["next"], lambda y, x: x, [case])[0] == text


def test_structs_are_compared_by_their_members() -> None:
    source = "typedef struct { float x; int id; } P; kernel void put(global P *p) { p[get_global_id(0)].id = 9; }"
    put = devmod.compile(source, "opencl")["put"]
    array = np.array([(0.5, 1), (1.5, 2)], [("x", "float32"), ("id", "int32")])
    expected = array.copy()
    expected["id"] = 9
    assert_kernel(put, lambda p: expected, [{"p": array, "threads": 2}])
    assert message(put, lambda p: array, [{"p": array, "threads": 2}])[0] == (
        "put: p.id differs from the reference in 2 of 2 elements; the worst is p.id[0]: got 9, expected 1, an error of 8 where 0 is allowed"
    )
    text = message(put, lambda p: array["id"], [{"p": array, "threads": 2}])[0]
    assert text == "put: p is of [('x', '<f4'), ('id', '<i4')], and the reference of int32"


def test_several_arrays_and_nan(kernels: devmod.Module) -> None:
    case = {"y": np.zeros(2, "float32"), "z": np.zeros(2, "int32"), "threads": 2}
    nan = np.full(2, np.nan, "float32")
    assert_kernel(kernels["both"], lambda y, z: {"y": nan, "z": z + 3}, [case])
    assert message(kernels["both"], lambda y, z: {"z": z + 3, "y": y}, [case])[0] == (
        "both: y differs from the reference in 2 of 2 elements; the worst is y[0]: got nan, expected 0.0, an error of inf where 0 is allowed"
    )
    assert (
        message(kernels["both"], lambda y, z: {"z": z[:1]}, [case])[0]
        == "both: z has the shape (2,), and the reference has (1,)"
    )


def test_a_signalling_nan_is_compared_without_a_warning(kernels: devmod.Module) -> None:
    """Memory that no kernel wrote may hold one. NumPy warns of its conversion, and warnings are
    errors here.
    """
    case = {
        "y": np.zeros(2, "float32"),
        "x": np.array([0x7F800001, 0xFF800001], "uint32").view("float32"),
        "v": 1.0,
        "threads": 2,
    }
    assert_kernel(kernels["scale"], lambda y, x, v: x, [case])
    assert (
        "the worst is y[0]: got nan, expected 0.0"
        in message(kernels["scale"], lambda y, x, v: y, [case])[0]
    )


@pytest.mark.parametrize(
    ("reference", "count", "text"),
    [
        (None, 0, "assert_kernel: expected one case or more, got none"),
        (
            lambda y, z: y,
            1,
            "assert_kernel: the reference returned {y}; expected a mapping from names of arguments to arrays, or the array of the one argument "
            "that the kernel writes (it writes: y, z)",
        ),
        (
            lambda y, z: {"q": y},
            1,
            "assert_kernel: the reference returned an array for 'q', and the case has no NumPy array of that name",
        ),
        (lambda y, z: {}, 1, "assert_kernel: the reference returned no array"),
    ],
)
def test_a_wrong_use_is_an_error(
    kernels: devmod.Module, reference: Any, count: int, text: str
) -> None:
    case = {"y": np.zeros(2, "float32"), "z": np.zeros(2, "int32"), "threads": 2}
    message = refusal(
        devmod.ArgumentError, assert_kernel, kernels["both"], reference, [case] * count
    )
    head, _, tail = text.partition("{y}")
    assert message.startswith(head)
    assert message.endswith(tail)


def test_a_guard_is_active(kernels: devmod.Module) -> None:
    case = {"y": np.zeros(2, "float32"), "z": np.zeros(4, "int32"), "threads": 4}
    with pytest.raises(devmod.GuardError, match="has written outside of argument 1 'y'") as caught:
        assert_kernel(kernels["both"], lambda y, z: {"z": z + 3}, [case])
    assert caught.value.__notes__ == ["in case 0: y=float32[2], z=int32[4], threads=4"]


@pytest.mark.parametrize("size", ["0", "-1", "4k", "99999999999", "٤"])
def test_the_variable_of_a_guard_is_a_number_of_bytes(size: str) -> None:
    program = "import devmod\ntry:\n    devmod.guard\nexcept devmod.ArgumentError as error:\n    print(error)"
    text = f"the environment variable DEVMOD_GUARD is {size!r}; expected a number of bytes such as 4096\n"
    assert run_python(program, DEVMOD_GUARD=size) == text


def test_a_command_reports_a_wrong_variable_of_a_guard_and_blames_no_wheel() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devmod", "devices"],
        env=os.environ | {"DEVMOD_GUARD": "4k"},
        capture_output=True,
        text=True,
        check=False,
    )
    text = "devmod: error: the environment variable DEVMOD_GUARD is '4k'; expected a number of bytes such as 4096\n"
    assert (done.returncode, done.stderr) == (1, text)


def test_the_variable_of_a_guard_may_have_zeros_before_the_number() -> None:
    assert (
        run_python("import devmod\nprint(devmod.guard.__name__)", DEVMOD_GUARD="00000000004096")
        == "guard\n"
    )


@pytest.mark.devices("opencl")
def test_a_guard_finds_a_write_to_a_read_only_array(device: devmod.Device) -> None:
    # A union, since a cast in the source makes it an array that the kernel writes.
    source = """union both { global const float *r; global float *w; };
    kernel void spoil(global float *y, global const float *x, int at) { union both u; u.r = x; y[0] = x[0]; u.w[at] = -7; }"""
    spoil = devmod.compile(source, "opencl")["spoil"].on(device)
    x = np.float32([1, 2, 3, -7])
    text = (
        "the opencl function 'spoil' has written to argument 2 'x', which its interface declares read-only: x[2] was 3.0 and is -7.0; "
        "changed elements: 1 of 4. Remove the write, or declare the parameter as one that the kernel writes"
    )
    with devmod.guard():
        on_device = [device.zeros(4, "float32"), device.from_numpy(x)]
        launch = spoil.bind(*on_device, 2, grid=1, block=1)
        for call in (
            lambda: spoil(np.zeros(4, "float32"), x, 2, grid=1, block=1),
            launch,
            launch.time,
        ):
            on_device[1].copy_from(x)
            refused = raised(devmod.GuardError, call)
            error = refused
            assert (str(error), error.argument, error.index, error.value) == (text, "x", 2, -7.0)
        # The same value, and a write between two launches, are no damage.
        for _ in range(2):
            on_device[1].copy_from(x)
            spoil(*on_device, 3, grid=1, block=1)
            on_device[1].copy_from(2 * x)
        # An array that is another argument too, which the kernel may write to.
        for array in (x.copy(), device.from_numpy(x)):
            spoil(array, array, 2, grid=1, block=1)
        # A view of the array of that argument, beside it.
        whole = device.zeros(2 * 64, "float32")
        with pytest.raises(devmod.GuardError, match=re.escape("x[1] was 0.0 and is -7.0")):
            spoil(whole[:64], whole[64:], 1, grid=1, block=1)


@pytest.mark.devices("opencl")
@pytest.mark.parametrize(
    ("dtype", "value", "outside", "inside", "text"),
    [
        # No zone of a guard has one of these values, so each write changes it.
        ("int4", 0x70, 14, 5, "x[5] was 0 and is 7; changed elements: 1 of 6"),
        ("uint1", 1, 7, 2, "x[2] was False and is True; changed elements: 1 of 6"),
    ],
)
def test_a_guard_counts_elements_that_are_no_whole_bytes(
    device: devmod.Device, dtype: str, value: int, outside: int, inside: int, text: str
) -> None:
    """Elements of int4 share bytes. TVM's bool is uint1, and has a byte for each."""
    source = b"kernel void put(global uchar *x, int at, int value) { x[at] = value; }"
    scalars = [devmod.Param(name, "scalar", "int32") for name in ("at", "value")]
    with devmod.guard():
        for access, at, index in (("rw", 7, outside), ("r", 2, inside)):
            interface = devmod.Interface(
                (devmod.Param("x", "buffer", dtype, access=access), *scalars)
            )
            info = devmod.FunctionInfo("put", ("handle", "int32", "int32"), interface=interface)
            put = devmod.create("opencl", source, "cl", {"put": info})["put"].on(device)
            with pytest.raises(devmod.GuardError) as caught:
                put(device.zeros(6, dtype), at, value, grid=1, block=1)
            assert caught.value.index == index
    assert str(caught.value).endswith(
        f"{text}. Remove the write, or declare the parameter as one that the kernel writes"
    )


@pytest.mark.parametrize("guarded", [False, True])
def test_a_wrong_call_names_the_method_in_a_guard_too(guarded: bool) -> None:
    with devmod.guard() if guarded else nullcontext():
        zeros: Any = devmod.device("opencl").zeros
        with pytest.raises(
            TypeError,
            match=re.escape("Device.zeros() missing 1 required positional argument: 'dtype'"),
        ):
            zeros(3)


@pytest.mark.parametrize("make", ["empty", "zeros"])
def test_an_array_that_is_too_large_has_its_error_in_a_guard_too(make: str) -> None:
    device = devmod.device("opencl")
    with devmod.guard(), pytest.raises(devmod.DeviceMemoryError):
        getattr(device, make)(1 << 50, "int8")


# -- The workflow of docs/find-out-what-is-wrong.md


@pytest.mark.once
@pytest.mark.volume
def test_the_workflow_of_the_page_runs(environment: Any, wheels: Any) -> None:
    path = Path(__file__).parent.parent / "docs" / "find-out-what-is-wrong.md"
    page = path.read_text().partition("\n## Test in CI")[2]
    steps = [
        shlex.split(line) for line in re.findall(r"^ +- run: (?!sudo )(.*)$", page, re.MULTILINE)
    ]
    box = environment()
    for mark, name, text in blocks(page):
        if mark == "file":
            (box.folder / "empty" / name).write_text(text)
    printed = ""
    for program, *words in steps:
        if program == "pip":
            parts = [re.fullmatch(r"([\w-]+)(?:\[(.*)\])?", word) for word in words[1:]]
            found = [(each[1], (each[2] or "").split(",")) for each in parts if each]
            box.install(
                *[
                    wheels.direct(name, *filter(None, extras)) if name in wheels else name
                    for name, extras in found
                ]
            )
        else:
            assert program in ("devmod", "pytest")
            printed = box.run("-m", program, *words)
    assert re.search(r"2 passed|[3-9] passed", printed), printed


# -- The plugin of pytest.


def run(folder: Path, text: str, *options: str, flags: str = "") -> str:
    """Run pytest on a text. With flags of Python its process is new, and has imported nothing."""
    (folder / "test_it.py").write_text(text)
    command = ["-m", "pytest", "-qrs", "-c/dev/null", "-pno:cacheprovider", f"--rootdir={folder}"]
    # Hypothesis is a third of the time of such a process.
    command += ["-pno:hypothesispytest", *options, "test_it.py"]
    return python(*flags.split(), *command, cwd=folder).stdout


MARKED = "import pytest\n@pytest.mark.devices({})\ndef test_it({}): print(device.kind)\n"


def test_a_marked_test_runs_on_each_device(tmp_path: Path) -> None:
    count = len(devmod.devices("opencl"))
    done = run(tmp_path, MARKED.format("'opencl', 'metal'", "device"), "-vv", "--strict-markers")
    assert done.count("::test_it[opencl:") == count
    assert "::test_it[metal] SKIPPED" in done
    assert "Metal needs macOS, got linux" in done
    assert f"{count} passed, 1 skipped" in done


def test_a_bundle_without_the_kind_of_the_device_is_a_skip(tmp_path: Path) -> None:
    wgsl = devmod.compile("@compute @workgroup_size(1) fn k() {}", "webgpu")
    devmod.save(
        devmod.bundle(wgsl, devmod.compile("kernel void k() {}", "metal")), tmp_path / "k.devmod"
    )
    text = "import devmod, pytest\n@pytest.mark.devices('opencl')\ndef test_it(device): devmod.load('k.devmod')['k'].on(device)\n"
    wgsl = devmod.compile(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn f() { x[0] = 1; }",
        "webgpu",
    )
    program = devmod.program("p", wgsl, outputs=["y: float32[1]"], steps=["f(x=y, grid=1)"])
    devmod.save(program, tmp_path / "p.devmod")
    text += "@pytest.mark.devices('opencl')\ndef test_program(device): devmod.load('p.devmod')['p'].on(device)\n"
    text += "@pytest.mark.devices('opencl')\ndef test_other(device): devmod.device('opencl', 99)\n"  # an error of another cause fails the test
    done = run(tmp_path, text)
    count = len(devmod.devices("opencl"))
    assert f"{count} failed, {2 * count} skipped" in done
    assert "FAILED test_it.py::test_it" not in done
    assert "the function 'k' of the bundle cannot run on opencl device 0 (" in done
    assert "its candidates are of kind webgpu, metal" in done
    assert "the candidates of its kernel 'f' are of kind webgpu" in done


#: The kinds of the mark, the argument of the test, and the error.
WRONG_MARKS = [
    (
        "'opncl'",
        "device",
        "test_it.py::test_it: the mark devices: unknown kind 'opncl'. Did you mean 'opencl'?",
    ),
    ("", "", "test_it.py::test_it has the mark devices, so it needs the argument `device`"),
    (
        "'OpenCL'",
        "device",
        "test_it.py::test_it: the mark devices: unknown kind 'OpenCL'. Did you mean 'opencl'?",
    ),
    (
        "['opencl']",
        "device",
        "test_it.py::test_it: the mark devices takes names of kinds, such as devices('opencl', 'vulkan')",
    ),
    (
        "kinds='opencl'",
        "device",
        "test_it.py::test_it: the mark devices takes names of kinds, such as devices('opencl', 'vulkan')",
    ),
]


def test_a_wrong_mark_is_an_error(tmp_path: Path) -> None:
    for number, (kinds, argument, _) in enumerate(WRONG_MARKS):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "test_it.py").write_text(MARKED.format(kinds, argument))
    done = run(
        tmp_path,
        "",
        "--import-mode=importlib",
        *(f"{number}/test_it.py" for number in range(len(WRONG_MARKS))),
    )
    for number, (_, _, text) in enumerate(WRONG_MARKS):
        assert f"{number}/{text}" in done


def test_without_the_mark_nothing_of_devmod_is_imported(tmp_path: Path) -> None:
    plugins = {"devmod_pytest", "devmod_simulators_pytest"}
    text = f"import sys\ndef test_it(): assert {{each for each in sys.modules if each.startswith('devmod')}} <= {plugins}\n"
    assert "1 passed" in run(tmp_path, text, flags="-s")
