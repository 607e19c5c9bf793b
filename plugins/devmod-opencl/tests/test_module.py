"""The OpenCL module: what it is before any driver is opened, how it is built, cached and refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opencl_kernels import ADD, add_info, adder, kernel, twice_info

import devmod
from devmod import FunctionInfo, Param


def run_add(function: Any, n: int = 64, scale: float = 1) -> None:
    a, b, c = np.arange(n, dtype="float32"), np.ones(n, "float32"), np.zeros(n, "float32")
    function(a, b, c, n, grid=1, block=n)
    np.testing.assert_array_equal(c, scale * (a + b))


def python(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, device: Any) -> list[str]:
    """The sources that the driver is given to build, in order."""
    from devmod_opencl import _driver

    seen: list[str] = []
    real = _driver.build_source

    def build(context: Any, handle: Any, text: str, options: tuple[str, ...], what: str) -> Any:
        seen.append(" ".join(options))
        return real(context, handle, text, options, what)

    monkeypatch.setattr(_driver, "build_source", build)
    return seen


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens the driver fails the test."""
    monkeypatch.setitem(sys.modules, "devmod_opencl._driver", None)
    for name in ("_device", "_launch", "_program"):
        monkeypatch.delitem(sys.modules, f"devmod_opencl.{name}", raising=False)


# -- before any driver


@pytest.mark.row("R5", "R6", "R23", "R39")
def test_neither_importing_nor_making_nor_saving_opens_a_driver() -> None:
    program = (
        "import sys, devmod, devmod_opencl\n"
        "assert not {'pyopencl', 'numpy'} & {*sys.modules}, 'import'\n"
        "m = devmod.create('opencl', b'__kernel void k() {}', 'cl', {'k': devmod.FunctionInfo('k', [])})\n"
        "n = devmod.load_from_bytes('opencl', m.save_to_bytes())\n"
        "assert n.save_to_bytes() == m.save_to_bytes() and n.inspect_source() == '__kernel void k() {}'\n"
        "try: n['j']\n"
        "except devmod.FunctionNotFoundError as error: print(error)\n"
        "assert not {'pyopencl', 'numpy'} & {*sys.modules}, 'making'\n"
    )
    assert python(program) == "the opencl module has no function 'j'; it has: 'k'\n"


