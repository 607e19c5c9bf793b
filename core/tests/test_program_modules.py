"""Program modules without a runtime: the choice of kind and device, `explain`, files, and what a
build box has.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from candidates import FakeDevice, Register, Runtime
from command_line import printed_by
from each_case import refusal
from test_load_ranges import Reads
from test_without_runtime import run
from work import work

import devmod
from devmod import FormatError, FunctionInfo, Interface, Param
from devmod.backend import walk
from devmod.plugins import shared_scan

pytestmark = pytest.mark.row("R45")
INFO = FunctionInfo(
    "k", ["handle"], interface=Interface([Param("y", "buffer", "float32", "rw")], open_block=True)
)
FORMATS = {"opencl": "cl", "cuda": "ptx", "rocm": "hip", "vulkan": "spv"}


def kernels(kind: str, *names: str, code: bytes = b"k") -> devmod.Module:
    """A candidate with some kernels."""
    return devmod.create_with_fallback(
        kind,
        dict.fromkeys(names, code) if kind == "vulkan" else code,
        FORMATS[kind],
        dict.fromkeys(names, INFO),
    )


def ptx(arch: str, *names: str) -> devmod.Module:
    return kernels(
        "cuda", *names, code=f".version 8.0\n.target {arch}\n.address_size 64\n".encode()
    )


def program(*candidates: devmod.Module, name: str = "p") -> devmod.Module:
    """A program that launches `first` and `second`."""
    steps = ["first(y=y, threads=n)", "second(y=y, threads=n)"]
    return devmod.program(name, devmod.bundle(*candidates), updates=["y: float32[n]"], steps=steps)


class Programs(devmod.Module):
    """A runtime of programs. Its function returns its own name, the kind of the device, and the
    kinds of the imports.
    """

    kind, format = "program", "steps1"
    loaded = 0

    def __init__(self, data: bytes) -> None:
        type(self).loaded += 1
        self._data = data

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        return lambda: (name, None, [each.kind for each in self.imports])

    def _function_on(self, name: str, device: devmod.Device) -> Any:
        return lambda: (name, device.kind, [each.kind for each in self.imports])

    def save_to_bytes(self) -> bytes:
        return self._data


@pytest.fixture
def runtimes(register: Register) -> Callable[..., None]:
    """Register the runtimes of kinds, with the architectures of their devices."""

    def make(**archs: tuple[str, ...]) -> None:
        for kind, names in archs.items():
            Runtime(register, kind, *names)

    return make


def loaded(module: devmod.Module, **options: Any) -> devmod.Module:
    return devmod.loads(devmod.dumps(module), **options)


def explained(module: devmod.Module, device: str | None = None) -> list[tuple[str, str, str, str]]:
    found = devmod.explain(module, "p", device).functions["p"]
    return [(each.kind, each.outcome, each.device, each.text) for each in found]


# -- the choice


def test_the_first_kind_with_all_kernels_is_chosen(
    runtimes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtimes(opencl=("",), rocm=("gfx90a",), cuda=("sm_90",))
    module = program(
        kernels("opencl", "first"),
        kernels("rocm", "second"),
        ptx("sm_80", "first", "second"),
        kernels("opencl", "second"),
    )
    fits = "each kernel has a candidate that fits"
    lacks = ("rocm", "refused", "", "its kernel 'first' has no candidate of this kind")
    in_order = [
        ("opencl", "best", "opencl:0", f"{fits} opencl device 0 ()"),
        ("cuda", "fits", "cuda:0", f"{fits} cuda device 0 ()"),
        lacks,
    ]
    assert explained(loaded(module)) == in_order
    turned = [("cuda", "best", *in_order[1][2:]), ("opencl", "fits", *in_order[0][2:]), lacks]
    assert explained(loaded(module, prefer=("cuda",))) == turned
    monkeypatch.setenv("DEVMOD_PREFER", "rocm,cuda")
    assert explained(loaded(module)) == turned
    others = [(kind, "refused", "", f"it is for {kind}") for kind in ("rocm", "cuda")]
    assert explained(loaded(module), "opencl") == [in_order[0], *others]


def test_two_programs_of_a_kind_say_their_class_of_devices(runtimes: Any) -> None:
    runtimes(opencl=("",))
    interface = Interface(
        [Param("y", "buffer", "float32", "rw")], open_block=True, needs=["processor"]
    )
    own = FunctionInfo("k", ["handle"], interface=interface)
    functions = {"first": own, "second": INFO}
    one = program(devmod.create_with_fallback("opencl", b"k", "cl", functions))
    other = program(kernels("opencl", "first", "second"))

    def texts(*parts: devmod.Module) -> list[str]:
        return [text for _, _, _, text in explained(loaded(devmod.bundle(*parts)))]

    end = "that fits opencl device 0 ()"
    processors = f"each kernel has a candidate for processors {end}"
    every = f"each kernel has a candidate for every class of devices {end}"
    assert texts(one, other) == [processors, every]
    assert texts(other, one) == [f"each kernel has a candidate {end}", processors]


def test_the_first_device_that_all_kernels_fit_is_chosen(
    runtimes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtimes(cuda=("sm_75", "sm_80", "sm_90"))
    module = loaded(program(ptx("sm_75", "first"), ptx("sm_80", "second")))
    assert [each[:3] for each in explained(module)] == [("cuda", "best", "cuda:1")]
    assert [each[:3] for each in explained(module, "cuda:2")] == [("cuda", "best", "cuda:2")]
    refused = "its kernel 'second': no cuda device fits compute_80:ptx8.0; there is: sm_75"
    assert explained(module, "cuda:0") == [("cuda", "refused", "", refused)]
    monkeypatch.setenv("DEVMOD_DEVICE", "cuda:0")
    assert explained(module) == [("cuda", "refused", "", refused)]


def test_a_device_of_another_machine_is_compared_by_its_architecture(runtimes: Any) -> None:
    runtimes()
    module = loaded(program(ptx("sm_80", "first", "second"), kernels("opencl", "first", "second")))
    assert [each[:3] for each in explained(module, "cuda:sm_90")] == [
        ("cuda", "best", "cuda:sm_90"),
        ("opencl", "refused", ""),
    ]
    assert [each[1] for each in explained(module, "cuda:sm_75")] == ["refused", "refused"]
    text = "its kernel 'first': cuda:sm_75 does not run compute_80:ptx8.0"
    assert (
        explained(module, "cuda:sm_75")[0][3],
        devmod.explain(module, "p", "cuda:sm_75").best("p"),
    ) == (text, None)


def test_an_unknown_need_does_not_fit(runtimes: Any) -> None:
    runtimes(opencl=("",))
    module = program(kernels("opencl", "first", "second"))
    made: Any = module.imports[0]
    info = made.functions["p"]
    newer = devmod.create_with_fallback(
        "program",
        made.code,
        "steps1",
        {"p": info.replace(interface=info.interface.replace(needs=["loops"]))},
    )
    newer.import_module(module.imports[1])
    text = "it needs 'loops', which a newer devmod-runtime has: pip install --upgrade devmod-core devmod-runtime"
    root = loaded(devmod.bundle(newer, module.imports[1], mixed=True))
    for device in (None, "opencl"):
        assert explained(root, device) == [("opencl", "refused", "", text)]


def with_interface(module: devmod.Module, change: Callable[[dict[str, Any]], None]) -> Any:
    """Return a file with a program whose interface is changed."""
    made: Any = module.imports[0]
    info = made.functions["p"]
    fields = info.interface.to_dict()
    change(fields)
    _, fmap, *rest = msgpack.Unpacker(io.BytesIO(made.save_to_bytes()), strict_map_key=False)
    fmap["p"][4] = fields

    class Changed(Programs):
        functions = made.functions

    newer = Changed(b"".join(map(msgpack.packb, ["steps1", fmap, *rest])))
    newer.import_module(module.imports[1])
    return loaded(devmod.bundle(newer, module.imports[1], mixed=True))


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize("value", [{"kind": "tensor"}, {"role": "slot"}, {"access": "atomic"}])
def test_a_newer_program_is_refused_and_its_kernels_can_be_used(
    runtimes: Any, value: dict[str, str]
) -> None:
    runtimes(opencl=("",))

    def change(fields: dict[str, Any]) -> None:
        fields["params"][0] |= value
        fields["needs"] = ["loops"]

    root = with_interface(program(kernels("opencl", "first", "second")), change)
    upgrade = "pip install --upgrade devmod-core devmod-runtime"
    text = f"it needs 'loops', which a newer devmod-runtime has: {upgrade}"
    assert explained(root) == [("opencl", "refused", "", text)]
    text = f"the program 'p' needs 'loops', which a newer devmod reads: {upgrade}"
    assert refusal(FormatError, devmod.backend.read_program, "p", root.imports[0]) == text
    assert devmod.explain(root).best("first") is not None
    assert devmod.loads(devmod.dumps(root)).imports[0].save_to_bytes() == (
        root.imports[0].save_to_bytes()
    )


@pytest.mark.row("R41", "R50")
def test_inspect_shows_a_newer_and_a_damaged_program(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = program(kernels("opencl", "first", "second"))
    path = tmp_path / "p.devmod"
    shown = "p(…) needs 'loops', which a newer devmod reads: pip install --upgrade devmod-core devmod-runtime"
    unread = "its steps are not shown: the program 'p' needs 'loops'"
    unknown = "its steps are not shown: the program 'p': "
    for value, needs, text in (
        ({"kind": "tensor"}, ["loops"], shown),
        ({"role": "slot"}, ["loops"], unread),
        ({"kind": "tensor"}, [], "p(…) is damaged: the bytes of the program module: fmap of 'p'"),
        ({"role": "slot"}, [], unknown),
    ):

        def change(fields: dict[str, Any]) -> None:
            fields["params"][0] |= value  # noqa: B023
            fields["needs"] = needs  # noqa: B023

        devmod.save(with_interface(module, change), path)
        out = printed_by(capsys, "inspect", path, status=int(not needs)).out
        assert text in out
        assert "first(y: float32* rw) any block" in out
        if needs:
            assert "any block" in printed_by(capsys, "inspect", path, "--verify").out


@pytest.mark.row("R41", "R50")
def test_a_program_is_checked_with_the_kernels_that_can_be_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = program(kernels("opencl", "first", "second"))
    fields = {"params": [{"name": "y", "kind": "tensor"}], "needs": ["later"]}
    newer = INFO.replace(interface=Interface.from_dict(fields))
    other = devmod.create_with_fallback("rocm", b"k", "hip", {"first": newer, "second": INFO})
    path = tmp_path / "p.devmod"
    for candidates in ([module.imports[1], other], [other]):
        made = devmod.create_with_fallback(
            "program",
            module.imports[0].code,
            "steps1",
            module.imports[0].functions,  # type: ignore[attr-defined]
        )
        made.import_module(devmod.bundle(*candidates, mixed=True))
        devmod.save(made, path)
        out = printed_by(capsys, "inspect", path, "--verify").out
        assert "Programs checked with each candidate of their kernels: 1" in out


@pytest.mark.row("R24")
def test_explain_has_what_is_missing(runtimes: Any) -> None:
    runtimes(opencl=("",), cuda=())
    module = program(ptx("sm_80", "first", "second"), kernels("opencl", "first", "second"))
    assert [(each[1], each[3].partition(" made ")[0]) for each in explained(module)] == [
        ("refused", "a fallback,")
    ] * 2
    (opencl, cuda) = explained(loaded(module))
    assert (opencl[:2], cuda) == (
        ("opencl", "best"),
        ("cuda", "refused", "", "the cuda runtime is installed, and there is no cuda device"),
    )


# -- files


@pytest.mark.row("R19", "R21", "R24")
def test_the_real_module_has_its_imports_before_its_first_function(register: Register) -> None:
    constants = devmod.const_loader({"w": b"abc"}, {"init": ["w"]})
    module = program(devmod.bundle(kernels("opencl", "first", "second"), constants, mixed=True))
    data = devmod.dumps(module)
    register("devmod.load_from_bytes", "program", lambda data: Programs(bytes(data)))
    root = devmod.loads(data)
    before = Programs.loaded
    assert (list(root), [each.kind for each in root.imports]) == (
        ["p", "first", "second", "init"],
        ["program", "bundle", "const_loader"],
    )
    assert str(root.functions["p"].interface) == str(module.functions["p"].interface)
    assert (devmod.dumps(root), Programs.loaded) == (data, before)
    assert root["p"]() == ("p", None, ["bundle", "const_loader"])
    assert root.imports[0]._function_on("p", FakeDevice("opencl", 0, ""))() == (
        "p",
        "opencl",
        ["bundle", "const_loader"],
    )
    assert Programs.loaded == before + 1


@pytest.mark.row("R19")
def test_a_newer_format_is_listed_and_saved(runtimes: Any) -> None:
    made = program(kernels("opencl", "first", "second"))

    class Newer(Programs):
        format, functions = "steps2", made.imports[0].functions  # type: ignore[assignment]

    _, *rest = msgpack.Unpacker(io.BytesIO(made.imports[0].save_to_bytes()), strict_map_key=False)
    newer = Newer(b"".join(map(msgpack.packb, ["steps2", *rest])))
    newer.import_module(made.imports[1])
    data = devmod.dumps(devmod.bundle(newer, made.imports[1], mixed=True))
    root = devmod.loads(data)
    assert (root.imports[0].format, list(root), devmod.dumps(root)) == (
        "steps2",
        ["p", "first", "second"],
        data,
    )
    text = refusal(FormatError, root.get_function, "p")
    upgrade = "pip install --upgrade devmod-core devmod-runtime"
    assert (
        text
        == f"the programs have the format 'steps2', which a newer devmod-runtime runs: {upgrade}"
    )
    runtimes(opencl=("",))
    text = f"it has the format 'steps2', which a newer devmod-runtime runs: {upgrade}"
    assert explained(root) == [("opencl", "refused", "", text)]


def test_kernels_come_from_one_import(runtimes: Any) -> None:
    runtimes(opencl=("",))
    module = program(kernels("opencl", "first", "second"))
    alone = devmod.create_with_fallback(
        "program", module.imports[0].code, "steps1", module.imports[0].functions
    )  # type: ignore[attr-defined]
    text = (
        "the program 'p' has no kernels here: the bytes of its module were loaded alone. devmod.load(path) and devmod.loads(data) load a "
        "file with its kernels"
    )
    assert refusal(FormatError, devmod.explain, alone) == text
    for owner, problem in (
        (kernels("opencl", "first"), "no import"),
        (kernels("opencl", "second", "first"), "more than one import"),
    ):
        alone.import_module(owner)
        message = refusal(FormatError, devmod.explain, alone, "p")
        kernel = "second" if problem == "no import" else "first"
        assert message == f"the program 'p' launches '{kernel}', which {problem} of its module has"


class Chosen:
    """A function that a bundle chose."""

    def __init__(self, module: devmod.Module, device: devmod.Device) -> None:
        self.module, self.device = module, device

    def replace(self, **rules: object) -> Chosen:
        return self


@pytest.mark.row("R33")
def test_a_merged_file_has_the_kinds_of_its_parts(
    runtimes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtimes(opencl=("",), cuda=("sm_90",))
    one, two = (
        program(kernels("opencl", "first", "second")),
        program(ptx("sm_80", "first", "second")),
    )
    file = devmod.dumps(devmod.bundle(loaded(one), loaded(two)))
    root: Any = devmod.loads(file)
    assert [each[:3] for each in explained(root)] == [
        ("opencl", "best", "opencl:0"),
        ("cuda", "fits", "cuda:0"),
    ]
    assert [each[:3] for each in explained(devmod.loads(file, prefer=("cuda",)))] == [
        ("cuda", "best", "cuda:0"),
        ("opencl", "fits", "opencl:0"),
    ]
    first, second = (each for each in walk(root) if each.kind == "program")
    for each in (first, second):
        monkeypatch.setattr(
            each, "_function_on", lambda name, device, each=each: Chosen(each, device)
        )
    chosen = [
        root._function_on("p", FakeDevice(kind, 0, arch))
        for kind, arch in (("cuda", "sm_90"), ("opencl", ""))
    ]
    assert [(each.module, each.device.kind) for each in chosen] == [
        (second, "cuda"),
        (first, "opencl"),
    ]
    assert devmod.dumps(root) == file


@pytest.mark.row("R21")
def test_a_program_beside_many_modules_keeps_the_quick_table() -> None:
    def load(count: int, *, with_program: bool) -> Callable[[], object]:
        with shared_scan():
            node = devmod.bundle(*[kernels("opencl", f"k{number}") for number in range(count)])
            if with_program:
                node = devmod.program(
                    "p", node, updates=["y: float32[n]"], steps=["k7(y=y, threads=n)"]
                )
            data = devmod.dumps(node)
        return lambda: devmod.loads(data).functions["k7"]

    few, many, plain = (
        load(600, with_program=True),
        load(1200, with_program=True),
        load(1200, with_program=False),
    )
    few()
    assert abs(work(many) - work(few)) < work(few) // 4  # the head has a row for each page
    assert work(many) < 2 * work(plain)


def test_the_choice_reads_the_bytes_of_the_chosen_candidates_alone(runtimes: Any) -> None:
    runtimes(opencl=("",), cuda=("sm_90",))
    texts = {kind: f"// {kind} ".encode() * 3000 for kind in ("opencl", "other", "cuda")}
    candidates = [
        kernels("opencl", "first", "second", code=texts["opencl"]),
        kernels("opencl", "second", code=texts["other"]),
    ]
    candidates.append(
        kernels(
            "cuda",
            "first",
            "second",
            code=b".version 8.0\n.target sm_80\n.address_size 64\n" + texts["cuda"],
        )
    )
    data = devmod.dumps(program(*candidates))
    file = Reads(data)
    root: Any = devmod.load(file)
    file.ranges.clear()
    from devmod._modules.choice import program_verdicts
    from devmod.backend import read_program

    _, kind, _, found, _ = next(
        program_verdicts("p", [root.imports[0]], None, read=read_program)
    )  # the choice of a call and of `explain`
    assert (kind, [next(each).function_names for each in found.values()]) == (
        "opencl",
        [("first", "second")] * 2,
    )
    read = b"".join(data[start:end] for start, end in file.ranges)
    assert [text in read for text in texts.values()] == [True, False, False]


# -- a build box


@pytest.mark.row("R18", "R23", "R25", "R27", "R28", "R29")
def test_a_build_box_makes_programs(tmp_path: Path) -> None:
    file = tmp_path / "p.devmod"
    found = run(
        "import os\n"
        "kernels = devmod.compile('kernel void f(global float *y) { y[get_global_id(0)] += 1; }', 'opencl', block=64)\n"
        "def make():\n"
        "    return devmod.program('p', kernels, updates=['y: float32[n]'], steps=['f(y=y, threads=n)'])\n"
        "module = make()\n"
        "devmod.save(module, sys.argv[1])\n"
        "again = devmod.load(sys.argv[1])\n"
        "print(module.imports[0], list(again), devmod.dumps(again) == devmod.dumps(module), again.functions['p'])\n"
        "os.environ['DEVMOD_COMPILE_FORCE_FALLBACK'] = '1'\n"
        "print(devmod.dumps(make()) == devmod.dumps(module))\n"
        "for name, each in (('p', module), ('p', module.imports[0]), ('q', module.imports[0]), ('p', make()), ('p', again)):\n"
        "    try:\n"
        "        each[name]\n"
        "    except devmod.DevmodError as error:\n"
        "        print(f'{type(error).__name__}: {error}')\n",
        file,
    )
    excluded = "add devmod-runtime to DEVMOD_PLUGINS_ALLOW"
    again = f"{excluded} and make it again, or load what it saves where devmod-runtime may be used"
    fallback = "RuntimeNotLinkedError: the program function 'p' cannot be used here: this module is a fallback, made while "
    ways = "It can be inspected and saved. To run it, "
    assert found.splitlines() == [
        "<FallbackModule program/steps1: p> ['p', 'f'] True <FunctionInfo p(y: float32[n] rw)>",
        "True",
        *[f"{fallback}DEVMOD_PLUGINS_ALLOW excluded devmod-runtime. {ways}{again}"] * 2,
        "FunctionNotFoundError: the program module has no function 'q'; it has: 'p'",
        f"{fallback}DEVMOD_COMPILE_FORCE_FALLBACK was set. {ways}make it again without that, or load what it saves, where the program runtime "
        "is installed (pip install devmod-runtime)",
        "NotRegisteredError: devmod.load_from_bytes.program is not registered: devmod-runtime 0.1.0 provides it, and the environment "
        f"variable DEVMOD_PLUGINS_ALLOW excludes it. To use it, {excluded}",
    ]


@pytest.mark.row("R4")
def test_programs_are_no_target_and_no_device() -> None:
    meaning = "program is the kind of programs, which run on the devices of their kernels; devmod.program makes one, and devmod.load reads its file"
    for key, act in (
        ("device", lambda: devmod.device("program")),
        ("create", lambda: devmod.create("program", {}, "steps1", {})),
        ("load_from_file", lambda: devmod.load_from_file("p.x", "program")),
    ):
        assert (
            refusal(devmod.NotRegisteredError, act)
            == f"devmod.{key}.program is not registered: {meaning}"
        )
    with pytest.raises(
        devmod.CompileError,
        match=r"^programs are not compiled: devmod\.program makes one from its kernels$",
    ):
        devmod.compile("", "program")
    assert "program" not in str(devmod.doctor())


def test_tvm_and_raw_files_have_no_programs(tmp_path: Path) -> None:
    module = program(kernels("opencl", "first", "second"))
    for each in (module.imports[0], loaded(module).imports[0]):
        assert (
            refusal(FormatError, devmod.interop.tvm.dump_module_bytes, each)
            == "TVM has no programs: its own host functions launch the kernels. Dump the modules of the kernels"
        )
        assert (
            refusal(FormatError, each.write_to_file, tmp_path / "p.bin")
            == "a program has no raw payload to write; devmod.save writes it with its kernels"
        )
    with pytest.raises(FormatError, match=r"^a module of the kind 'program' is not supported$"):
        devmod.interop.tvm.load_module_bytes("program", module.imports[0].save_to_bytes())
