"""Functions of tinygrad as programs: what they compute on devices, what an error says, and that a
file depends on the function alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import metal_standin
import numpy as np
import pytest
import tinygrad_cases
from backend_checks import first_device, run_python
from each_case import refusal, some
from metal_double import replace_metal
from tinygrad_cases import NAMES, cases, checked, results

import devmod
from devmod import ArgumentError
from devmod.backend import walk
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod.interop import tinygrad as interop
from devmod_readers.programs import read_program
from devmod_simulators import UnavailableError, libcuda
from devmod_standins import libamdhip64, rdna3

pytest.importorskip("tinygrad", reason="tinygrad is not installed")
from tinygrad import Tensor, Variable

pytestmark = pytest.mark.row("R47")
BOTH = ["opencl", "webgpu"]
RANDOM = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let tinygrad run here, and render in this process: another one imports tinygrad first, which
    takes longer than the kernels of a test.
    """
    monkeypatch.setattr(interop, "_MANY", 1000)
    with interop.cpu():
        yield


def export(function: Any, *inputs: Any, targets: Any = "webgpu", **options: Any) -> devmod.Module:
    return interop.export(function, *inputs, targets=targets, name="f", **options)


def tensor(*shape: int, dtype: str = "float32") -> Any:
    return Tensor(RANDOM.standard_normal(shape).astype(dtype)).realize()


@pytest.mark.parametrize(
    "name",
    [
        each
        for each in NAMES
        if each not in ("float64", "half", "bfloat16", "bfloat16 weights", "constant result")
    ],
)
def test_a_small_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["opencl", "vulkan", "webgpu"]
    devices = [first_device(kind) for kind in kinds]
    monkeypatch.setattr(devmod, "devices", lambda *_: devices)
    (line,) = checked(*cases()[name].made(), kinds)
    assert line.startswith(
        "checked on opencl:0, vulkan:0 and webgpu:0 against tinygrad on the CPU: worst error "
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("float64", "opencl"),
        ("bfloat16", "opencl"),
        ("bfloat16 weights", "opencl"),
        ("float64", "vulkan"),
        ("bfloat16", "vulkan"),
        ("half", "vulkan"),
        ("half", "webgpu"),
    ],
)
def test_an_element_type_of_some_kinds(name: str, kind: str) -> None:
    first_device(kind)
    assert checked(*cases()[name].made(), kind)[0].startswith(f"checked on {kind}:0")


def test_a_result_that_is_constant_has_a_remark() -> None:
    function, inputs = cases()["constant result"].made()
    line, remark = checked(function, inputs, "opencl")
    assert line.startswith("checked on opencl:0")
    assert remark == "result 0 is the same everywhere, so a wrong one may equal it"
    program = export(function, *inputs)["f"].on(first_device("webgpu"))
    np.testing.assert_array_equal(program(inputs[0].numpy()), np.full(4, 3, "float32"))


#: No kind of these cases: a process takes most of a second to list all devices.
OTHERS = {"DEVMOD_PLUGINS_DENY": "devmod-hexagon,devmod-opencl,devmod-vulkan,devmod-webgpu"}


def test_angles_beyond_pi_on_vulkan() -> None:
    """Vulkan has a precision of sin up to π alone, and clspv compiles that of double wrongly."""
    first_device("vulkan")
    for dtype in ("float32", "float64"):
        angles = np.array([0.5, 100, 1e6, -1.2e8], dtype)
        module = export(lambda x: x.sin(), Tensor(angles), targets="vulkan")
        got = module["f"].on(first_device("vulkan"))(angles)
        np.testing.assert_allclose(got, np.sin(angles.astype(np.float64)), rtol=0, atol=2e-7)