@pytest.mark.row("R18", "R19")
@pytest.mark.parametrize("fmt", ["cl", "clbin", "xclbin", "awsxclbin", "aocx"])
def test_real_and_fallback_save_the_same_bytes_and_show_the_same(fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fmap = {"add": add_info(), "twice": twice_info()}
    arguments = ("opencl", ADD.encode(), fmt, fmap, {"cl": "the source", "asm": "a listing"})
    real = devmod.create(*arguments)  # type: ignore[arg-type]
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    fallback = devmod.create_with_fallback(*arguments)  # type: ignore[arg-type]
    assert type(real) is not type(fallback)
    data = real.save_to_bytes()
    assert data == fallback.save_to_bytes()
    assert b"".join(real.wire_parts()) == data
    loaded = devmod.load_from_bytes("opencl", data)
    assert type(loaded) is type(real)
    assert loaded.save_to_bytes() == data
    for name in ("kind", "format", "functions"):
        assert getattr(real, name) == getattr(fallback, name) == getattr(loaded, name)
    assert [real.inspect_source(key) for key in ("", fmt, "cl", "asm", "zz")] == [
        fallback.inspect_source(key) for key in ("", fmt, "cl", "asm", "zz")
    ]


@pytest.mark.row("R19")
def test_bytes_in_another_form_are_given_back_as_they_came() -> None:
    import msgpack

    data = b"".join(msgpack.packb(part, use_single_float=True) for part in ("cl", {"twice": ["twice", [[3, 64, 1]], [], []]}))
    data += b"\xc6" + len(ADD).to_bytes(4, "big") + ADD.encode()  # bin 32 where bin 16 would do
    module = devmod.load_from_bytes("opencl", data)
    assert module.save_to_bytes() == data
    fresh = devmod.create("opencl", ADD.encode(), "cl", module.functions)
    assert len(fresh.save_to_bytes()) == len(data) - 2


@pytest.mark.row("R2", "R22")
@pytest.mark.parametrize("fmt", ["cl", "clbin"])
def test_payload_files(fmt: str, tmp_path: Path) -> None:
    module = devmod.create("opencl", ADD.encode(), fmt, {"add": add_info()})
    path = tmp_path / f"add.{fmt}"
    module.write_to_file(path)
    assert path.read_bytes() == ADD.encode()
    loaded = devmod.load_from_file(path)
    assert (loaded.kind, loaded.format, loaded.functions) == ("opencl", fmt, module.functions)
    assert loaded.save_to_bytes() == module.save_to_bytes()


@pytest.mark.row("R16", "R40")
@pytest.mark.parametrize(
    ("fmt", "code", "text"),
    [
        ("cl", b"", "the opencl payload of format 'cl' is empty"),
        ("clbin", b"", "the opencl payload of format 'clbin' is empty"),
        (
            "clbin",
            b"\x03\x02\x23\x07" + bytes(16),
            "the opencl payload of format 'clbin' is SPIR-V, which opencl modules do not carry; keep the OpenCL C source (format 'cl'), or a "
            "vulkan module for shaders",
        ),
        ("cl", b"kernel \xff", "the opencl payload of format 'cl' is not UTF-8 text: byte 7 is 0xff"),
        ("cl", b"kernel \0", "the opencl payload of format 'cl' has a zero byte at 7, which ends a source"),
        (
            "xclbin",
            b"nonsense",
            "the opencl payload of format 'xclbin' does not begin as such a file does (b'xclbin2'): it begins with b'nonsense'",
        ),
        (
            "aocx",
            b"nonsense",
            "the opencl payload of format 'aocx' does not begin as such a file does (b'\\x7fELF'): it begins with b'nonsense'",
        ),
    ],
)
def test_a_payload_that_is_none_is_refused_before_any_driver(fmt: str, code: bytes, text: str, no_driver: None) -> None:
    module = devmod.create("opencl", code, fmt, {"add": add_info()})
    assert devmod.load_from_bytes("opencl", module.save_to_bytes()).format == fmt  # wrapping refuses nothing
    with pytest.raises(devmod.FormatError) as caught:
        module["add"]
    assert str(caught.value) == text


@pytest.mark.parametrize("fmt", ["xclbin", "awsxclbin", "aocx"])
def test_a_vendors_binary_without_that_vendors_device(fmt: str, device: Any) -> None:
    code = (b"\x7fELF" if fmt == "aocx" else b"xclbin2\0") + bytes(64)
    with pytest.raises(devmod.DeviceNotFoundError) as caught:
        devmod.create("opencl", code, fmt, {"add": add_info()})["add"]
    listed = "; ".join(f"{each.index} {each.name} of {each.platform}" for each in devmod.devices() if each.kind == "opencl")
    assert str(caught.value) == (
        f"no OpenCL device here takes a payload of format {fmt!r}, a vendor's binary for its FPGAs; there are: {listed}. "
        "Install that vendor's OpenCL platform, or carry the source (format 'cl')"
    )


# -- drivers that are not there


@pytest.mark.row("R23")
@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (
            "sys.modules['pyopencl'] = None",
            'pyopencl is not installed, so no OpenCL device can be used. To add it and a CPU device: pip install "devmod-opencl[pocl]"',
        ),
        (
            "import importlib.abc\n"
            "class Broken(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'pyopencl': raise ImportError('libOpenCL.so.1: cannot open shared object file')\n"
            "sys.meta_path.insert(0, Broken())",
            "pyopencl cannot be imported: libOpenCL.so.1: cannot open shared object file. Where the OpenCL loader is what is missing, pyopencl's own "
            'wheels bring one: pip install --force-reinstall "pyopencl[pocl]"',
        ),
        (
            "import pyopencl\n"
            "def none(): raise pyopencl.LogicError('clGetPlatformIDs', -1001, 'no platform')\n"
            "pyopencl.get_platforms = none",
            None,
        ),
        ("import pyopencl\npyopencl.get_platforms = lambda: []", None),
    ],
)
def test_what_to_do_where_there_is_no_driver(break_it: str, text: str | None) -> None:
    program = (
        f"import sys\n{break_it}\nimport devmod\n"
        "m = devmod.create('opencl', b'__kernel void k() {}', 'cl', {'k': devmod.FunctionInfo('k', [])})\n"
        "for ask in (lambda: m['k'], lambda: devmod.device('opencl'), lambda: m['k']):\n"
        "    try: ask()\n"
        "    except devmod.DeviceNotFoundError as error: print(error)\n"
        "assert not [each for each in devmod.devices() if each.kind == 'opencl']\n"
    )
    lines = python(program).splitlines()
    assert len(lines) == 3
    assert len({*lines}) == 1
    if text is not None:
        assert lines[0] == text
    else:
        assert lines[0].startswith("no OpenCL device was found: ")
        assert 'pip install "devmod-opencl[pocl]"' in lines[0]


