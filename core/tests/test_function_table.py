"""Bundles of many modules: a table in the index finds the modules of a function, and readers without it read the same."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from stored import file_of
from work import work

import devmod
from devmod._formats.function_table import MIN_MODULES, IndexedBundle, pack_table
from devmod._formats.index import MAX_BARE, Entry
from devmod._formats.save import pack_index
from devmod._formats.wire import array_header
from devmod._util.digest import sha256_of

pytestmark = pytest.mark.once  # the bytes of an index, and the work to read it

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import spec_reader  # noqa: E402 - the reader that is written from docs/formats.md


@pytest.fixture(autouse=True)
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")


def module(number: int, *names: str) -> devmod.Module:
    info = {name: devmod.FunctionInfo(f"symbol_{number}", ["handle"]) for name in names or (f"kernel_{number}",)}
    return devmod.create_with_fallback("cuda", f"payload {number}".encode(), "cubin", info)


@pytest.fixture
def zstd() -> None:
    pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


@pytest.fixture(scope="module")
def many() -> bytes:
    """Modules with one function each, but 7 has two, and 7 and 300 have one in common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
        modules = [module(number) for number in range(MIN_MODULES)]
        modules[7], modules[300] = module(7, "blur", "größe"), module(300, "blur")
        return devmod.dumps(devmod.bundle(*modules))


def index_of(data: bytes) -> bytes:
    return data[48 : 48 + int.from_bytes(data[12:16], "little")]


