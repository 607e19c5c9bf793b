"""What identifies a specialization of Triton, and the text of a record. No Triton is needed."""

from __future__ import annotations

import enum
import functools
import importlib
import json
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from each_case import check_texts, refusal

from devmod.errors import FormatError
from devmod_readers.triton import (
    Choice,
    Parts,
    Specialization,
    UnsupportedError,
    encode,
    function_name,
    own_options,
    parts_of,
    read_choices,
    read_record,
    rename_modules,
    source_digest,
    write_record,
)


class Jit:
    """A function with ``@triton.jit``, as far as an identity reads it."""

    def __init__(self, fn: Any, text: str, noinline: bool = False) -> None:
        self.fn = fn
        self.src = text
        self.noinline = noinline

    def __call__(self) -> None:
        raise RuntimeError("a kernel is launched")


class Constexpr:
    """A constant of Triton."""

    def __init__(self, value: Any) -> None:
        self.value = value


Constexpr.__name__ = "constexpr"

HELPER = "def helper(x):\n    return x + SCALE\n"
KERNEL = "def kernel(x, BLOCK):\n    y = helper(x) * tools.FACTOR + MODE\n    return y\n"


def functions(
    helper: str = HELPER,
    kernel: str = KERNEL,
    before: str = "",
    values: Mapping[str, Any] | None = None,
    noinline: bool = False,
) -> Jit:
    """Return the kernel of a new module."""
    module = ModuleType("kernels_of_test")
    tools = ModuleType("tools")
    tools.FACTOR = Constexpr(2)  # type: ignore[attr-defined]
    vars(module).update({"SCALE": Constexpr(3), "MODE": Constexpr("fast"), "tools": tools})
    vars(module).update(values or {})
    exec(compile(before + helper + kernel, "k.py", "exec"), vars(module))
    inner = Jit(vars(module)["helper"], helper, noinline)
    vars(module)["helper"] = inner
    return Jit(vars(module)["kernel"], kernel)


@pytest.mark.row("R60")
def test_the_digest_of_a_source_depends_on_what_is_compiled_alone() -> None:
    first = source_digest(functions())
    assert first == source_digest(functions(before="\n\n# a comment above\nUNUSED = 1\n"))
    assert first == source_digest(functions(values={"OTHER": 7}))
    changed = {
        "the function": functions(kernel=KERNEL.replace("* tools", "- tools")),
        "what it calls": functions(helper=HELPER.replace("+", "-")),
        "a constant of what it calls": functions(values={"SCALE": Constexpr(4)}),
        "a text": functions(values={"MODE": Constexpr("slow")}),
        "a constant of a module": functions(values={"tools": SimpleNamespace(FACTOR=5)}),
        "the type of a constant": functions(values={"SCALE": Constexpr(3.0)}),
        "whether it is inline": functions(noinline=True),
    }
    digests = {name: source_digest(each) for name, each in changed.items()}
    assert len({first, *digests.values()}) == len(changed) + 1