def test_pocl_without_a_place_for_its_cache(device: Any, tmp_path: Path) -> None:
    if device.platform != "Portable Computing Language":
        pytest.skip("the first device is not PoCL's")
    (tmp_path / "file").write_bytes(b"")
    program = "import devmod\ntry: devmod.device('opencl')\nexcept devmod.DeviceNotFoundError as error: print(error)"
    said = python(program, POCL_CACHE_DIR=str(tmp_path / "file" / "pocl"))
    assert said.startswith("no OpenCL device was found: the platform")
    assert (
        " none (PoCL has none where it cannot write its cache: set POCL_CACHE_DIR to a folder that it may write to). For a device" in said
    )


# -- building


@pytest.mark.row("R30", "R37")
def test_it_runs(device: Any) -> None:
    module = adder()
    run_add(module["add"])
    x = np.arange(8, dtype="float32")
    module["twice"](x, grid=2, block=4)
    assert x.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert module["add"] is module["add"]


@pytest.mark.row("R30", "R33")
def test_one_build_serves_all_functions_of_a_module(builds: list[str]) -> None:
    module = adder(ADD + "// one build")
    assert builds == []
    run_add(module["add"])
    module["twice"]
    assert builds == [""]


def test_the_binary_is_kept_and_a_damaged_one_is_built_anew(builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    run_add(adder()["add"])
    (kept,) = (tmp_path / "opencl").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    whole = kept.read_bytes()
    run_add(adder()["add"])
    assert len(builds) == 1
    for damaged in (b"", whole[:40], whole[:-1], whole[:100] + b"\xff" + whole[101:], whole + b"x"):
        kept.write_bytes(damaged)
        run_add(adder()["add"])
        assert kept.read_bytes()[:50] == whole[:50]
    assert len(builds) == 6
    assert [each.name for each in (tmp_path / "opencl").iterdir()] == [kept.name]


def test_without_a_place_for_a_cache_it_is_built(builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "file"))
    for _ in range(2):
        run_add(adder()["add"])
    assert len(builds) == 2


def test_the_options_of_the_first_line_are_the_compilers(builds: list[str]) -> None:
    run_add(adder("//devmod: -cl-fast-relaxed-math -DSCALE=3\n" + ADD)["add"], scale=3)
    run_add(adder("//devmod: -DSCALE=5\n" + ADD)["add"], scale=5)
    assert builds == ["-cl-fast-relaxed-math -DSCALE=3", "-DSCALE=5"]


def test_an_option_that_names_a_path_reaches_no_compiler(builds: list[str]) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        adder("//devmod: -I/etc\n" + ADD)["add"]
    assert str(caught.value) == "the source's first line has the option '-I/etc', which names a path"
    assert builds == []