def test_the_compiler_of_vulkan_refuses_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads with conditions become volatile, which helps some kernels. Else the error names the
    output that needs the kernel.
    """
    texts = []
    own = devmod.compile

    def refuse(text: str, *arguments: Any, **options: Any) -> Any:
        texts.append(text)
        if helps and "volatile" in text:
            return own(text, *arguments, **options)
        raise CompileError(
            "<text>:9: error: clspv ends. The option --partial keeps 'f_vulkan_k0'",
            kind="vulkan",
            function="f_vulkan_k1",
        )

    monkeypatch.setattr(devmod, "compile", refuse)

    def two(x: Tensor) -> Any:
        return {"first": x + 1, "second": x.pad((1, 1))}

    helps = True
    x = np.ones(100, "float32")
    module = export(two, Tensor(x), targets="vulkan")
    assert ["volatile" in text for text in texts] == [False, True]
    second = module["f"].on(first_device("vulkan"))(x)[1]
    np.testing.assert_array_equal(second, [0, *x, 0])
    helps = False
    assert refusal(CompileError, export, two, tensor(100), targets="vulkan") == (
        "the program 'f' cannot be made for vulkan: its output 'second' needs the kernel 'f_vulkan_k1', which its compiler refuses "
        "(<text>:9: error: clspv ends). Leave out vulkan"
    )


@pytest.mark.parametrize("has_nvrtc", [True, False])
def test_cuda_without_nvrtc_has_kernels_in_opencl_c(
    has_nvrtc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ToolchainNotFoundError("NVRTC is not installed")

    if not has_nvrtc:
        monkeypatch.setattr(interop.nvrtc, "version", missing)
    module = export(lambda x: x.sin() + 1, tensor(4), targets="cuda -arch=compute_80")
    (kernels,) = (part for part in walk(module) if part.kind == "cuda")
    origin = kernels.origin
    assert origin is not None
    assert ("nvrtc" in origin.toolchain) == has_nvrtc
    assert ("ziglang" in origin.toolchain) != has_nvrtc


def run_cases(environment: dict[str, str], *arguments: str) -> None:
    program = str(Path(tinygrad_cases.__file__))
    done = subprocess.run(
        [sys.executable, program, *arguments],
        env=os.environ | OTHERS | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all("['checked on " in line for line in some(lines))
    remarks = [line for line in lines if "the same everywhere" in line]
    expected = {"constant result"}.intersection(arguments[1:] or NAMES)
    assert [line.partition(":")[0] for line in remarks] == [*expected]


@pytest.mark.parametrize(
    "names",
    [["int8 weights", "half", "two results"], pytest.param([], marks=pytest.mark.volume)],
    ids=str,
)
def test_the_small_functions_on_cuda(names: list[str]) -> None:
    try:
        run_cases(libcuda.environment(arch="90"), "cuda -arch=compute_80", *names)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.volume
def test_the_small_functions_on_rocm() -> None:
    if reason := rdna3.missing():
        pytest.skip(reason)
    try:
        environment = {**libamdhip64.environment(), rdna3.VARIABLE: str(rdna3.folder())}
    except UnavailableError as error:
        pytest.skip(str(error))
    # The emulator executes no v_div_fixup_f16.
    names = [each for each in NAMES if each != "half"]
    run_cases({**environment, "CC": ""}, "rocm -arch=gfx1100", *names)


@pytest.mark.skipif(bool(metal_standin.missing()), reason=metal_standin.missing())
@pytest.mark.volume_but("int8 weights", "half", "two results")
@pytest.mark.parametrize(
    "name", [each for each in NAMES if each not in ("float64", "bfloat16", "constant result")]
)
def test_a_small_function_on_metal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double runs the kernels as C++ on the CPU."""
    replace_metal(monkeypatch)
    assert checked(*cases()[name].made(), "metal")[0].startswith(
        "checked on metal:0 and metal:1 against tinygrad on the CPU: worst error "
    )


def test_each_kind_has_its_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """WebGPU has at most eight buffers in a kernel, so it has more kernels. Another process renders
    some of them.
    """
    monkeypatch.setattr(interop, "_MANY", 1)
    inputs = [tensor(64) for _ in range(12)]

    def total(*arrays: Tensor) -> Tensor:
        return sum(arrays[1:], arrays[0])

    targets = [*BOTH, "vulkan", "metal", "cuda -arch=compute_80", "rocm -arch=gfx1100"]
    reports: list[str] = []
    module = interop.export(total, *inputs, targets=targets, name="total", report=reports.append)
    counts = {
        kind: sum(name.startswith(f"total_{kind}_k") for name in module.functions)
        for kind in map(str.split, targets)
        for kind in kind[:1]
    }
    assert (
        counts["webgpu"]
        > counts["opencl"]
        == counts["cuda"]
        == counts["rocm"]
        == counts["vulkan"]
        == counts["metal"]
        == 1
    )
    counts_of_webgpu = []
    for name, info in module.functions.items():
        if "_webgpu_k" in name and info.interface:
            counts_of_webgpu.append(len(info.interface.params))
    assert max(counts_of_webgpu) <= 8
    assert reports[-1] == "rocm: compiling 1 kernels"
    lines = interop.check(
        module,
        "total",
        {f"x{n}": each.numpy() for n, each in enumerate(inputs)},
        results(total(*inputs)),
    )
    assert lines[0].startswith("checked on ")


