"""Text from files, compilers, drivers and plugins is printed without control characters."""

from __future__ import annotations

import ast
import json
import os
import re
import traceback
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
import pytest
from distributions import install
from each_case import raised
from stored import Raw, entry, file_of
from support import MAP_KINDS, runner_commands, sample

import devmod
from devmod import errors
from devmod.backend import escape
from devmod.interop import tvm
from devmod_workbench._cli import main
from devmod_workbench._cli._output import print_json

SOURCES = [Path(devmod.__file__).parent]
SOURCES.append(Path(__file__).resolve().parents[2] / "workbench" / "src")
SOURCES += [
    path
    for path in Path(__file__).resolve().parents[2].glob("*/*/src")
    if path.parent.parent.name in ("plugins", "examples") or path.parent.name == "targets"
]
#: A title for the terminal's window, a colour, a bell, C1's CSI, a right-to-left override,
#: separators, a byte order mark, a tag; and commands of a CI runner. The comparison of .NET ignores
#: U+034F.
HOSTILE = (
    "k\x1b]0;owned\x07\x1b[31m\x9b2J\u202ekernel\u2066\u2028\u2029\ufeff\U000e0041\x7f\r\n \t::set-output name=x::owned\n:\u034f:add-mask::k\n"
    "x ##[add-path]/owned #\u034f#[group] ##vso[task.setvariable variable=PATH]/owned\r"
)
LONE = HOSTILE + "\udc9b\ud800"
ERRORS = [getattr(errors, name) for name in errors.__all__]


def assert_clean(text: str) -> None:
    assert_printable(text)
    assert not runner_commands(text)


def assert_printable(text: str) -> None:
    found = {char for char in text if not char.isprintable() and char not in "\n\t"}
    assert not found, (sorted(map(ascii, found)), ascii(text))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    assert_clean(out)
    assert_clean(err)
    return code, out + err


# -- errors


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_devmod_has_no_control_character(error: type[devmod.DevmodError]) -> None:
    result = error(
        f"the name {LONE}\n\tis wrong",
        kind=LONE,
        function=LONE,
        log=f"k.cl:1: {LONE}\r\nsecond\tline",
    )
    result.add_note(f"note {LONE}")
    assert str(result).startswith(
        "the name k\\x1b]0;owned\\x07\\x1b[31m\\x9b2J\\u202ekernel\\u2066\\u2028\\u2029\\ufeff"
    )
    assert (
        "\\x7f\n \t\\x3a:set-output name=x::owned\n\\x3a\u034f:add-mask::k\nx \\x23\\x23[add-path]/owned \\x23\u034f\\x23[group] "
        in str(result)
    )
    assert str(result).endswith(
        "\\x23\\x23vso[task.setvariable variable=PATH]/owned\\r\\udc9b\\ud800\n\tis wrong"
    )
    assert result.log.endswith("\\ud800\nsecond\tline")
    assert_printable(repr(result))
    for text in (
        str(result),
        result.args[0],
        result.log,
        *result.__notes__,
        "".join(traceback.format_exception(result)),
    ):
        assert_clean(text)
    assert result.function == LONE  # for programs, which compare it
    result.args = (HOSTILE,)
    assert_clean(str(result))


def test_the_length_of_an_error_is_bounded() -> None:
    name = "n" * 1_000_000
    error = devmod.FormatError(
        f"the file has no function {name!r}; compile it again", function=name
    )
    assert (
        str(error)
        == f"{f'the file has no function {name!r}'[:7000]}… (1000045 characters) …{'n' * 981}'; compile it again"
    )
    assert error.function == name
    error.add_note(f"it is {name}")
    assert len(error.__notes__[0]) == 8000 + len("… (1000006 characters) …")
    assert str(devmod.FormatError(name[:8000])) == name[:8000]


def test_text_without_control_characters_is_unchanged() -> None:
    text = "the kernel «säuberung» 64×1×1 — naïve 漢字 🚀\n\tindented\\x1b"
    assert str(devmod.DevmodError(text)) == text


def test_foreign_exceptions_are_quoted_without_control_characters() -> None:
    assert_clean(errors.describe_error(OSError(LONE)))


# -- readers


def wire(kind: str, **changes: Any) -> bytes:
    fields = {
        "fmt": "cl",
        "fmap": {HOSTILE: [HOSTILE, [[3, 64, 1]], [HOSTILE], []]},
        "code": b"x",
    } | changes
    return b"".join(map(msgpack.packb, fields.values()))