def test_the_digest_of_values_of_several_forms() -> None:
    class Mode(enum.Enum):
        FAST = 1
        SLOW = 2

    values = [1, True, None, (1, 2), [1, 2], {"a": 1}, {"a": 2}, {1, 2}, b"x", Mode.FAST, Mode.SLOW]
    digests = [source_digest(functions(values={"SCALE": value})) for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [source_digest(functions(values={"SCALE": value})) for value in values]


def test_a_local_name_hides_a_global_object_but_no_constant() -> None:
    kernel = "def kernel(x, SCALE):\n    MODE = x\n    tools = x\n    return MODE\n"
    constant = source_digest(functions(kernel=kernel))
    assert constant == source_digest(functions(kernel=kernel, values={"SCALE": Constexpr(9)}))
    plain = source_digest(functions(kernel=kernel, values={"MODE": object()}))
    assert plain == source_digest(functions(kernel=kernel, values={"MODE": Constexpr(object())}))
    assert plain != source_digest(functions(kernel=kernel, values={"MODE": 8}))


@pytest.mark.row("R60")
def test_a_constant_that_is_used_before_a_local_name_hides_it() -> None:
    kernel = "def kernel(x):\n    y = x + MODE\n    MODE = y * tools.FACTOR\n    tools = MODE\n"
    tools = [ModuleType("tools"), ModuleType("tools")]
    for number, each in enumerate(tools):
        each.FACTOR = Constexpr(number)  # type: ignore[attr-defined]
    digests = {
        source_digest(functions(kernel=kernel, values={"MODE": Constexpr(mode), "tools": each}))
        for mode in ("fast", "slow", None, 1j)
        for each in tools
    }
    assert len(digests) == 8


@pytest.mark.row("R60")
def test_the_defaults_of_what_is_called_are_those_of_its_definition() -> None:
    def kernel_with(value: object, keyword: object = 0) -> Jit:
        helper = "def helper(x, k=value, *, other=keyword):\n    return x + k\n"
        scope = {"value": value, "keyword": keyword}
        exec(helper, scope)
        scope.update(value="later", keyword="later")
        return functions(kernel=KERNEL, values={"MODE": Jit(scope["helper"], helper)})

    made = [(1,), (True,), (1.0,), (0.0,), (-0.0,), (1, 2), (Constexpr(2),)]
    digests = [source_digest(kernel_with(*values)) for values in made]
    assert len(set(digests)) == len(made)
    assert digests == [source_digest(kernel_with(*values)) for values in made]


@pytest.mark.row("R60")
def test_a_value_whose_content_cannot_be_compared_has_no_digest() -> None:
    deep: Any = 1
    for _ in range(12):
        deep = (deep,)

    def refused(kernel: str, value: Any) -> str:
        made = functions(kernel=f"def kernel(x):\n    return {kernel}\n", values={"used": value})
        return refusal(UnsupportedError, source_digest, made)

    assert refused("getattr(tools, x)", 1) == "it uses the module tools as a value"
    assert refused("used.size", Constexpr(object())) == (
        "it uses an object of builtins.object, whose content has no text"
    )
    assert refused("used", deep) == "it uses a value that is nested more than 8 times"
    own = ModuleType("triton.language")
    kernel = "def kernel(x):\n    return hasattr(used, 'f') or tools.missing\n"
    assert source_digest(functions(kernel=kernel, values={"used": own}))


@pytest.mark.row("R60")
def test_a_function_of_python_that_another_package_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
import functools

def size():
    return 1

def mark(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)
    wrapper.__triton_builtin__ = True
    return wrapper

@mark
def builtin(x):
    return size()
"""
    digests = set()
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = source.replace("return 1", "return 2") if number == 2 else source
        (folder / "marked.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        module = importlib.import_module("marked")
        digests.add(source_digest(functions(values={"MODE": module.builtin})))
        del sys.modules["marked"]
    assert len(digests) == 2


def test_functions_that_call_each_other_and_those_of_a_closure() -> None:
    def outer(scale: int) -> Jit:
        def kernel(x: int) -> int:
            return x * scale

        return Jit(kernel, "def kernel(x):\n    return x * scale\n")

    assert source_digest(outer(2)) == source_digest(outer(2))
    assert source_digest(outer(2)) != source_digest(outer(3))
    kernel = "def kernel(x):\n    return kernel(x)\n"
    one = functions(kernel=kernel)
    one.fn.__globals__["kernel"] = one
    two = functions(kernel=kernel.replace("(x)\n", "(x) + 1\n"))
    two.fn.__globals__["kernel"] = two
    assert source_digest(one) != source_digest(two)


@pytest.mark.row("R60")
def test_an_identity_differs_with_each_part(tmp_path: Path) -> None:
    library = tmp_path / "libdevice.bc"
    library.write_bytes(b"1")
    target = SimpleNamespace(backend="cuda", arch=90, warp_size=32)
    options = {"num_warps": 4, "extern_libs": (("libdevice", str(library)),)}
    kernel = functions()

    def parts(**changes: Any) -> Parts:
        fields: dict[str, Any] = {
            "function": kernel,
            "signature": {"x": "*fp32", "BLOCK": "constexpr"},
            "constants": {(1,): 128},
            "attributes": {(0,): [["tt.divisibility", 16]]},
            "options": options,
            "target": target,
            "triton": "3.9.0",
            "environment": {},
        }
        return parts_of(**fields | changes)

    first = parts()
    assert parts().identity == first.identity
    assert json.loads(first.arguments) == {"x": "*fp32:16", "BLOCK": {"value": 128}}
    moved = tmp_path / "elsewhere.bc"
    moved.write_bytes(b"1")
    elsewhere = {**options, "extern_libs": (("libdevice", str(moved)),)}
    assert parts(options=elsewhere).identity == first.identity
    assert parts(environment={"TRITON_DISABLE_LINE_INFO": "1"}).identity == first.identity
    moved.write_bytes(b"22")
    others = {
        "function": {"function": Jit(kernel.fn, kernel.src + "\n")},
        "types": {"signature": {"x": "*fp16", "BLOCK": "constexpr"}},
        "constants": {"constants": {(1,): 256}},
        "attributes": {"attributes": {}},
        "options": {"options": {**options, "num_warps": 8}},
        "libraries": {"options": elsewhere},
        "target": {"target": SimpleNamespace(backend="cuda", arch=80, warp_size=32)},
        "triton": {"triton": "3.7.1"},
        "environment": {"environment": {"DISABLE_LLVM_OPT": "1"}},
    }
    identities = {name: parts(**change).identity for name, change in others.items()}
    assert len({first.identity, *identities.values()}) == len(others) + 1
    assert refusal(UnsupportedError, parts, attributes={(0,): [["tt.new", 1]]}) == (
        "an argument has the attribute ['tt.new', 1]"
    )


def test_the_function_of_the_program_has_the_name_of_an_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kernel() -> None:
        pass

    kernel.__module__, kernel.__qualname__ = "__main__", "Kernels.kernel"
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert function_name(kernel) == "__main__:Kernels.kernel"
    main.__file__ = "folder/train.py"
    assert function_name(Jit(kernel, "")) == "train:Kernels.kernel"
    main.__spec__ = SimpleNamespace(name="package.train")  # type: ignore[assignment]
    assert function_name(kernel) == "package.train:Kernels.kernel"


def test_constants_as_json() -> None:
    dtype = type("dtype", (), {"primitive_bitwidth": 16, "__str__": lambda _: "fp16"})()
    kernel = functions()
    values: list[tuple[Any, Any]] = [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        (float("inf"), {"float": "inf"}),
        ("ieee", "ieee"),
        ((1, ("a",)), {"tuple": [1, {"tuple": ["a"]}]}),
        (Constexpr(Constexpr(2)), 2),
        (dtype, {"type": "fp16"}),
        (kernel, {"function": "kernels_of_test:kernel"}),
    ]
    kernel.fn.__module__ = "kernels_of_test"
    assert [encode(value) for value, _ in values] == [expected for _, expected in values]
    assert encode(kernel, digests=True)["source"] == source_digest(kernel)
    assert refusal(UnsupportedError, encode, len).startswith("the constant <built-in function len>")
    # As triton.language.extra.cuda.num_threads is.
    builtin = functools.wraps(_builtin)(lambda: 0)
    builtin.__triton_builtin__ = True  # type: ignore[attr-defined]
    name = f"{__name__}:_builtin"
    assert encode(builtin) == {"function": name}
    assert encode(builtin, digests=True) == {"function": name, "source": source_digest(builtin)}
    assert refusal(UnsupportedError, encode, 1j) == "the constant 1j is a complex"


@pytest.mark.row("R60")
def test_constants_that_compare_equal_and_differ_in_code() -> None:
    class Mode(enum.IntEnum):
        FAST = 1

    values = (1, True, 1.0, 0, 0.0, -0.0, False, None, "1", 2**64, 2**64 + 1, 1e-9, (1,), ((1,),))
    texts = [json.dumps(encode(value)) for value in values]
    assert len(set(texts)) == len(values)
    arguments = [{"N": {"value": encode(value)}} for value in values]
    text = write_record("3.9.0", [Specialization("m:f", each, {}) for each in arguments])
    found = [json.dumps(kernel.arguments) for kernel in read_record(text, "")[1]]
    assert sorted(found) == sorted(map(json.dumps, arguments))
    assert refusal(UnsupportedError, encode, Mode.FAST) == f"the constant {Mode.FAST!r} is an enum"


def test_the_options_of_a_record() -> None:
    defaults = {"num_warps": 4, "enable_fp_fusion": True, "arch": "sm80", "maxnreg": None}
    given = {**defaults, "num_warps": 8, "arch": "sm90"}
    assert own_options(given, defaults) == {"num_warps": 8, "enable_fp_fusion": True}
    refused = {
        "the option ir_override names a file": {"ir_override": "/tmp/x.ttir"},
        "the option extern_libs names a file, mine.bc": {"extern_libs": (("mine", "/a/mine.bc"),)},
        "the option maxnreg is [1]": {"maxnreg": [1]},
    }
    for text, change in refused.items():
        assert refusal(UnsupportedError, own_options, {**defaults, **change}, defaults) == text


def test_names_of_modules_in_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmod_readers.triton._recorded_names", {})
    rename_modules({"_mine_1f5c": "mine"})

    def name(module: str) -> str:
        return function_name(SimpleNamespace(__module__=module, __qualname__="add"))

    assert name("_mine_1f5c") == "mine:add"
    assert name("_mine_1f5c.inner") == "mine.inner:add"
    assert name("_mine_1f5cd") == "_mine_1f5cd:add"
    rename_modules({"_mine_1f5c.inner": "other.part"})
    assert name("_mine_1f5c.inner.deep") == "other.part.deep:add"


def test_a_record_is_sorted_text_with_each_kernel_once() -> None:
    one = Specialization(
        "b:f", {"x": "*fp32:16", "N": {"value": 4}}, {"num_warps": 8, "debug": True}
    )
    two = Specialization("a:g", {"t": ["*fp32", {"value": None}]}, {})
    config = {"N": 4}
    choice = Choice("b:f", "ab", "cuda:90:32:132", [4], config, 0.5, [({"N": 8}, None)])
    old = choice._replace(source="a", key=[5])
    slow = choice._replace(milliseconds=0.7)
    text = write_record("3.9.0", [one, two, one], [old, slow, choice])
    assert text == textwrap.dedent("""\
        {
          "triton": "3.9.0",
          "kernels": [
            {
              "function": "a:g",
              "arguments": {"t": ["*fp32", {"value": null}]},
              "options": {}
            },
            {
              "function": "b:f",
              "arguments": {"x": "*fp32:16", "N": {"value": 4}},
              "options": {"debug": true, "num_warps": 8}
            }
          ],
          "choices": [
            {
              "function": "b:f",
              "source": "ab",
              "gpu": "cuda:90:32:132",
              "key": [4],
              "config": {"N": 4},
              "milliseconds": 0.5,
              "others": [[{"N": 8}, null]]
            }
          ]
        }
        """)
    version, kernels, read = read_record(text, "k.json")
    assert (version, kernels, read) == (
        "3.9.0",
        [two, one],
        [choice._replace(others=[[{"N": 8}, None]])],
    )
    assert write_record(version, kernels, read) == text
    assert str(one) == "b:f(x: *fp32:16, N=4) debug=True num_warps=8"


def test_what_is_no_record() -> None:
    def refused(text: str) -> str:
        return refusal(FormatError, read_record, text, "k.json")

    def kernel(fields: Any) -> str:
        return json.dumps({"triton": "3.9.0", "kernels": [fields]})

    deep: Any = "i32"
    for _ in range(10):
        deep = [deep]
    deep_value: Any = 1
    for _ in range(400):
        deep_value = {"tuple": [deep_value]}
    good = {"function": "a:f", "arguments": {}}
    choice = Choice("a:f", "ab", "cuda:90:32:132", [4], {"N": 4}, 0.5, [])._asdict()
    check_texts(
        {
            "k.json is no record of Triton's kernels: it is nested too deeply": "[" * 100_000,
            "k.json is no record of Triton's kernels: expected an object": "[]",
            'k.json is no record of Triton\'s kernels: expected "triton", a version, and "kernels", a list': "{}",
            "k.json: kernel 1: expected an object": kernel(3),
            'k.json: kernel 1: expected "function", such as "package.module:add", got "os.system(\'x\'):f"': kernel(
                {**good, "function": "os.system('x'):f"}
            ),
            'k.json: kernel 1 (a:f): expected "arguments" and "options" to be objects': kernel(
                {**good, "options": []}
            ),
            "k.json: kernel 1 (a:f), option 'x': expected a number or a text": kernel(
                {**good, "options": {"x": []}}
            ),
            'k.json: kernel 1 (a:f), argument \'x\': expected a type such as "*fp32:16", a list, or {"value": …}, got 3': kernel(
                {**good, "arguments": {"x": 3}}
            ),
            "k.json: kernel 1 (a:f), argument 'x': expected an object with \"value\" alone": kernel(
                {**good, "arguments": {"x": {"values": 3}}}
            ),
            "k.json: kernel 1 (a:f), argument 'x': a tuple is nested more than 8 times": kernel(
                {**good, "arguments": {"x": deep}}
            ),
            "k.json: kernel 1 (a:f), argument 'y': a tuple is nested more than 8 times": kernel(
                {**good, "arguments": {"y": {"value": deep_value}}}
            ),
            "k.json: kernel 1 (a:f), argument 'z': expected a constant, or an object such as {\"type\": \"fp16\"}, got {'function': 'os'}": kernel(
                {**good, "arguments": {"z": {"value": {"function": "os"}}}}
            ),
            f'k.json: kernel 1: expected "function", such as "package.module:add", got \'{"a" * 99}…': kernel(
                {**good, "function": f"{'a' * 1_000_000}:f"}
            ),
            "k.json: kernel 1 (a:f) has more than 4096 arguments and options": kernel(
                {**good, "arguments": dict.fromkeys(map(str, range(5000)), "i32")}
            ),
            "k.json has more than 131072 kernels": json.dumps(
                {"triton": "3.9.0", "kernels": [0] * 1_000_000}
            ),
            "k.json: kernel 1 (a:f), option 'ptx_options': expected options of ptxas that name no file, such as '-O1', got '-v -o /x'": kernel(
                {**good, "options": {"ptx_options": "-v -o /x"}}
            ),
            'k.json: expected "choices" to be a list of at most 131072 choices': '{"triton": "3.9.0", "kernels": [], "choices": {}}',
            "k.json: choice 1: expected an object with function, source, gpu, key, config, milliseconds, others: record again": json.dumps(
                {"triton": "3.9.0", "kernels": [], "choices": [{"function": "a:f"}]}
            ),
            "k.json: choice 2: a field has a value of another type: record again": json.dumps(
                {"triton": "3.9.0", "kernels": [], "choices": [choice, choice | {"key": 4}]}
            ),
        },
        refused,
    )


def _builtin() -> int:
    return 0


@pytest.mark.parametrize("version", ["", "x", "3.9.0\n", "-3", "3" * 101, 3, None])
def test_a_record_has_a_version_of_triton(version: Any) -> None:
    text = json.dumps({"triton": version, "kernels": []})
    assert refusal(FormatError, read_record, text, "k.json") == (
        'k.json is no record of Triton\'s kernels: expected "triton", a version, and "kernels", a list'
    )
    for good in ("3.9.0", "3.10.0.dev20261130", "3.8.0+fb"):
        assert read_record(json.dumps({"triton": good, "kernels": []}), "")[0] == good


def test_the_choices_of_a_file_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"triton": "3.9.0", "choices": []}'
    assert read_choices(text, "k.devmod") == ("3.9.0", [])
    monkeypatch.setattr("devmod_readers.triton.MAX_BYTES", len(text) - 1)
    assert refusal(FormatError, read_choices, text, "k.devmod") == (
        "k.devmod: the choices of Triton's autotune have more than 33 bytes"
    )


def test_options_of_the_assembler_name_no_file() -> None:
    def read(options: Any) -> Any:
        kernel = Specialization("a:f", {}, {"ptx_options": options})
        return read_record(write_record("3.9.0", [kernel]), "k.json")[1][0].options["ptx_options"]

    for good in (None, "-O1", "-O3 --maxrregcount=64", "--fmad=false  -v"):
        assert read(good) == good
    for bad in ("-o x", "-o=x", "-ox", "--output-file=x", "-optf=x", "x.ptx", "-I/x", "-O1\t-o", 3):
        assert refusal(FormatError, read, bad)