def with_index(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    old = index_of(data)
    fields = msgpack.unpackb(old)
    change(fields)
    new = msgpack.packb(fields)
    assert len(new) == len(old)
    return data[:12] + len(new).to_bytes(4, "little") + sha256_of(new) + new + data[48 + len(old) :]


def with_number(data: bytes, column: int, row: int, value: int) -> bytes:
    """Change a number of the table."""

    def change(fields: dict[str, Any]) -> None:
        part = bytearray(fields["lookup"][column])
        part[4 * row : 4 * row + 4] = value.to_bytes(4, "little")
        fields["lookup"][column] = bytes(part)

    return with_index(data, change)


def made(root: devmod.Module) -> list[int]:
    """The numbers of the modules that were decoded."""
    assert isinstance(root, IndexedBundle)
    return [number for number in range(MIN_MODULES) if number in root._made]


def owners(root: Any, name: str) -> list[str]:
    return [bytes(each.save_to_bytes()).decode("latin-1").rpartition(" ")[2] for each in root._owners_of(name)]


def test_a_look_up_decodes_the_modules_that_have_the_function(many: bytes) -> None:
    root = devmod.loads(many)
    assert (owners(root, "kernel_42"), made(root)) == (["42"], [42])
    assert (owners(root, "blur"), made(root)) == (["7", "300"], [7, 42, 300])
    assert owners(root, "größe") == ["7"]
    assert made(root) == [7, 42, 300]
    with pytest.raises(devmod.DevmodError, match="'kernel_42'"):
        root.get_function("kernel_42")


def test_names_and_one_signature_decode_no_other_module(many: bytes) -> None:
    root = devmod.loads(many)
    functions = root.functions
    assert (len(functions), len(root), "kernel_41" in root) == (MIN_MODULES, MIN_MODULES, True)
    assert list(functions)[6:10] == ["kernel_6", "blur", "größe", "kernel_8"]
    assert made(root) == [41]
    assert functions["blur"] == devmod.FunctionInfo("symbol_7", ["handle"])
    assert made(root) == [7, 41]
    for missing in ("kernel_7", "blu", 7):
        assert missing not in functions
    assert made(root) == [7, 41]
    plain = devmod.loads(with_index(many, lambda fields: fields.update(lookuq=fields.pop("lookup"))))
    assert dict(functions) == dict(plain.functions)


def test_one_signature_imports_only_what_it_needs(many: bytes, tmp_path: Path) -> None:
    (tmp_path / "many.devmod").write_bytes(many)
    script = """
import sys
before = {*sys.modules}
import devmod
module = devmod.load(sys.argv[1])
print(*{"collections", "re", "typing"} & ({*sys.modules} - before))
module.functions["kernel_301"]
print(*{"numpy", "msgpack", "devmod._modules.choice", "devmod._modules.payload"} & ({*sys.modules} - before))
"""
    command = [sys.executable, "-c", script, str(tmp_path / "many.devmod")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "\n\n"


def test_the_modules_of_look_ups_are_those_of_the_tree(many: bytes) -> None:
    root: Any = devmod.loads(many)
    (early,) = root._owners_of("kernel_9")
    assert len(root.imports) == MIN_MODULES
    assert root.imports[9] is early
    assert root.imports is root.imports
    assert list(root)[6:9] == ["kernel_6", "blur", "größe"]
    assert owners(root, "blur") == ["7", "300"]
    other = devmod.loads(many)
    other.import_module(module(1000))
    assert owners(other, "kernel_1000") == ["1000"]


@pytest.mark.row("R19")
def test_a_file_with_a_table_is_saved_unchanged(many: bytes, tmp_path: Path) -> None:
    assert devmod.dumps(devmod.loads(many)) == many
    (tmp_path / "k.devmod").write_bytes(many)
    assert devmod.dumps(devmod.load(tmp_path / "k.devmod")) == many


def test_a_reader_may_ignore_the_table(many: bytes) -> None:
    assert many[8] == 1
    read = spec_reader.read_bundle(many)
    assert read["roots"] == list(range(MIN_MODULES))
    assert list(dict.fromkeys(name for each in read["modules"] for name in each["functions"])) == list(devmod.loads(many))


@pytest.mark.parametrize("change", [lambda modules: modules[:-1], lambda modules: [devmod.bundle(*modules)]], ids=["few", "one root"])
def test_other_files_have_no_table(change: Callable[[list[devmod.Module]], list[devmod.Module]]) -> None:
    data = devmod.dumps(devmod.bundle(*change([module(number) for number in range(MIN_MODULES)])))
    assert not {"lookup", "tree_lookup"} & msgpack.unpackb(index_of(data)).keys()
    assert not isinstance(devmod.loads(data), IndexedBundle)


# -- files whose modules have imports


@pytest.fixture(scope="module")
def tree() -> bytes:
    """Modules with one function each. 5 imports constants and a bundle of two, 9 imports 8, and 10 is a bundle of 3 and a module of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
        modules = [module(number) for number in range(MIN_MODULES)]
        modules[5].import_module(devmod.const_loader({"w": b"abc"}, {"init": ["w"]}))
        modules[5].import_module(devmod.bundle(module(1001, "inner"), module(1002, "inner", "kernel_3")))
        modules[9].import_module(modules[8])
        modules[10] = devmod.bundle(modules[3], module(1003, "kernel_8", "own"))
        return devmod.dumps(devmod.bundle(*modules))


def without_table(data: bytes) -> bytes:
    return with_index(data, lambda fields: fields.update(tree_lookuq=fields.pop("tree_lookup")))


def descendants(root: devmod.Module) -> list[devmod.Module]:
    return [root, *(each for child in root.imports for each in descendants(child))]


@pytest.mark.row("R21")
def test_a_look_up_decodes_a_module_and_its_imports(tree: bytes) -> None:
    root = devmod.loads(tree)
    (found,) = root._owners_of("kernel_5")  # type: ignore[attr-defined]
    numbers = [number for number in range(600) if number in root._made]  # type: ignore[attr-defined]
    assert len(numbers) == 5
    constants, node = found.imports
    assert (constants.kind, node.kind, [list(each) for each in node.imports]) == (
        "const_loader",
        "bundle",
        [["inner"], ["inner", "kernel_3"]],
    )
    assert bytes(found.get_function("init", query_imports=True)()[0]) == b"abc"
    assert owners(root, "kernel_8") == ["8", "1003"]
    ((nine,), eight) = (root._owners_of("kernel_9"), root._owners_of("kernel_8")[0])  # type: ignore[attr-defined]
    assert nine.imports == (eight,)
    assert len(root.imports) == MIN_MODULES
    assert root.imports[5] is found
    assert root.imports[8] is nine.imports[0] is eight
    assert root.imports[10].imports[0] is root.imports[3]


@pytest.mark.row("R19", "R21")
def test_the_table_of_a_tree_gives_what_the_tree_has(tree: bytes, tmp_path: Path) -> None:
    assert (tree[8], list(msgpack.unpackb(index_of(tree)))) == (1, ["tree_lookup", "roots", "modules"])  # older readers ignore the key
    plain: Any = devmod.loads(without_table(tree))
    assert not isinstance(plain, IndexedBundle)
    assert isinstance(devmod.loads(tree), IndexedBundle)
    for name in plain:
        root: Any = devmod.loads(tree)
        assert owners(root, name) == owners(plain, name)
        assert "_devmod_imports" not in root.__dict__
    root = devmod.loads(tree)
    assert (list(root), dict(root.functions)) == (list(plain), dict(plain.functions))
    assert "_devmod_imports" not in root.__dict__
    assert [(each.kind, list(each)) for each in descendants(root)] == [(each.kind, list(each)) for each in descendants(plain)]
    read = spec_reader.read_bundle(tree)
    assert [read["modules"][number]["functions"] for number in read["roots"]] == [
        [] if each.kind == "bundle" else list(each) for each in root.imports
    ]
    (tmp_path / "k.devmod").write_bytes(tree)
    assert devmod.dumps(devmod.loads(tree)) == devmod.dumps(devmod.load(tmp_path / "k.devmod")) == devmod.dumps(plain) == tree


def test_the_functions_of_imports_are_found_on_request_alone(tree: bytes) -> None:
    errors = []
    for data in (tree, without_table(tree)):
        root: Any = devmod.loads(data)
        with pytest.raises(devmod.FunctionNotFoundError) as caught:
            root["inner"]
        errors.append(str(caught.value))
        assert root.get_function("init", query_imports=True)()[0].shape == (3,)
        assert [each.kind for each in devmod.loads(data)._owners_of("inner", True)] == ["bundle"]  # type: ignore[attr-defined]
        assert len(devmod.loads(data)._owners_of("kernel_8", True)) == 3  # type: ignore[attr-defined] # 8, 9 by its import, and 1003
    assert errors[0] == errors[1]


def test_a_look_up_in_a_tree_is_the_same_work_for_any_number_of_modules() -> None:
    def look_up(count: int, *, imports: bool) -> Callable[[], object]:
        modules = [module(number) for number in range(count)]
        if imports:
            modules[77].import_module(devmod.const_loader({"w": b"abc"}, {"init": ["w"]}))
        data = devmod.dumps(devmod.bundle(*modules))
        return lambda: devmod.loads(data).functions["kernel_77"]

    few, many, plain = look_up(MIN_MODULES, imports=True), look_up(8 * MIN_MODULES, imports=True), look_up(8 * MIN_MODULES, imports=False)
    few()
    assert abs(work(many) - work(few)) < 50  # a binary search has more steps
    assert work(many) < 2 * work(plain)


def test_a_table_of_a_tree_that_is_wrong_is_refused(tree: bytes) -> None:
    text = "the index of the bundle in memory: its lookup table is for other modules"
    index = msgpack.unpackb(index_of(tree))
    modules, (_, _, numbers) = index["modules"], index["tree_lookup"]
    five = next(number for number, each in enumerate(modules) if len(each.get("imports", ())) == 2 and each["kind"] == "cuda")

    def table(data: bytes, column: int, at: int, value: int) -> bytes:
        def change(fields: dict[str, Any]) -> None:
            part = bytearray(fields["tree_lookup"][column])
            part[4 * at : 4 * at + 4] = value.to_bytes(4, "little")
            fields["tree_lookup"][column] = bytes(part)

        return with_index(data, change)

    def look_up(root: Any) -> object:
        return root._owners_of("kernel_5")

    constants, node = modules[five]["imports"]
    # The bundle has a function of this name, and is no candidate.
    (three,) = (number for number, each in enumerate(modules) if each.get("functions") == ["kernel_3"])
    data = table(tree, 2, numbers.index(three.to_bytes(4, "little")) // 4, node)
    assert refused(data, list) == refused(data, lambda root: root._owners_of("kernel_3")) == text
    data = table(tree, 2, numbers.index(five.to_bytes(4, "little")) // 4, constants)
    assert refused(data, list) == refused(data, look_up) == text
    # Two modules have one place.
    offset = int.from_bytes(index["tree_lookup"][0][4 * node : 4 * node + 4], "little")
    for act in (look_up, list, lambda root: root.imports):
        assert refused(table(tree, 0, constants, offset), act) == text
    # A module imports itself, or one before it.
    for child in (five, five - 1):
        data = with_index(tree, lambda fields, child=child: fields["modules"][five]["imports"].__setitem__(0, child))
        assert refused(data, look_up) == text


@pytest.mark.row("R41")
def test_the_limit_on_nodes_without_bytes_holds_at_a_look_up() -> None:
    """Otherwise a module with many of them takes a hundred times the memory of the index."""

    def file(nodes: int) -> bytes:
        entries = [Entry("cuda", [*range(MIN_MODULES, MIN_MODULES + nodes)], functions=["f"], offset=0)]
        entries += [Entry("cuda", functions=[f"kernel_{number}"], offset=0) for number in range(1, MIN_MODULES)]
        entries += [Entry("bundle") for _ in range(nodes)]
        for each in entries[:MIN_MODULES]:
            each.digest = sha256_of(b"")
        return file_of(pack_index([*range(MIN_MODULES)], entries, {}))

    most = MIN_MODULES + MAX_BARE
    root: Any = devmod.loads(file(most))
    assert [len(each.imports) for each in root._owners_of("f")] == [most]
    text = refused(file(most + 1), lambda root: root._owners_of("f"))
    assert (
        text
        == f"the index of the bundle in memory: {most + 1} nodes without bytes and {MIN_MODULES} modules with some; there may be 1024 more of the first"
    )


def test_an_unknown_function_lists_what_there_is(many: bytes) -> None:
    plain = with_index(many, lambda fields: fields.update(lookuq=fields.pop("lookup")))
    errors = []
    for data in (many, plain):
        with pytest.raises(devmod.FunctionNotFoundError) as caught:
            devmod.loads(data)["kernel_43x"]
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert "did you mean 'kernel_43'" in errors[0].lower()


# -- tables that are wrong


def test_a_table_without_a_function_hides_nothing(many: bytes) -> None:
    row = msgpack.unpackb(index_of(many))["lookup"][2].index((42).to_bytes(4, "little")) // 4
    root = devmod.loads(with_number(many, 2, row, 43))
    assert owners(root, "kernel_42") == ["42"]
    assert "_devmod_imports" in root.__dict__  # by the whole index


def refused(data: bytes, act: Callable[[Any], object]) -> str:
    with pytest.raises(devmod.FormatError) as caught:
        act(devmod.loads(data))
    return str(caught.value)


def test_a_wrong_number_or_offset_is_refused_at_the_look_up(many: bytes) -> None:
    where = "the index of the bundle in memory: "
    table = msgpack.unpackb(index_of(many))["lookup"]
    row = table[2].index((42).to_bytes(4, "little")) // 4
    act = lambda root: root._owners_of("kernel_42")  # noqa: E731
    assert refused(with_number(many, 2, row, 2**32 - 1), act) == f"{where}its lookup table is for other modules"
    assert (
        refused(with_number(many, 0, 42, 2**32 - 1), act)
        == f"{where}modules, 42: the bytes end where an object should begin, at byte 4294967295"
    )
    assert refused(with_number(many, 0, 42, 0), act).startswith(f"{where}modules, 42: no kind")


def test_a_table_of_another_form_is_refused(many: bytes) -> None:
    text = "the index of the bundle in memory: lookup: expected three binaries of 32-bit numbers, at byte "

    def move(fields: dict[str, Any]) -> None:
        fields["lookup"] = [fields["lookup"][0] + b"\0", fields["lookup"][1][:-1], fields["lookup"][2]]

    assert refused(with_index(many, move), repr).startswith(text)


def test_a_table_for_other_modules_is_refused_with_the_whole_tree(many: bytes) -> None:
    def turn(fields: dict[str, Any]) -> None:
        fields["roots"][:2] = [1, 0]

    assert refused(with_index(many, turn), list) == "the index of the bundle in memory: its lookup table is for other modules"


def test_a_table_whose_offsets_differ_from_the_tree_is_refused_with_the_whole_tree(many: bytes) -> None:
    """Otherwise a look-up could run a module that the tree does not list."""
    offset = msgpack.unpackb(index_of(many))["lookup"][0][4 * 43 : 4 * 44]
    data = with_number(many, 0, 42, int.from_bytes(offset, "little"))
    for act in (list, lambda root: root.imports):
        assert refused(data, act) == "the index of the bundle in memory: its lookup table is for other modules"


@pytest.mark.parametrize("number", [5, MIN_MODULES - 1])
@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["kernel_5", 5], "expected a string, found an integer"),
        (["kernel_5", ["x"]], "expected a string, found an array"),
        (5, "expected an array, found an integer"),
        ("no list", "expected an array, found a string"),
    ],
)
def test_names_of_another_type_are_refused_with_the_whole_list(number: int, names: Any, problem: str) -> None:
    """The pass over all names is of msgpack's reader, which accepts more than devmod's."""
    data = hostile(functions=names, number=number)
    assert refused(data, list).startswith(f"the index of the bundle in memory: modules, {number}, functions: {problem}")


@pytest.mark.volume_but("maps")
@pytest.mark.parametrize("values", [b"\x80", b"\xd4\x05\x00", b"\xdd\x00\x10\x00\x00"], ids=["maps", "extensions", "long arrays"])
def test_the_list_of_names_takes_little_memory(values: bytes) -> None:
    """msgpack's own reader takes 70 bytes for an empty map, which is one byte in the file."""
    count = (1 << 20) // len(values)
    data = hostile(more=b"\xa1x\xdd" + count.to_bytes(4, "big") + values * count)
    tracemalloc.start()
    try:
        refused(data, list)
        assert tracemalloc.get_traced_memory()[1] < 16 * len(data)
    finally:
        tracemalloc.stop()


def hostile(functions: Any = (), more: bytes = b"", number: int = 5) -> bytes:
    """A file with a table whose offsets are right, and with any names and a further key in one module."""
    fields = {"kind": "cuda", "functions": [], "offset": 0, "size": 0, "sha256": sha256_of(b"")}
    packed = [msgpack.packb(fields)] * MIN_MODULES
    changed = msgpack.packb(fields | {"functions": functions})
    packed[number] = bytes([changed[0] + bool(more)]) + changed[1:] + more
    between = b"\xa5roots" + msgpack.packb([*range(MIN_MODULES)]) + b"\xa7modules" + array_header(MIN_MODULES)
    index = b"\x83" + pack_table(range(MIN_MODULES), [Entry("cuda")] * MIN_MODULES, packed, 1 + len(between)) + between + b"".join(packed)
    return file_of(index)


def test_the_bytes_of_a_module_are_checked_at_its_look_up(many: bytes) -> None:
    def change(fields: dict[str, Any]) -> None:
        fields["modules"][42]["offset"] += 1

    text = refused(with_index(many, change), lambda root: root._owners_of("kernel_42"))
    assert text.startswith("the index of the bundle in memory: the bytes of module 42 (cuda) have a bad offset: expected ")


@pytest.mark.row("R41")
def test_the_modules_of_look_ups_share_no_bytes(many: bytes) -> None:
    """Otherwise a small file unpacks to any size: a call decompresses the bytes of each candidate until one runs."""
    text = "the index of the bundle in memory: its lookup table is for other modules"
    offset = msgpack.unpackb(index_of(many))["lookup"][0][4 * 7 : 4 * 8]
    assert refused(with_number(many, 0, 300, int.from_bytes(offset, "little")), lambda root: root.get_function("blur")) == text

    def overlap(fields: dict[str, Any]) -> None:
        for each in fields["modules"][:-2]:
            each["size"] = 127

    root: Any = devmod.loads(with_index(many, overlap))
    refusals = []
    for number in range(8, 300):
        try:
            root._owners_of(f"kernel_{number}")
        except devmod.FormatError as error:
            refusals.append(str(error))
    assert refusals == [text] * len(refusals) != []


def test_the_version_is_checked_at_a_look_up(zstd: None) -> None:
    made = [module(number) for number in range(MIN_MODULES)]
    made[7] = devmod.create_with_fallback("cuda", bytes(70_000), "cubin", {"blur": devmod.FunctionInfo("blur", [])})
    data = bytearray(devmod.dumps(devmod.bundle(*made), compress="zstd"))
    data[8] = 1
    text = "the index of the bundle in memory has compressed bytes or sources, which version 1 of the format does not have"
    for act in (lambda root: root.get_function("blur"), lambda root: root.imports):
        assert refused(bytes(data), act) == text


@pytest.mark.row("R41")
def test_the_modules_of_look_ups_count_for_the_limit_of_the_file(zstd: None) -> None:
    made = [module(number) for number in range(MIN_MODULES)]
    for number in (7, 300):
        made[number] = devmod.create_with_fallback("cuda", bytes(70_000), "cubin", {"blur": devmod.FunctionInfo("blur", [])})

    def change(fields: dict[str, Any]) -> None:
        for number in (7, 300):
            fields["modules"][number]["zstd"][0] = 900_000

    root: Any = devmod.loads(with_index(devmod.dumps(devmod.bundle(*made), compress="zstd"), change))
    for _ in range(2):
        with pytest.raises(devmod.FormatError, match=r"module 300 \(cuda\) unpack from \d+ to 900000 bytes; the limit is 1\d{5}$"):
            root._owners_of("blur")