def interface(**fields: Any) -> bytes:
    return wire("opencl", fmap={HOSTILE: ["k", [[3, 64, 1]], [], [], fields]})


def stored(data: bytes) -> devmod.Module:
    return devmod.loads(
        file_of({"roots": [0], "modules": [entry(data, functions=[HOSTILE])]}, data)
    )


def tvm_bytes(*parts: str | int | bytes) -> bytes:
    result = b""
    for part in parts:
        if isinstance(part, int):
            result += part.to_bytes(8, "little")
        else:
            data = part.encode() if isinstance(part, str) else part
            result += len(data).to_bytes(8, "little") + data
    return result


def blob(*kinds: str, children: tuple[int, ...] = ()) -> bytes:
    rows = b"".join(each.to_bytes(8, "little") for each in (0, *[len(children)] * len(kinds)))
    body = (len(kinds) + 1).to_bytes(8, "little") + rows + len(children).to_bytes(8, "little")
    body += b"".join(child.to_bytes(8, "little") for child in children) + b"".join(
        tvm_bytes(kind) if kind == "_lib" else tvm_bytes(kind, b"") for kind in kinds
    )
    return len(body).to_bytes(8, "little") + body


def metadata(**fields: Any) -> str:
    return json.dumps({"func_info": {LONE: {"name": LONE, "arg_types": ["handle"]} | fields}})


OPENCL = {
    "kind": "opencl",
    "format": "cl",
    "functions": [HOSTILE],
    "offset": 0,
    "size": 0,
    "sha256": bytes(32),
}
REFUSED: dict[str, Callable[[], object]] = {
    "a key of the index twice": lambda: devmod.loads(
        file_of(b"\x82" + msgpack.packb(HOSTILE) + b"\x80" + msgpack.packb(HOSTILE) + b"\x80")
    ),
    "a key of the index that is no value": lambda: devmod.loads(
        file_of(b"\x81" + msgpack.packb(HOSTILE) + b"\xc1")
    ),
    "a key of a module that is no value": lambda: devmod.loads(
        file_of(b"\x81\xa7modules\x91\x81" + msgpack.packb(HOSTILE) + b"\xc1")
    ),
    "a kind": lambda: devmod.loads(
        file_of({"roots": [0], "modules": [OPENCL | {"kind": HOSTILE}]})
    ),
    "a digest": lambda: devmod.loads(file_of({"roots": [0], "modules": [OPENCL]})).save_to_bytes(),
    "an index that differs": lambda: (
        stored(wire("opencl", fmap={"other" + HOSTILE: ["k", [], [], []]})).functions
    ),
    "a function twice": lambda: dict(
        stored(
            b"\xa2cl\x82" + (msgpack.packb(HOSTILE) + b"\x94\xa1k\x90\x90\x90") * 2 + b"\xc4\x00"
        ).functions
    ),
    "a field of a function": lambda: dict(
        stored(wire("opencl", fmap={HOSTILE: [HOSTILE, [], [1], []]})).functions
    ),
    "an interface's params": lambda: dict(
        stored(interface(params=[{"name": HOSTILE, "kind": HOSTILE}])).functions
    ),
    "a param's access": lambda: dict(
        stored(interface(params=[{"name": HOSTILE, "kind": "buffer", "access": HOSTILE}])).functions
    ),
    "a param's type": lambda: dict(
        stored(interface(params=[{"name": HOSTILE, "kind": "buffer", "type": HOSTILE}])).functions
    ),
    "a param's place": lambda: dict(
        stored(interface(params=[{"name": HOSTILE, "kind": "buffer", "at": HOSTILE}])).functions
    ),
    "a block": lambda: dict(stored(interface(params=[], block=[HOSTILE, 1, 1])).functions),
    "a format": lambda: devmod.create_with_fallback("opencl", b"", HOSTILE, {}),
    "a function that is not there": lambda: stored(wire("opencl")).get_function(LONE),
    "a function of a kind that is not installed": lambda: stored(wire("opencl")).get_function(
        HOSTILE
    ),
    "a function of a library": lambda: tvm.load_imports(
        blob("_lib", HOSTILE, children=(1,))
    ).get_function(LONE),
    "a bundle's function": lambda: devmod.bundle(
        stored(wire("opencl")), Raw("npu", b"", HOSTILE, (HOSTILE,))
    ).get_function(LONE),
    "a bundle's candidates": lambda: devmod.bundle(
        stored(wire("opencl")), devmod.loads(devmod.dumps(Raw("npu", b"", HOSTILE, (HOSTILE,))))
    ).get_function(HOSTILE),
    "a constant": lambda: devmod.load_from_bytes(
        "const_loader", b"\x81" + msgpack.packb(HOSTILE) + b"\x90\x80"
    ),
    "a constant that is not there": lambda: devmod.load_from_bytes(
        "const_loader", b"\x81" + msgpack.packb(HOSTILE) + b"\x93\x93\x00\x08\x01\x90\xc4\x01x\x80"
    ).get_global(LONE),
    "an init symbol": lambda: devmod.load_from_bytes(
        "const_loader", b"\x80" + msgpack.packb({HOSTILE: [HOSTILE]})
    ),
    "an array of constants": lambda: devmod.const_loader({LONE: object()}, {}),
    "TVM's kind": lambda: tvm.load_module_bytes(LONE, b""),
    "TVM's function": lambda: tvm.load_module_bytes("opencl", tvm_bytes("cl", 1, HOSTILE, "k", 9)),
    "TVM's functions": lambda: tvm.load_module_bytes(
        "opencl", tvm_bytes("cl", 2, HOSTILE, "k", 0, 0, 0, HOSTILE, "k", 0, 0, 0, b"")
    ),
    "TVM's constants": lambda: tvm.load_module_bytes(
        "const_loader", tvm_bytes(2, HOSTILE, HOSTILE)
    ),
    "TVM's cycle": lambda: tvm.load_imports(blob(HOSTILE, children=(0,))),
    "TVM's kind, saved": lambda: devmod.dumps(tvm.load_imports(blob(HOSTILE))),
    "TVM's kind, asked": lambda: tvm.load_imports(blob(HOSTILE)).get_function(LONE),
    "TVM's tag": lambda: tvm.dump_module_bytes(stored(wire("opencl"))),
    "a module that cannot be saved": lambda: devmod.dumps(Raw(LONE, b"")),
    "metadata's type": lambda: devmod.load_metadata_from_json(metadata(arg_types=[LONE])),
    "metadata's fields": lambda: devmod.load_metadata_from_json(metadata(arg_types=LONE)),
    "metadata's interface": lambda: devmod.load_metadata_from_json(
        metadata(interface={"params": [{"name": LONE, "kind": LONE}]})
    ),
    "metadata that is no JSON": lambda: devmod.load_metadata_from_json(HOSTILE),
    "a file's name": lambda: devmod.load_from_file(f"/nowhere/{HOSTILE}.{HOSTILE}"),
    "a target": lambda: devmod.Target.parse(f"opencl -{HOSTILE}"),
    "a device": lambda: devmod.device(f"opencl:{HOSTILE}"),
}