def test_what_the_compiler_says_is_in_the_error(device: Any) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        adder("__kernel void add(__global float *a) {\n  a[0] = nonsense;\n}")["add"]
    first, second = str(caught.value).splitlines()[:2]
    assert first == f"{device.name} cannot build the opencl source: "
    assert "nonsense" in second
    assert "nonsense" in caught.value.log
    assert len(caught.value.log) >= len(second.strip())
    with pytest.raises(devmod.CompileError) as caught:
        adder("//devmod: -cl-no-such-option\n" + ADD)["add"]
    assert str(caught.value) == (
        f"{device.name} cannot build the opencl source: INVALID_BUILD_OPTIONS: Invalid build option: -cl-no-such-option"
    )


def test_a_function_that_the_source_has_not(device: Any) -> None:
    module = devmod.create(
        "opencl", ADD.encode(), "cl", {"sub": FunctionInfo("sub_kernel", ["handle"]), "add": FunctionInfo("add", ["handle"])}
    )
    with pytest.raises(devmod.FormatError) as caught:
        module["sub"]
    start, _, names = str(caught.value).rpartition("; it has: ")
    assert start == "the built opencl program has no kernel 'sub_kernel', which the payload's fmap names"
    assert {*names.split(", ")} == {"add", "twice"}
    with pytest.raises(devmod.FormatError) as caught:
        module["add"]
    assert str(caught.value) == "the opencl kernel 'add' takes 4 arguments, and the payload's fmap says 1"


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("argument", "declared", "kind", "text"),
    [
        ("__global int *x", "int64", "", "a __global pointer (int*) as argument 2, and the payload's fmap says int64"),
        ("__constant int *x", "float64", "scalar", "a __constant pointer (int*) as argument 2, and the payload's fmap says float64"),
        ("__local int *x", "handle", "buffer", "a __local pointer (int*) as argument 2, and the payload's fmap says buffer"),
        ("__global int *x", "handle", "local", "a __global pointer (int*) as argument 2, and the payload's fmap says local"),
        ("long x", "handle", "", "a value (long) as argument 2, and the payload's fmap says handle"),
        ("long x", "handle", "buffer", "a value (long) as argument 2, and the payload's fmap says buffer"),
    ],
)
def test_a_pointer_declared_as_a_number_reaches_no_driver(argument: str, declared: str, kind: str, text: str, device: Any) -> None:
    params = [devmod.Param("n", "scalar", "int32"), devmod.Param("x", kind or "buffer", "" if declared == "handle" else declared)]
    info = FunctionInfo("k", ["int32", declared], (), (), devmod.Interface(params) if kind else None)
    module = devmod.create("opencl", f"__kernel void k(int n, {argument}) {{}}".encode(), "cl", {"k": info})
    for _ in range(2):  # built, and out of the cache
        with pytest.raises(devmod.FormatError) as caught:
            devmod.load_from_bytes("opencl", module.save_to_bytes())["k"]
        assert str(caught.value) == f"the opencl kernel 'k' takes {text}"


@pytest.mark.row("R14", "R37")
def test_a_program_binary_runs_as_it_is(device: Any, builds: list[str]) -> None:
    from devmod_opencl import _driver

    program = _driver.build_source(device.context, device.handle, ADD, (), "it")
    builds.clear()
    module = devmod.create("opencl", _driver.binary_of(program), "clbin", {"add": add_info()})
    run_add(devmod.load_from_bytes("opencl", module.save_to_bytes())["add"])
    assert builds == []
    with pytest.raises(devmod.LaunchError) as caught:
        module["add"].specialize(SCALE=2)
    assert str(caught.value) == (
        "an opencl function of format 'clbin' cannot be specialized: its constants were fixed when it was built. Carry the source (format 'cl')"
    )