def test_a_symbolic_length() -> None:
    weight, n = tensor(16, 8), Variable("n", 1, 32)

    def attention(x: Tensor) -> Tensor:
        q = x @ weight
        return (q @ q.transpose(1, 2)).softmax() @ q

    full = tensor(2, 32, 16)
    module = interop.export(attention, full[:, : n.bind(3)], targets=BOTH, name="attention")
    module = devmod.loads(devmod.dumps(module))
    assert (
        str(module.functions["attention"].interface)
        == "<Interface (x: float32[2, n, 16]) -> y: float32[2, n, 8]>"
    )
    for length in (1, 7, 32):
        x = full.numpy()[:, :length].copy()
        assert interop.check(module, "attention", {"x": x}, results(attention(Tensor(x))))[
            0
        ].startswith("checked on opencl:0")


def test_a_symbolic_length_has_both_bounds() -> None:
    full = tensor(8, 4)
    length = Variable("n", 3, 8).bind(5)
    module = export(lambda x: x + 1, full[:length], targets=BOTH)
    for kind in BOTH:
        function = module["f"].on(first_device(kind))
        for rows in (3, 8):
            x = full.numpy()[:rows].copy()
            np.testing.assert_array_equal(function(x), x + 1)
        for rows, comparison in (
            (2, "3 <= n, and that is 3 <= 2"),
            (9, "n <= 8, and that is 9 <= 8"),
        ):
            with pytest.raises(ArgumentError, match=rf"it requires {comparison}"):
                function(np.zeros((rows, 4), "float32"))


def test_a_symbolic_grid_that_exceeds_the_limit_of_a_kind() -> None:
    """WebGPU has 65,535 blocks in a dimension, so the product of a length and a number becomes two
    dimensions.
    """

    def doubled(x: Any) -> Any:
        return {"sum": x.sum(1), "double": x * 2}

    full = tensor(70_000, 4)
    module = export(doubled, full[: Variable("n", 1, 40000).bind(3)])
    x = full.numpy()[:40_000]
    _, double = module["f"].on(first_device("webgpu"))(x)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(double, x * 2)
    text = refusal(ArgumentError, export, doubled, full[: Variable("n", 1, 70000).bind(3)])
    limit = "a grid of up to 70000 blocks in one dimension, of which it has 65535"
    needs = f"{limit}, for REDUCE. Choose a smaller largest length"
    assert text == f"the program 'f' cannot be made for webgpu: its output 'sum' needs {needs}"


class Step:
    """One step of a transformer's attention with a cache of keys and values, which it makes in its
    first call.
    """

    def __init__(self, size: int) -> None:
        self.table, self.qkv, self.out, self.size = (
            tensor(20, 8),
            tensor(8, 24),
            tensor(8, 20),
            size,
        )
        self.itself = self

    def __call__(self, token: Any, position: Any) -> Any:
        x = self.table[token]
        q, k, v = (x @ self.qkv).chunk(3, -1)
        if not hasattr(self, "cache"):
            self.cache = Tensor.zeros(2, self.size, 8).contiguous().realize()
        self.cache[:, position : position + 1].assign(Tensor.stack(k, v)).realize()
        keys, values = self.cache[0, : position + 1], self.cache[1, : position + 1]
        return ((q @ keys.transpose(0, 1)).softmax() @ values) @ self.out