@pytest.mark.row("R4", "R19", "R25")
@pytest.mark.parametrize("act", REFUSED.values(), ids=REFUSED)
def test_an_error_that_quotes_a_file_has_no_control_character(act: Callable[[], object]) -> None:
    error = raised(devmod.DevmodError, act)
    assert_clean(str(error))
    assert_clean("".join(traceback.format_exception(error, chain=True)))


@pytest.mark.parametrize("kind", ["opencl", "vulkan", "npu", LONE])
def test_a_repr_has_no_control_character(kind: str) -> None:
    code, fmt, _ = sample(kind if kind in ("opencl", "vulkan") else "opencl")
    code = {HOSTILE: b"x"} if kind in MAP_KINDS else code
    info = devmod.FunctionInfo(
        HOSTILE, [], [HOSTILE], interface=devmod.Interface(extra={HOSTILE: HOSTILE})
    )
    module = (
        Raw(kind, b"", HOSTILE, (HOSTILE,))
        if kind not in ("opencl", "vulkan")
        else devmod.create_with_fallback(kind, code, fmt, {HOSTILE: info})
    )
    loaded = devmod.loads(devmod.dumps(module)) if kind != LONE else module
    for each in (
        module,
        loaded,
        devmod.bundle(module, loaded),
        info,
        devmod.Origin(HOSTILE, HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}),
    ):
        assert_printable(repr(each))
        assert "k\\x1b" in repr(each)