@pytest.mark.row("R40")
@pytest.mark.parametrize("size", [8, 50, 200, 1000, 20000])
def test_a_pocl_binary_that_is_cut_short_does_not_crash_pocl(size: int, device: Any, no_driver: None) -> None:
    # As PoCL 3.0 writes it: a header, the name and the size of the program, the program, the kernels.
    whole = b"poclbin\0" + bytes(64) + b"\x0b\0\0\0/program.bc" + (30000).to_bytes(4, "little") + bytes(40000)
    with pytest.raises(devmod.FormatError) as caught:
        devmod.create("opencl", whole[:size], "clbin", {"add": add_info()})["add"]
    assert str(caught.value) == "the opencl payload of format 'clbin' is a binary of PoCL that is cut short or damaged"


def test_a_binary_of_something_else(device: Any) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        devmod.create("opencl", b"neither fish nor flesh", "clbin", {"add": add_info()})["add"]
    assert str(caught.value) == (
        f"the program binary is not one that {device.name} takes (INVALID_BINARY): a binary runs on the device and driver that made it; "
        "carry the source (format 'cl') for others"
    )


def test_specialize_sets_defines(device: Any, builds: list[str]) -> None:
    f = adder()["add"]
    for scale in (2, 3, 2):
        run_add(f.specialize(SCALE=scale), scale=scale)
    run_add(f.specialize(SCALE="(1 + 3)"), scale=4)
    run_add(f.specialize(SCALE=0.5), scale=0.5)
    run_add(f)
    run_add(adder("#define SCALE 7\n#line 1\n" + ADD)["add"].specialize(SCALE=2), scale=2)
    with pytest.raises(devmod.ArgumentError) as caught:
        # A define over two lines is none that devmod.compile wrote: taking its first line away would leave the second.
        adder("#define SCALE \\\n  7\n" + ADD.replace("#ifndef SCALE\n#define SCALE 1\n#endif\n", ""))["add"].specialize(SCALE=2)
    assert "defines 'SCALE' itself in any case" in str(caught.value)
    with pytest.raises(devmod.ArgumentError) as caught:
        f.specialize(SKALE=2)
    assert str(caught.value) == "the opencl source has no constant 'SKALE' to specialize"
    with pytest.raises(devmod.ArgumentError) as caught:
        f.specialize(SCALE=None)
    assert (
        str(caught.value)
        == "the constant 'SCALE' of the opencl source cannot be None: it is an int, a float, a bool, or the text of a define"
    )
    with pytest.raises(devmod.ArgumentError) as caught:
        adder(ADD.replace("#ifndef SCALE", "").replace("#endif", ""))["add"].specialize(SCALE=2)
    assert str(caught.value) == (
        "the opencl source defines 'SCALE' itself in any case, so it cannot be specialized; write #ifndef SCALE round its #define"
    )