@pytest.mark.parametrize("is_called", [False, True], ids=["new cache", "used cache"])
def test_a_step_with_a_cache_in_two_threads(is_called: bool) -> None:
    step, tokens = Step(16), RANDOM.integers(0, 20, 5).astype("int32")
    position, number = Variable("position", 0, 15), Tensor(np.array([1], "int32")).realize()
    if is_called:
        step(number, position.bind(0)).realize()
    module = devmod.loads(
        devmod.dumps(interop.export(step, number, position.bind(5), targets=BOTH, name="step"))
    )
    assert (
        str(module.functions["step"].interface)
        == "<Interface (token: int32[1], position: int32) -> y: float32[1, 20]>"
    )
    functions: list[Any] = [module["step"].on(first_device(kind)) for kind in BOTH]
    for function in functions:
        first = function.state()
        assert list(first) == ["cache"]
        np.testing.assert_array_equal(
            first["cache"].numpy(), step.cache.numpy()
        )  # the export runs no kernel that changes it
        assert first["cache"].numpy().any() == is_called
    expected = []
    for at in range(5):
        expected += results(step(Tensor(tokens[at : at + 1]), position.bind(at)))
    errors: list[float] = []

    def run(function: Any) -> None:
        state = function.state()
        got = [function(tokens[at : at + 1], position=at, state=state) for at in range(5)]
        errors.append(float(abs(np.array(got) - np.array(expected)).max()))

    threads = [threading.Thread(target=run, args=[each]) for each in functions * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 4
    assert max(errors) < 1e-5 * abs(np.array(expected)).max()


def test_a_variable_without_a_value() -> None:
    """No call takes the branch that has it."""
    own = tensor(4)

    def layer(x: Any) -> Any:
        if x.ndim > 1:
            return x * later
        return x + own

    program = export(layer, tensor(4), targets="opencl")["f"].on(first_device("opencl"))
    assert program(np.zeros(4, "float32")).tolist() == own.tolist()
    later = own


def test_a_tensor_without_values() -> None:
    """One that the function writes is state, which begins with zeros. One that it reads alone is an
    error.
    """
    held = Tensor.empty(4)

    def write(x: Any) -> Any:
        held[1:3].assign(x).realize()
        return held + held

    ones = np.ones(2, "float32")
    program: Any = export(write, tensor(2), targets="opencl")["f"].on(first_device("opencl"))
    state = program.state()
    assert program(ones, state=state).tolist() == [0, 2, 2, 0]
    assert state["held"].numpy().tolist() == [0, 1, 1, 0]

    export(lambda x: x + x, tensor(4), constants={"held": held})  # it is not used
    other = Tensor.empty(4)
    text = refusal(ArgumentError, export, lambda x: x + (other + held), tensor(4))
    assert text == (
        "the function uses tensors that have no values (Tensor.empty): 'held', 'other'. Give them values before the export"
    )


class Holder:
    """A function that replaces a tensor."""

    def __init__(self) -> None:
        self.held = tensor(4)

    def same(self, x: Any) -> Any:
        self.held = self.held.cast("float16").realize()
        return x + self.held

    def result(self, x: Any) -> Any:
        self.held = (x + x).realize()
        return self.held + 1

    def average(self, x: Any) -> Any:
        self.held = (self.held * 0.5 + x).realize()
        return self.held

    def lazy(self, x: Any) -> Any:
        self.held = self.held * 0.5 + x
        return self.held.sum()


@pytest.mark.parametrize("name", ["same", "result"])
def test_a_tensor_that_the_function_replaces_is_no_state(name: str) -> None:
    """One that depends on no input is a constant, and one that no later call uses a temporary."""
    x = np.ones(4, "float32")
    holder = Holder()
    device = first_device("opencl")
    expected = 3 * x
    if name == "same":
        device = first_device("opencl", "fp16")
        expected = x + holder.held.numpy().astype("float16")
    module = export(getattr(holder, name), tensor(4), targets="opencl")
    program: Any = module["f"].on(device)
    assert not program.states
    assert program(x).tolist() == expected.tolist()


def test_a_tensor_that_the_function_uses_and_replaces_is_an_error() -> None:
    for name in ("average", "lazy"):
        assert refusal(ArgumentError, export, getattr(Holder(), name), tensor(4)) == (
            "the function replaces the tensor 'held', which it uses, and a later call would use the old one. Assign the values: held.assign(…)"
        )


def test_constants_are_computed_once_and_equally_on_each_processor() -> None:
    """A processor that multiplies and adds at once rounds once."""
    weights = Tensor(np.linspace(0.3, 2, 16, dtype="float32").reshape(4, 4)).realize()

    class Model:
        def __init__(self) -> None:
            self.layers = [weights]

        def __call__(self, x: Tensor) -> Tensor:
            scale = (self.layers[0] * self.layers[0] + 0.1).contiguous()
            return x @ scale + self.layers[0].sum() + Tensor([1.0, 2, 3, 4])

    module = export(Model(), tensor(2, 4), targets="opencl", names=["x"])
    constants = (
        next(part for part in module.imports if part.kind == "const_loader")
        if module.imports
        else module
    )
    square = weights.numpy() * weights.numpy() + np.float32(0.1)
    np.testing.assert_array_equal(constants.get_global("c0").numpy().reshape(4, 4), square)
    np.testing.assert_array_equal(constants.get_global("layers_0").numpy(), weights.numpy())


def test_an_input_that_the_function_assigns_and_results_by_name() -> None:
    def move(place: Tensor, speed: Tensor) -> dict[str, Tensor]:
        place.assign(place + speed).realize()
        return {"length": (place * place).sum(), "twice": place * 2}

    module = interop.export(move, tensor(4), tensor(4), targets="webgpu", name="move")
    assert (
        str(module.functions["move"].interface)
        == "<Interface (speed: float32[4], place: float32[4] rw) -> length: float32[()], twice: float32[4]>"
    )


def test_kinds_share_what_they_have_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is called once for kinds with a limit of buffers and without one, a kernel is
    rewritten once for kinds whose rules are equal, and temporaries have the same names.
    """
    from tinygrad import codegen

    calls = [0]
    rewrites = [0]
    own = codegen.graph_rewrite

    def rewrite(*arguments: Any, **options: Any) -> Any:
        rewrites[0] += 1
        return own(*arguments, **options)

    def mean(x: Tensor) -> Tensor:
        calls[0] += 1
        return (x - x.mean(1, keepdim=True)).contiguous().sum(1)

    monkeypatch.setattr(codegen, "graph_rewrite", rewrite)
    targets = [*BOTH, "metal"]
    for each in targets:
        alone = interop.export(mean, tensor(8, 16), targets=each, name="mean")
    assert calls == [3]
    rewrites[0] = 0
    for each in targets:
        interop.export(mean, tensor(8, 16), targets=each, name="mean")
    apart = rewrites[0]
    rewrites[0] = 0
    calls[0] = 0
    both = interop.export(mean, tensor(8, 16), targets=targets, name="mean")
    assert calls == [1]
    assert rewrites[0] < 0.75 * apart
    assert temporaries(both) == [temporaries(alone)[0]] * 3


def temporaries(module: devmod.Module) -> list[list[str]]:
    """The names of the temporaries of each program."""
    programs = [part for part in walk(module) if part.kind == "program"]
    read = [read_program("mean", each.functions["mean"], each.code["mean"]) for each in programs]
    return [[array.name for array in each.arrays("temporary")] for each in read]


def test_a_process_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop, "_MANY", 1)
    monkeypatch.setattr(interop, "processors", lambda: 2)
    monkeypatch.setattr(interop, "_RENDER", "devmod.errors")  # it has no `main`
    assert refusal(
        CompileError,
        interop.export,
        lambda x: (x * 2, x.sum()),  # this process renders the first kernel
        tensor(8),
        targets="opencl",
        name="twice",
    ).startswith(
        "tinygrad cannot render the kernel 'twice_opencl_k1' for opencl: the process that renders it ends the process with exit status 1"
    )


def child(many: int, **environment: str) -> str:
    """Return the digest of a file that another process makes, in which one renders so many
    kernels.
    """
    return run_python(
        f"import hashlib, numpy, devmod\nfrom devmod.interop import tinygrad as interop\ninterop._MANY = {many}\nwith interop.cpu():\n"
        "    from tinygrad import Tensor\n    w = Tensor(numpy.arange(64, dtype='float32').reshape(8, 8)).realize()\n"
        "    f = lambda x: (x @ w.exp().contiguous(), x.sum(), x.argmax(), x + 1, x * 2, x - 3)\n"
        "    module = interop.export(f, Tensor.empty(1, 1, 8, 8), targets=['opencl', 'metal'], name='f')\n"
        "print(hashlib.sha256(devmod.dumps(module)).hexdigest())",
        **environment,
    )


def test_the_same_bytes_in_each_process_also_without_a_clang(tmp_path: Path) -> None:
    settings = {
        "PATH": str(tmp_path),
        "CC": "no-such-compiler",
        "CACHEDB": str(tmp_path / "cache.db"),
        "NOOPT": "1",
        "BEAM": "2",
    }
    assert child(6, PYTHONHASHSEED="1") == child(1000, PYTHONHASHSEED="2", **settings)
    assert not (tmp_path / "cache.db").exists()


def test_a_file_needs_no_tinygrad(tmp_path: Path) -> None:
    first_device("webgpu")
    function, x = (lambda x: (x * 2).softmax()), tensor(3, 5)
    devmod.save(export(function, x, targets=BOTH), tmp_path / "f.devmod")
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "y.npy", results(function(x))[0])
    digest = run_python(
        "import sys, hashlib, numpy, devmod; sys.modules['tinygrad'] = None\nfrom devmod.interop import tinygrad\n"
        f"x, y = (numpy.load({str(tmp_path)!r} + f'/{{each}}.npy') for each in 'xy')\nmodule = devmod.load({str(tmp_path / 'f.devmod')!r})\n"
        "numpy.testing.assert_allclose(module['f'].on(devmod.device('webgpu'))(x), y, atol=1e-6)\n"
        "print(hashlib.sha256(devmod.dumps(module)).hexdigest())"
    )
    assert digest.strip() == hashlib.sha256((tmp_path / "f.devmod").read_bytes()).hexdigest()


def test_the_settings_of_tinygrad_stay() -> None:
    from tinygrad.engine import realize
    from tinygrad.helpers import ContextVar
    from tinygrad.runtime.support import compiler_cpu
    from tinygrad.uop.ops import UOp

    def state() -> list[Any]:
        return [
            {name: each.value for name, each in ContextVar._cache.items()},
            realize.capturing[:],
            UOp.contiguous_view,
            id(compiler_cpu.subprocess),
        ]

    export(lambda x: x + 1, tensor(2))  # imports the rest of tinygrad, whose settings are new
    before = state()
    with pytest.raises(ZeroDivisionError):
        export(lambda x: x + 1 // 0, tensor(2))
    export(lambda x: x + 1, tensor(2))
    assert state() == before


def moved(x: Any) -> Any:
    return x.to("CPU:1").contiguous() + 1


def rand(x: Any) -> Any:
    return x + Tensor.rand(4)


def read_item(x: Any) -> Any:
    if x.sum().item() > 0:
        return x
    return -x


def read_list(x: Any) -> Any:
    return x + x.tolist()[0]


def read_array(x: Any) -> Any:
    return x + Tensor(x.numpy())


ONE = {"targets": "opencl"}
FOUR = [("float32", 4)]
READS = (
    "the function reads the values of a tensor (item, numpy, tolist, data), which each call has anew. Compute with Tensors, as in "
    "condition.where(a, b)"
)
RANDOMS = (
    "the function makes random numbers (Tensor.rand, dropout, a tensor whose first values are random), which a program does not have. Make "
    "them an input, or realize such a tensor before the export"
)


@pytest.mark.parametrize(
    ("function", "inputs", "keywords", "text"),
    [
        (
            lambda x: x.sin(),
            [("float64", 4)],
            {"targets": BOTH, "outputs": ["wave"]},
            "the program 'f' cannot be made for webgpu: its output 'wave' needs float64 in an array. Kinds with float64: opencl, vulkan, cuda, rocm",
        ),
        (
            lambda x: (x + 1, x.cast("bfloat16").exp().cast("float32")),
            FOUR,
            {"targets": "webgpu"},
            "the program 'f' cannot be made for webgpu: its output 'y1' needs bfloat16 in CAST. Kinds with bfloat16: opencl, vulkan, cuda, rocm, metal",
        ),
        (rand, FOUR, ONE, RANDOMS),
        (
            lambda x: x + 1,
            [("float32", 0)],
            ONE,
            "'x' is an empty array of shape (0,), which no kernel has",
        ),
        (
            moved,
            FOUR,
            ONE,
            "the program 'f' cannot be made for opencl: its output 'y' needs a copy between devices in each call, which no program has",
        ),
        (
            lambda x: 3,
            FOUR,
            ONE,
            "fn returned int; expected a Tensor, or several of them",
        ),
        (lambda: 3, [], ONE, "fn returned int; expected a Tensor, or several of them"),
        (
            lambda x: x,
            FOUR,
            {**ONE, "outputs": ["a", "b"]},
            "outputs has 2 names; fn has 1 results",
        ),
        (
            lambda x, y: x,
            [("float32", 4)] * 2,
            {**ONE, "names": ["a", "a"]},
            "names has 'a', 'a'; expected 2 different names, one for each input",
        ),
        (
            lambda x: x,
            FOUR,
            {**ONE, "name": "my model"},
            "tinygrad.export: name='my model' is no name of a program; expected letters, digits and _",
        ),
        (lambda x: x, [3], ONE, "the input 'x' is int; expected a Tensor or a bound Variable"),
        (
            lambda x: x,
            [lambda: Tensor(1.5)],
            ONE,
            "the input 'x' is a number without an element type; give it one, as in Tensor(1.5, dtype='float32')",
        ),
        *((function, FOUR, ONE, READS) for function in (read_item, read_list, read_array)),
        (
            lambda x: x,
            FOUR,
            {"targets": ["hexagon"]},
            "tinygrad.export: expected one target of each kind, of 'opencl', 'vulkan', 'webgpu', 'cuda', 'rocm', 'metal'; got 'hexagon'",
        ),
        (
            lambda x: x,
            FOUR,
            {"targets": ["opencl", "opencl"]},
            "tinygrad.export: expected one target of each kind, of 'opencl', 'vulkan', 'webgpu', 'cuda', 'rocm', 'metal'; got 'opencl', 'opencl'",
        ),
    ],
)
def test_what_a_program_does_not_have(function: Any, inputs: Any, keywords: Any, text: str) -> None:
    values = [made(each) for each in inputs]
    options = {"name": "f", **keywords}
    assert refusal(ArgumentError, interop.export, function, *values, **options) == text


def test_a_word_for_several_kinds_is_explained() -> None:
    with pytest.raises(devmod.NotRegisteredError, match="gpu is a word for devices of several k"):
        interop.export(lambda x: x, Tensor.empty(4), targets="gpu", name="f")


def made(value: Any) -> Any:
    """Return an input of a case. tinygrad needs a compiler to make a tensor, so none is made while
    the tests are collected.
    """
    if isinstance(value, tuple):
        dtype, *shape = value
        return tensor(*shape, dtype=dtype)
    if callable(value):
        return value()
    return value


def test_a_tensor_on_another_device() -> None:
    other = tensor(4).to("CPU:1").realize()
    assert (
        refusal(
            ArgumentError,
            export,
            lambda x: x + 1,
            tensor(4),
            constants={"w": other},
        )
        == "tensors are on another device than tinygrad's CPU: 'w'. Move them: t.to('CPU')"
    )


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (
            "0.13.1",
            "tinygrad 0.13.1 is installed, and its versions differ too much. tinygrad 0.14.0 is not installed. To add it: ",
        ),
        ("", "tinygrad 0.14.0 is not installed. To add it: "),
    ],
)
def test_another_version_of_tinygrad_is_refused(
    version: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    message = refusal(ToolchainNotFoundError, interop.export, 3, targets=3, name=3)
    command = devmod.errors.pip_install("devmod-core[tinygrad]")
    assert message == f"functions of tinygrad cannot be exported here: {text}{command}"


# -- The check.


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            lambda x: x * 2 + 1.001,
            "result 0 of 'f' on webgpu:0 differs by 1.0e-03 from that of tinygrad on the CPU, whose largest magnitude is 3: at most 3.0e-04 is allowed",
        ),
        (
            lambda x: (x * 2 + 1).log() + float("nan"),
            "result 0 of 'f' on webgpu:0 differs by nan from that of tinygrad on the CPU, whose largest magnitude is 3: at most 3.0e-04 is allowed",
        ),
        (
            lambda x: (x * 2 + 1).reshape(2, 2),
            "result 0 of 'f' on webgpu:0 is float32[2, 2]; tinygrad on the CPU gives float32[4]",
        ),
        (
            lambda x: (x * 2 + 1).cast("int32"),
            "result 0 of 'f' on webgpu:0 is int32[4]; tinygrad on the CPU gives float32[4]",
        ),
    ],
)
def test_a_wrong_program_is_noticed(wrong: Any, text: str) -> None:
    first_device("webgpu")
    x = np.array([0, 0.25, 0.5, 1], "float32")
    module = export(wrong, Tensor(x))
    assert refusal(CompileError, interop.check, module, "f", {"x": x}, [x * 2 + 1]) == text


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_result_is_compared(number: int) -> None:
    first_device("webgpu")
    x = np.array([0, 0.25, 0.5, 1], "float32")
    module = export(lambda x: (x + 1, x * 2, x - 1), Tensor(x))
    expected = [x + 1, x * 2, x - 1]
    assert interop.check(module, "f", {"x": x}, expected)[0].startswith("checked on webgpu:0")
    expected[number] = expected[number] + x
    with pytest.raises(CompileError, match=rf"^result {number} of 'f' on webgpu:0 differs by 1\.0"):
        interop.check(module, "f", {"x": x}, expected)


def test_an_integer_must_be_equal_and_float16_is_less_exact() -> None:
    first_device("webgpu")
    numbers = np.array([5, 2000, 3], "int32")
    module = export(lambda x: x + 1, Tensor(numbers))
    assert interop.check(module, "f", {"x": numbers}, [numbers + 1]) == [
        "checked on webgpu:0 against tinygrad on the CPU: worst error 0.0e+00 of 2e+03"
    ]
    with pytest.raises(CompileError, match=r"differs by 1\.0e\+00 .* at most 0\.0e\+00 is allowed"):
        interop.check(module, "f", {"x": numbers}, [numbers + np.array([1, 1, 2], "int32")])
    half = np.array([0.5, 1, 2], "float16")
    module = export(lambda x: x + 1, Tensor(half))
    assert interop.check(module, "f", {"x": half}, [half + np.float16(1.01)])[0].startswith(
        "checked on webgpu:0"
    )
    with pytest.raises(CompileError, match="differs by"):
        interop.check(module, "f", {"x": half}, [half + np.float16(1.1)])


def test_what_a_comparison_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    first_device("webgpu")
    x = np.array([1, 2], "float32")
    module = export(lambda x: (1 / (x - 1), x * 0, x + 1), Tensor(x))
    expected = [np.array([np.inf, 1], "float32"), x * 0, x + 1]
    assert interop.check(module, "f", {"x": x}, expected)[1:] == [
        "result 0 is not finite everywhere: on webgpu, metal and vulkan, whose compilers may assume finite numbers, the rest of it is compared",
        "result 1 is the same everywhere, so a wrong one may equal it",
    ]
    for number, wrong in enumerate(([np.inf, 1.1], [0, 0.1], [2, 3.1])):
        others = [*expected]
        others[number] = np.array(wrong, "float32")
        with pytest.raises(CompileError, match=rf"^result {number} of 'f' on webgpu:0 differs by"):
            interop.check(module, "f", {"x": x}, others)
    monkeypatch.setattr(devmod, "devices", lambda *_: [])
    assert interop.check(module, "f", {"x": x}, expected[2:]) == [
        "not checked: no device of the file's kinds is here"
    ]


def test_names_that_calls_and_expressions_have() -> None:
    """They get a _ in ONNX's importer, too: tests/test_onnx.py."""
    names = ["min", "max", "ceildiv", "stream", "workspace", "constants", "device", "devices"]
    arrays = [tensor(8, 2) for _ in names]
    rows, factor = Variable("grid", 1, 8), Variable("state", 1, 9)

    def total(*given: Any) -> Any:
        *inputs, number = given
        return {"device_2": sum(inputs[1:], inputs[0]) * number, "min": inputs[0] + 1}

    reports: list[str] = []
    module = export(
        total,
        *(each[: rows.bind(3)] for each in arrays),
        factor.bind(2),
        names=[*names, "state"],
        targets=BOTH,
        report=reports.append,
    )
    interface = module.functions["f"].interface
    assert interface is not None
    inputs = [f"_{name}" for name in (*names, "state")]
    assert [each.name for each in interface.params][:11] == [*inputs, "device_2", "_min_2"]
    expected = ["'grid' is _grid in the program", "'state' is _state in the program"]
    expected += [f"{name!r} is _{name} in the program" for name in names if name != "min"]
    assert {*reports} >= {*expected, "'min' is _min_2 in the program"}
    values = [each.numpy()[:5].copy() for each in arrays]
    for kind in BOTH:
        one, two = module["f"].on(first_device(kind))(*values, 4)  # type: ignore[attr-defined]
        np.testing.assert_allclose(one, sum(values) * 4, rtol=1e-5)
        np.testing.assert_allclose(two, values[0] + 1, rtol=1e-6)


AFTER_INTERRUPT = """
import _imp, faulthandler
faulthandler.dump_traceback_later(120, exit=True)
from devmod.interop import tinygrad as interop
from tinygrad import Tensor
with interop.cpu():
    x = Tensor([1.0]).realize()
    _imp.acquire_lock()
    module = interop.export(lambda x: x + 1, x, targets=["opencl", "webgpu"], name="f")
print("f" in module.functions)
"""


@pytest.mark.row("R61")
def test_an_export_works_after_an_interrupt_that_left_the_import_lock_held() -> None:
    """The threads that compile for several kinds import."""
    assert run_python(AFTER_INTERRUPT) == "True\n"
