"""The readers of files in Python, C and JavaScript, and the one that was written from
docs/formats.md, have one verdict for the same bytes.

What they must refuse is in tests/golden/bad, and `golden_bad.sound` has the nearest valid files.
`tools/breakages.toml` plants each fault of Python's reader in the others too.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from alone import core_alone as core_alone
from each_case import check_each

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from browser_driver import run_in_node  # noqa: E402 - beside this file

import golden_bad  # noqa: E402 - tools/golden_bad.py
from fuzzing import c_reader, differential, javascript, seeds, specification  # noqa: E402 - tools/fuzzing
from handmade import aligned, file_of, headed, row  # noqa: E402 - tools/handmade.py

GOLDEN = ROOT / "tests" / "golden"
FILES = {
    path.relative_to(GOLDEN).as_posix(): path
    for path in sorted(GOLDEN.glob("*/*.devmod"))
    if path.parent.name != "later"  # in part refused: test_golden_later.py
}
READERS = {
    "specification": specification.compare_bundle,
    "c": c_reader.compare_bundle,
    "javascript": javascript.compare_bundle,
}


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> str:
    """A reader that is here."""
    name: str = request.param
    if name == "c" and c_reader.compiler() is None:
        pytest.skip("there is no C compiler on PATH")
    if name == "javascript" and not shutil.which("node"):
        pytest.skip("node is not installed")
    return name


def refused_by(data: bytes, reader: str) -> bool:
    """Return whether Python refuses a file. Breach: the other reader does not agree."""
    READERS[reader](data)
    try:
        golden_bad.use(devmod.loads(data))
    except devmod.FormatError:
        return True
    return False


@pytest.mark.row("R19", "R41")
def test_a_golden_file(reader: str) -> None:
    def check(name: str) -> None:
        assert refused_by(FILES[name].read_bytes(), reader) == name.startswith("bad/")

    check_each(FILES, check)


@pytest.mark.row("R19")
def test_the_bytes_of_a_golden_module() -> None:
    check_each(
        sorted(GOLDEN.glob("*/*.bytes")),
        lambda path: differential.compare_module(path.stem.rpartition(".")[2], path.read_bytes()),
    )


@pytest.mark.row("R19", "R41")
def test_the_end_of_a_range(reader: str) -> None:
    sound = golden_bad.sound()

    def check(name: str) -> None:
        assert not refused_by(sound[name], reader)
        assert refused_by((GOLDEN / "bad" / name).read_bytes(), reader)

    check_each(sound, check)


@pytest.mark.parametrize("names", [("fc.w", {"scale": "00"}), ("", {}), (7, ["scale"])])
def test_names_of_a_model_are_ignored(names: tuple[Any, Any], reader: str) -> None:
    """Also where they are not what a program has."""
    original, folded = names
    kernel = devmod.FunctionInfo(
        "k", ["handle"], interface=devmod.Interface([devmod.Param("y", "buffer", "float32", "rw")])
    )
    kernels = devmod.create_with_fallback("opencl", b"k", "cl", {"k": kernel})
    constants = devmod.const_loader({"w": b"abc"}, {})
    roles = {"y": {"role": "update"}, "w": {"role": "constant", "original": original}}
    params = [
        devmod.Param("y", "buffer", "float32", "rw", extra={**roles["y"], "shape": ["n"]}),
        devmod.Param("w", "buffer", "uint8", "r", extra={**roles["w"], "shape": [3]}),
    ]
    interface = devmod.Interface(params, extra={"kernels": ["k"], "folded": folded})
    info = devmod.FunctionInfo("p", ["handle"] * 2, interface=interface)
    steps = msgpack.packb({"steps": [["k", {"y": "y"}, {"threads": ["n"]}]]})
    program = devmod.create_with_fallback("program", {"p": steps}, "steps1", {"p": info})
    node = devmod.bundle(kernels)
    for each in (node, constants):
        program.import_module(each)
    data = devmod.dumps(devmod.bundle(program, node, constants, mixed=True))
    assert not refused_by(data, reader)


def look_up_in_python(data: bytes, name: str) -> list[int] | str:
    """Return the candidates of a function, after a look at their records; or the error."""
    index: Any = devmod.loads(data).tree.index  # type: ignore[attr-defined]
    try:
        numbers: list[int] = index.find(name)
        for number in numbers:
            index.entry(number)
    except devmod.FormatError as error:
        return str(error).rpartition(": ")[2]
    return numbers


def look_up_in_c(data: bytes, name: str) -> list[int] | str:
    with c_reader.File(data) as file:
        _, found = file.find(name.encode())
        if isinstance(found, str):
            return found
        for number in found:
            result, text = file.get_bytes(number, 1 << 20)
            if result:
                return str(text)
        return found


def look_up_in_javascript(data: bytes, names: list[str]) -> list[list[int] | str]:
    """Return what each name has in a file that is opened for it alone."""
    body = """
    const { Index } = await import("./pages.js");
    const { sourceOf } = await import("./source.js");
    const found = async (name) => {
      const index = await Index.open(await sourceOf(Buffer.from(argument[0], "base64"), {}));
      try {
        const numbers = await index.find(name);
        for (const number of numbers) await index.entry(number);
        return numbers;
      } catch (error) {
        return error.message.slice(error.message.lastIndexOf(": ") + 2);
      }
    };
    return Promise.all(argument[1].map(found));
    """
    results: list[list[int] | str] = run_in_node(body, [b64encode(data).decode(), names])
    return results


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize("reader", ["c", "javascript"], indirect=True)
def test_what_two_pages_say_of_a_look_up_must_agree(reader: str) -> None:
    """Of a file with several roots, nothing else is read."""
    variants = [
        ["opencl", "cl", ""],
        ["metal", "cl", ""],
        ["opencl", "il", ""],
        ["opencl", "cl", "v"],
    ]
    names = [
        ["p", [0, 0, 1]],
        ["q", [0, 0, 2]],
        ["r", [0, 0, 3]],
        ["s", [0, 2, 0]],  # another rank
        ["t", [0, 0, 0, 0, 1, 0]],
        ["u", [0, 0, 0, 0, 0, 0]],
        ["x", [0, 0, 0]],
        ["y", [0, 0, 0]],  # a name that it has not
        ["z", [1, 1, 0]],  # a candidate of the page
    ]
    beyond = [["b", [2, 1, 0]]]  # a candidate behind the last page
    first = {**golden_bad.entry(golden_bad.NAMED), "functions": ["f", *"pqrstu", "x"], "rank": 0}
    second = {**golden_bad.entry(), "functions": ["n"], "rank": 1}
    pages = [
        msgpack.packb({"modules": [first], "names": beyond, "variants": variants}),
        msgpack.packb({"modules": [second], "names": names, "variants": variants}),
    ]
    rows = [
        row(pages[0], 1, len(golden_bad.NAMED)),
        row(pages[1], 1, len(golden_bad.BLOB), 0, b"m"),
    ]
    blobs = golden_bad.NAMED.ljust(64, b"\0") + golden_bad.BLOB
    data = headed({"candidates": 2, "pages": rows}, b"".join(pages), blobs)
    disagree = "two parts of it describe a candidate in different ways"
    expected = {"x": [0], "f": [0], "n": [1], "o": [], **dict.fromkeys("bpqrstuyz", disagree)}
    wanted = [*expected]
    results = (
        [look_up_in_c(data, name) for name in wanted]
        if reader == "c"
        else look_up_in_javascript(data, wanted)
    )
    for (name, result), found in zip(expected.items(), results, strict=True):
        assert look_up_in_python(data, name) == result
        if isinstance(found, str):
            found = found.replace("of the index describe", "of it describe")
        assert found == result, name


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize(("nodes", "is_refused"), [(1026, False), (1027, True)])
def test_a_look_up_that_reaches_many_nodes_checks_their_limit(nodes: int, is_refused: bool) -> None:
    """In the languages whose look-up has the imports."""
    numbers = [*range(2, 2 + nodes)]
    record = golden_bad.entry()
    pages = [
        {"modules": [{**record, "functions": ["a"], "rank": 0, "imports": numbers}]},
        {"modules": [{**record, "functions": ["n"], "rank": 1}]},
        {"modules": [{"kind": "bundle", "imports": [1]}] * nodes},
    ]
    packed = [msgpack.packb(page) for page in pages]
    rows = [
        row(packed[0], 1, len(golden_bad.BLOB)),
        row(packed[1], 1, len(golden_bad.BLOB), 0, b"m"),
        row(packed[2], nodes, 0)[:4],
    ]
    blobs = golden_bad.BLOB.ljust(64, b"\0") + golden_bad.BLOB
    data = headed({"candidates": 2, "pages": rows}, b"".join(packed), blobs)
    problem = (
        f"the index of the bundle in memory: {nodes} nodes without bytes and 2 modules with some; "
        "there may be 1024 more of the first"
    )
    root: Any = devmod.loads(data)
    mine = ""
    try:
        root.tree.module(root.tree.index.find("a")[0])
    except devmod.FormatError as error:
        mine = str(error)
    body = """
    const { Index } = await import("./pages.js");
    const { sourceOf } = await import("./source.js");
    const index = await Index.open(await sourceOf(Buffer.from(argument, "base64"), {}));
    const [number] = await index.find("a");
    try {
      await index.below(number);
      return "";
    } catch (error) {
      return error.message;
    }
    """
    expected = problem if is_refused else ""
    assert mine == run_in_node(body, b64encode(data).decode()) == expected


@pytest.mark.row("R50")
def test_a_file_of_several_pages(reader: str) -> None:
    for data in seeds.lookups():
        assert not refused_by(data, reader)


#: The code, the bits and the lanes of a type, a shape, and the bytes of such an array, by
#: docs/formats.md.
ARRAYS = [
    ((2, 32, 1), [3], 12),
    ((0, 16, 4), [2, 3], 48),
    ((0, 4, 1), [3], 2),
    ((1, 4, 3), [3], 5),
    ((1, 1, 1), [11], 11),  # a byte for each boolean of one lane alone
    ((1, 1, 4), [3], 2),
    ((1, 1, 8), [3], 3),
    ((0, 1, 1), [11], 2),
    ((3, 0, 1), [3], 3),  # void
    ((3, 64, 1), [3], 24),
    ((2, 32, 1), [], 4),
    ((2, 32, 1), [2, 0, 3], 0),
]


def loader(constants: dict[str, Any]) -> bytes:
    """Return the bytes of a module of constants."""
    return bytes(msgpack.packb(constants) + msgpack.packb({}))


def with_part(stored: bytes, part: bytes) -> bytes:
    """Return a file with a module of constants, one of which is a part."""
    blobs = stored
    if part:
        blobs = stored.ljust(aligned(len(stored)), b"\0") + part
    record = golden_bad.entry(stored, kind="const_loader", format=None, parts=[1])
    own = {"size": len(part), "sha256": hashlib.sha256(part).digest()}
    return file_of({"modules": [record], "parts": [own]}, blobs)


@pytest.mark.row("R19", "R41", "R50")
def test_the_size_of_an_array_of_each_type(reader: str) -> None:
    for type_, shape, size in ARRAYS:
        for given in (size - 1, size, size + 1):
            if given < 0:
                continue
            stored = loader({"c": [type_, shape, 0]})
            is_refused = refused_by(with_part(stored, bytes(given)), reader)
            assert (type_, shape, given, is_refused) == (type_, shape, given, given != size)


def bytes_in_javascript(data: bytes) -> bytes:
    body = """
    const { open } = await import("./index.js");
    const { modules } = await open(Buffer.from(argument, "base64"));
    return Buffer.from(await modules[0].bytes()).toString("base64");
    """
    return b64decode(run_in_node(body, b64encode(data).decode()))


def bytes_in_c(data: bytes) -> bytes | str:
    with c_reader.File(data) as file:
        _, found = file.get_bytes(0, 1 << 20)
        return found


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize("reader", ["c", "javascript"], indirect=True)
@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65535, 65536])
def test_a_constant_of_a_part_is_joined_at_the_limits_of_its_length(reader: str, size: int) -> None:
    """msgpack has a length of 8, 16 or 32 bits."""
    part = bytes(range(1, 252)) * 262
    part = part[:size]
    sides = [b"before" * 11, b"behind"]
    type_ = (1, 8, 1)

    def module(middle: Any) -> bytes:
        first, last = [[type_, [len(each)], each] for each in sides]
        return loader({"a": first, "part": [type_, [size], middle], "z": last})

    data = with_part(module(0), part)
    whole = module(part)
    assert devmod.loads(data).save_to_bytes() == whole
    if reader == "c":
        assert bytes_in_c(data) == whole
    else:
        assert bytes_in_javascript(data) == whole


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize("reader", ["c", "javascript"], indirect=True)
def test_functions_are_looked_up_in_the_order_of_the_roots(reader: str) -> None:
    """The order of the records is another one."""
    codes = [b"fn first() {}", b"fn second() {}", b"fn third() {}"]
    infos = {"f": devmod.FunctionInfo("f", ["handle"])}
    saved = []
    records = []
    for code in codes:
        module = devmod.create_with_fallback("webgpu", {"f": code}, "wgsl", infos)
        saved.append(module.save_to_bytes())
        more = {"kind": "webgpu", "format": "wgsl", "functions": ["f"]}
        records.append(golden_bad.entry(saved[-1], **more))
    blobs = b"".join(each.ljust(aligned(len(each)), b"\0") for each in saved[:-1]) + saved[-1]
    order = [2, 0, 1]
    data = file_of({"modules": records, "roots": order}, blobs)
    assert look_up_in_python(data, "f") == order
    if reader == "c":
        assert look_up_in_c(data, "f") == order
        return
    body = """
    const { open } = await import("./index.js");
    const bundle = await open(Buffer.from(argument, "base64"));
    return [bundle.find("f"), ...bundle.webgpuModules].map(({ number }) => number);
    """
    assert run_in_node(body, b64encode(data).decode()) == [order[0], *order]