def test_specialize_may_change_the_size_of_a_block(device: Any) -> None:
    source = """
    #ifndef TILE
    #define TILE 4
    #endif
    __kernel __attribute__((reqd_work_group_size(TILE, 1, 1))) void size(__global int *x) { x[get_global_id(0)] = get_local_size(0); }
    """
    f = kernel(source, "size", [Param("x", "buffer", "int32", "w")], (4, 1, 1))
    for function, block in ((f, 4), (f.specialize(TILE=8), 8), (f.specialize(TILE=2), 2)):
        x = np.zeros(16, "int32")
        function(x, grid=16 // block)
        assert x.tolist() == [block] * 16
    with pytest.raises(devmod.ArgumentError) as caught:
        f.specialize(TILE=8)(x, grid=1, block=4)
    assert (
        str(caught.value)
        == "the opencl function 'size' is built for blocks of (8, 1, 1) threads, and (4, 1, 1) was given; leave block= out"
    )


# -- a compiler of the receiver's own


@pytest.fixture
def set_compiler() -> Iterator[Any]:
    yield devmod.set_compiler
    devmod.set_compiler("opencl", None)


@pytest.mark.row("R31")
def test_the_compile_step_can_be_replaced(device: Any, builds: list[str], set_compiler: Any) -> None:
    asked: list[bytes] = []

    def compiler(code: bytes) -> bytes:
        asked.append(code)
        return code.replace(b"#define SCALE 1", b"#define SCALE 9")

    set_compiler("opencl", compiler)
    module = adder()
    assert asked == []
    run_add(module["add"], scale=9)
    module["twice"]
    assert asked == [ADD.encode()]
    assert module.inspect_source() == ADD
    set_compiler("opencl", None)
    assert module.save_to_bytes() == adder().save_to_bytes()


@pytest.mark.row("R31")
def test_a_replaced_compiler_may_give_a_binary(device: Any, set_compiler: Any) -> None:
    from devmod_opencl import _driver

    binary = _driver.binary_of(_driver.build_source(device.context, device.handle, ADD, (), "it"))
    set_compiler("opencl", lambda code: ("clbin", binary))
    run_add(adder("what it is given does not matter")["add"])


# -- threads


def ask_together(module: devmod.Module, count: int = 64) -> list[Any]:
    start = threading.Barrier(count)
    answers: list[Any] = []

    def ask() -> None:
        start.wait()
        try:
            answers.append(module["add"])
        except Exception as error:
            answers.append(error)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.row("R32")
def test_sixty_four_threads_cause_one_build(builds: list[str]) -> None:
    answers = ask_together(adder(ADD + "// sixty-four"))
    assert len(answers) == 64
    assert len({id(each) for each in answers}) == 1
    assert len(builds) == 1
    run_add(answers[0])


@pytest.mark.row("R32")
def test_a_failing_build_is_raised_in_all_and_tried_again(builds: list[str], set_compiler: Any) -> None:
    calls: list[int] = []
    waiting = threading.Event()

    def failing(code: bytes) -> bytes:
        calls.append(1)
        waiting.wait(0.3)  # the others come meanwhile
        raise OSError("the licence server is away")

    set_compiler("opencl", failing)
    module = adder(ADD + "// failing")
    answers = ask_together(module)
    assert [str(each) for each in answers] == ["the licence server is away"] * 64
    assert len(calls) < 64
    assert builds == []
    set_compiler("opencl", None)
    run_add(module["add"])
    assert len(builds) == 1


@pytest.fixture
def often_switched() -> Iterator[None]:
    """Threads take turns after a few instructions, so that what is not thread-safe shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.row("R32")
def test_one_function_called_by_many_threads(device: Any, often_switched: None) -> None:
    source = "__kernel void fill(__global int *x, int value) { x[get_global_id(0)] = value; }"
    f = kernel(source, "fill", [Param("x", "buffer", "int32", "w"), Param("value", "scalar", "int32")])
    wrong: list[Any] = []

    def work(seed: int) -> None:
        x = device.empty(4, "int32")
        for turn in range(200):
            f(x, 1000 * seed + turn, grid=1, block=4)
            found = x.numpy().tolist()
            if found != [1000 * seed + turn] * 4:
                wrong.append((seed, turn, found))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.row("R32")
def test_calls_at_the_same_time_have_kernel_objects_of_their_own(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_opencl import _launch

    meet, real, handles = threading.Barrier(4, timeout=30), _launch._enqueue, []

    def enqueue(queue: Any, handle: Any, *rest: Any) -> Any:
        handles.append(handle)
        meet.wait()  # all four have set their arguments, and none has launched
        return real(queue, handle, *rest)

    monkeypatch.setattr(_launch, "_enqueue", enqueue)
    f = adder()["twice"]
    arrays = [device.from_numpy(np.full(4, number, "float32")) for number in range(4)]
    for _ in range(2):
        threads = [threading.Thread(target=f, args=(each,), kwargs={"grid": 1, "block": 4}) for each in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [each.numpy()[0] for each in arrays] == [0, 4, 8, 12]
    assert len({each.int_ptr for each in handles}) == 4  # and four are enough for the second time