class HostileDevice(devmod.Device):
    kind, index, name, vendor, driver_version, arch, memory = "npu", 0, LONE, LONE, LONE, LONE, 0


HostileDevice.__abstractmethods__ = frozenset()


def test_the_repr_of_a_device_and_of_a_target_has_no_control_character() -> None:
    spec = devmod.TargetSpec("npu", title=LONE, distribution=LONE, formats=[LONE])
    for each in (HostileDevice(), spec):
        assert_printable(repr(each))


# -- commands


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return a file of each format of `devmod inspect`, with control characters in all texts."""
    info = devmod.FunctionInfo(
        HOSTILE,
        ["handle", "int32"],
        [HOSTILE],
        interface=devmod.Interface(
            [
                devmod.Param(HOSTILE, "buffer", "float32", "rw"),
                devmod.Param(HOSTILE, "scalar", "int32", extra={HOSTILE: [HOSTILE, b"\0"]}),
            ],
            extra={
                "constants": [{"name": HOSTILE, "type": "int32", "default": float("nan")}],
                HOSTILE: float("-inf"),
            },
        ),
    )
    opencl = devmod.create_with_fallback("opencl", b"x", "cl", {HOSTILE: info})
    opencl.__dict__["_devmod_origin"] = devmod.Origin(
        HOSTILE, HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}, {HOSTILE: b"\xff"}
    )
    foreign = Raw("npu", b"", HOSTILE, (HOSTILE,))
    foreign.import_module(opencl)
    tree = devmod.bundle(opencl, foreign, opencl)
    result = [
        tmp_path / "k.devmod",
        tmp_path / "k\x1b[31m\x9b\u202e.devmod",
        tmp_path / "k.cl",
        tmp_path / "k.tvmimports",
    ]
    devmod.save(tree, result[0])
    devmod.save(tree, result[1])
    plain = devmod.create_with_fallback(
        "opencl", b"x", "cl", {HOSTILE: devmod.FunctionInfo(HOSTILE, ["handle"], [HOSTILE])}
    )
    plain.write_to_file(result[2])
    result[3].write_bytes(blob("_lib", HOSTILE, children=(1,)))
    return result


def test_no_command_prints_a_control_character_of_a_file(
    capsys: pytest.CaptureFixture[str], files: list[Path]
) -> None:
    for file in files:
        code, out = run(capsys, "inspect", file)
        assert code == 0, out
        assert "k\\x1b]0;owned\\x07" in out
        code, out = run(capsys, "inspect", file, "--json")
        assert code == 0
        found = json.loads(out, parse_constant=pytest.fail)
        assert repr(HOSTILE)[1:-1] in repr(found)  # JSON's escapes preserve the text
    for name in (f"none{HOSTILE}.devmod", f"none.{HOSTILE}"):
        for arguments in (
            ("inspect",),
            ("inspect", "--debug"),
            ("inspect", "--json"),
            ("view", "--no-open"),
            ("compile", "-t", "opencl"),
        ):
            assert run(capsys, *arguments, name)[0] != 0
    for arguments in (
        (HOSTILE,),
        ("inspect", HOSTILE, HOSTILE),
        ("inspect", f"--{HOSTILE}"),
        ("conformance", HOSTILE),
        ("new-backend", HOSTILE),
    ):
        assert run(capsys, *arguments)[0] != 0


def test_json_output_has_the_escapes_of_json(
    capsys: pytest.CaptureFixture[str], files: list[Path]
) -> None:
    out = run(capsys, "inspect", files[0], "--json")[1]
    assert (
        '"target": "k\\u001b]0;owned\\u0007\\u001b[31m\\u009b2J\\u202ekernel\\u2066\\u2028\\u2029\\ufeff\\udb40\\udc41\\u007f\\r\\n \\t::set-output'
        in out
    )
    assert "x \\u0023\\u0023[add-path]/owned \\u0023\\u034f\\u0023[group] " in out
    (origin, params, extra) = [
        part
        for each in json.loads(out)["module"]["imports"][:1]
        for part in (
            each["origin"],
            each["functions"][0]["interface"]["params"],
            each["functions"][0]["interface"],
        )
    ]
    assert origin[HOSTILE] == {"base64": "/w=="}
    assert params[1][HOSTILE] == [HOSTILE, {"base64": "AA=="}]
    assert (extra[HOSTILE], extra["constants"][0]["default"]) == ("-Infinity", "NaN")


@pytest.mark.parametrize("end", ["", "\x7f", "\ud800\U000e0041é", "#\u034f#[group]x"])
def test_a_text_of_many_slices_is_the_same_in_json(
    end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for length in (0, 1, 65534, 65535, 65536, 65537, 200_000):
        text = ('é"\\\U0001f600' * length)[:length] + end
        print_json([text])
        out = capsys.readouterr().out
        assert json.loads(out) == [text]
        assert_clean(out)


def test_backslashes_and_quotes_are_not_escaped() -> None:
    text = "\x1b\\n\\\\'\"\t'\\' \xa0é\\"
    assert escape(text) == "\\x1b\\n\\\\'\"\t'\\' \\xa0é\\"
    for code in (*range(0x300), *range(0x2000, 0x2100), 0x1F600, 0xE0041, 0xD800):
        char = chr(code)
        assert (
            escape(f"{char}\x7f")
            == (char if char.isprintable() or char in "\n\t" else repr(char)[1:-1]) + "\\x7f"
        )


@pytest.mark.parametrize("arguments", [(), ("--json",)])
@pytest.mark.parametrize("unit", ["\x01", "ab\n", "\x7f"])
def test_the_memory_to_print_a_source(
    unit: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    size = 500_000
    path = tmp_path / "k.devmod"
    devmod.save(devmod.create_with_fallback("cuda", (unit * size).encode()[:size], "ptx", {}), path)
    tracemalloc.start()
    try:
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
            assert main(["inspect", str(path), "--source", *arguments]) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * size + (1 << 19)


def test_a_long_line_of_a_source_continues_on_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{'a' * 70_000}\n\n{'b' * 60_000}\r\n{'c' * 10_000}\nend"
    made = devmod.create_with_fallback("opencl", text.encode(), "cl", {})
    devmod.save(made, tmp_path / "k.devmod")
    out = run(capsys, "inspect", tmp_path / "k.devmod", "--source")[1]
    lines = [line.removeprefix("    | ") for line in out.splitlines() if line.startswith("    | ")]
    assert [(line[:1], len(line)) for line in lines] == [
        ("a", 65536),
        ("a", 4464),
        ("", 0),
        ("b", 60_000),
        ("c", 10_000),
        ("e", 3),
    ]


def test_no_command_prints_a_control_character_of_a_plugin(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    register: Callable[..., None],
) -> None:
    broken = f"raise RuntimeError({HOSTILE!a})\n"
    install(
        tmp_path,
        "devmod-npu",
        "1.0",
        {
            "devmod.create": {"npu": "npu_broken:create"},
            "devmod.hooks": {"devmod_page": "npu_broken:page"},
        },
        {"npu_broken": broken},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for arguments in (("--json",), ("--all", "--no-import"), ("--all", "--debug")):
        assert "devmod.create" in run(capsys, "plugins", *arguments)[1]
    register("devmod.device", "npu", lambda: [HostileDevice()])
    for arguments in ((), ("--json",)):
        assert "npu" in run(capsys, "devices", *arguments)[1]

    def fail() -> Any:
        raise RuntimeError(LONE)

    register("devmod.device", "apu", fail)
    for arguments in ((), ("--json",), ("--debug",)):
        assert "apu" in run(capsys, "devices", *arguments)[1]


def test_the_lines_of_devmod_log_have_no_control_character(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    from devmod._util.environment import debug

    debug(f"{LONE}\n{LONE}")
    err = capsys.readouterr().err
    assert_clean(err)
    assert err.count("\n") == 1


# -- checks of the source code


#: The words of what the checks look for. To parse the other files takes longer than all checks.
WORDS = re.compile(
    r"\bprint\(|click\.s?echo|sys\.std\w+\.write|error\.show|Console\(|__repr__|_repr_html_|warnings\.warn"
)
NODES = (ast.Call, ast.FunctionDef)


@cache
def sources() -> list[tuple[Path, list[ast.AST]]]:
    """Return the calls and the functions of each file that has such a word."""
    found = [
        path
        for folder in SOURCES
        for path in sorted(folder.rglob("*.py"))
        if "templates" not in path.parts
    ]
    assert len(found) > 80
    texts = {path: path.read_text(encoding="utf-8") for path in found}
    return [
        (path, [each for each in ast.walk(ast.parse(text)) if isinstance(each, NODES)])
        for path, text in texts.items()
        if WORDS.search(text)
    ]


def calls(nodes: Iterable[ast.AST], *names: str) -> list[ast.Call]:
    last = {each.rpartition(".")[2] for each in names}  # known without the text of each call
    return [
        each
        for each in nodes
        if isinstance(each, ast.Call)
        and {getattr(each.func, "id", ""), getattr(each.func, "attr", "")} & last
        and ast.unparse(each.func) in names
    ]


@pytest.mark.once
def test_one_module_prints_for_the_commands_and_the_log_escapes_its_lines() -> None:
    own = {
        "__main__.py": "print",
        "_output.py": "click.echo",
        "environment.py": "print",
        "onnx.py": "click.echo",
        "served.py": "print",
    }  # a line of progress has no end
    for path, nodes in sources():
        for call in calls(
            nodes,
            "print",
            "click.echo",
            "click.secho",
            "sys.stdout.write",
            "sys.stderr.write",
            "error.show",
            "Console",
        ):
            function = ast.unparse(call.func)
            files = [ast.unparse(each.value) for each in call.keywords if each.arg == "file"]
            if function == "print" and files and files[0] not in ("sys.stdout", "sys.stderr"):
                continue  # into a pipe
            if all(isinstance(each, ast.Constant) for each in call.args):
                continue  # a fixed text, printed while the commands are imported
            if "testing" in path.parts or path.name == "_process.py":
                continue  # code for processes of the tests
            if path.name == "_output.py":
                continue
            if (path.name, function) == ("_display.py", "Console"):
                assert "map(_plain, text.split(" in path.read_text(encoding="utf-8"), (
                    path
                )  # the live display escapes each line
                continue
            if function == "error.show":
                assert [ast.unparse(each) for each in call.args] == ["usage"], path  # into a buffer
                continue
            assert own.get(path.name) == function, (path, ast.unparse(call))
            escaping = "escape(" if path.name == "onnx.py" else "escape_line("
            assert escaping in ast.unparse(call), (path, ast.unparse(call))


#: The unescaped parts that a `__repr__` may have: types, numbers, and objects with an escaping
#: repr.
PLAIN = {
    "self.device",
    "self._stream.device",
    "self.stream.device",
    "self.nbytes",
    "self.dtype",
    "list(self.shape)",
    "type(self).__name__",
    "name",
    "shown",
}
PLAIN |= {
    "self.per_thread",
    "self.grid",
    "self.block",
    "''.join(more)",
    "list_names(self)",
    "super().__repr__()",
    "self._over",
    "self.adopted",
    "_address(self._queue)",
}  # numbers, reprs, own words
PLAIN |= {"len(self._launches)", "len(self._entries)", "list(self.box)", "self.summary"}  # numbers


@pytest.mark.once
def test_every_repr_escapes_what_it_shows() -> None:
    for path, nodes in sources():
        for function in nodes:
            if not isinstance(function, ast.FunctionDef) or function.name not in ("__repr__",):
                continue
            escaped = [
                node
                for call in calls(ast.walk(function), "escape_line", "escape", "short_repr")
                for node in ast.walk(call)
            ]
            for part in ast.walk(function):
                if (
                    isinstance(part, ast.FormattedValue)
                    and part.conversion != ord("r")
                    and part not in escaped
                ):
                    assert ast.unparse(part.value) in PLAIN, (path, ast.unparse(function))


@pytest.mark.once
def test_every_html_is_made_by_the_function_that_escapes_it() -> None:
    functions = [
        node
        for _, nodes in sources()
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.name == "_repr_html_"
    ]
    assert len(functions) >= 4
    for function in functions:
        results = [node.value for node in function.body if isinstance(node, ast.Return)]
        assert results
        assert all(
            isinstance(result, ast.Call) and ast.unparse(result.func) == "html_table"
            for result in results
        )


@pytest.mark.once
def test_every_warning_escapes_its_text() -> None:
    for path, nodes in sources():
        for call in calls(nodes, "warnings.warn"):
            text = ast.unparse(call.args[0])
            assert text.startswith("escape(") or text == "str(error)", (path, ast.unparse(call))


def test_every_public_error_is_a_devmod_error() -> None:
    """DevmodError escapes the text of every error."""
    for error in ERRORS:
        assert issubclass(error, devmod.DevmodError)
        assert error is devmod.DevmodError or not {"__init__", "__str__", "add_note"} & set(
            vars(error)
        ), error
