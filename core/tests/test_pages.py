"""Large files: a function is found by the head of the index and at most two pages."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alone import core_alone as core_alone
from each_case import refusal
from stored import CountedFile, Raw, head_of, pages_of, with_pages
from work import work

import devmod
from devmod._files.index_writer import PAGE_SIZE
from devmod._formats.index import MAX_BARE

pytestmark = pytest.mark.once  # the bytes of an index, and the work to read it

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import spec_reader  # noqa: E402 - the reader that is written from docs/formats.md

DISAGREE = (
    "the index of the bundle in memory: two parts of it describe a candidate in different ways"
)


def module(number: int, *names: str) -> devmod.Module:
    info = {
        name: devmod.FunctionInfo(f"symbol_{number}", ["handle"])
        for name in names or (f"kernel_{number}",)
    }
    return devmod.create_with_fallback("cuda", f"payload {number}".encode(), "cubin", info)


@pytest.fixture(scope="module")
def many() -> bytes:
    """Modules with one function each, but 7 has three, and 7 and 300 have one in common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
        modules = [module(number) for number in range(1000)]
        modules[7], modules[300] = module(7, "zoom", "blur", "größe"), module(300, "zoom")
        return devmod.dumps(devmod.bundle(*modules))


@pytest.fixture(scope="module")
def tree() -> bytes:
    """Modules with one function each. 5 imports constants and a bundle of two, 9 imports 8, and 10
    is a bundle of 3 and a module of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
        modules = [module(number) for number in range(1000)]
        modules[5].import_module(devmod.const_loader({"w": b"abc"}, {"init": ["w"]}))
        modules[5].import_module(
            devmod.bundle(module(1001, "inner"), module(1002, "inner", "kernel_3"))
        )
        modules[9].import_module(modules[8])
        modules[10] = devmod.bundle(modules[3], module(1003, "kernel_8", "own"))
        return devmod.dumps(devmod.bundle(*modules))


def read(root: Any) -> list[int]:
    """The numbers of the pages that were read."""
    return [number for number, page in enumerate(root.tree.index.pages) if page.data]


def owners(root: Any, name: str) -> list[str]:
    return [
        bytes(each.save_to_bytes()).decode("latin-1").rpartition(" ")[2]
        for each in root._owners_of(name)
    ]


@pytest.mark.row("R50")
def test_a_look_up_reads_the_page_of_the_name_and_those_of_candidates_that_are_used(
    many: bytes,
) -> None:
    pages = len(pages_of(many))
    assert pages > 2
    root = devmod.loads(many)
    assert read(root) == []
    assert (owners(root, "kernel_42"), len(read(root))) == (["42"], 1)
    # The last two are further names.
    for name, numbers in (("blur", ["7"]), ("größe", ["7"]), ("zoom", ["7", "300"])):
        root = devmod.loads(many)
        found: Any = root._owners_of(name)  # type: ignore[attr-defined]
        assert len(read(root)) == 1
        assert [(each.kind, each.format, each.variant) for each in found] == [
            ("cuda", "cubin", "")
        ] * len(numbers)
        assert len(read(root)) == 1
        assert owners(root, name) == numbers
        assert len(read(root)) <= 3
    for name in ("kernel_42x", "", "a", "\U0010ffff", "\ud800"):
        root = devmod.loads(many)
        assert name not in root
        assert len(read(root)) <= 1
    with pytest.raises(devmod.DevmodError, match="'kernel_42'"):
        root.get_function("kernel_42")


@pytest.mark.row("R50")
def test_every_name_of_a_simulated_library_is_found_by_two_pages() -> None:
    """Names with long beginnings in common, and second names that are anywhere."""
    numbers = random.Random(5)
    names = [
        f"gemm_bf16_e4m3_fp32_t128x{numbers.choice([8, 16, 64])}_s{numbers.randrange(8)}_et{number:05}"
        for number in range(3000)
    ]
    modules = [
        Raw("toy", b"%d" % number, functions=(name, f"{numbers.randrange(16**6):06x}{name}"))
        for number, name in enumerate(names)
    ]
    data = devmod.dumps(devmod.bundle(*modules))
    head = int.from_bytes(data[12:16], "little")
    sizes = [size for _, size, *_ in head_of(data)["pages"]]
    assert max(sizes) < PAGE_SIZE + 256
    assert head < 70 * len(sizes)  # the first names of pages are short
    whole: Any = devmod.loads(data)
    for number in numbers.sample(range(3000), 20):
        for name in modules[number].functions:
            file = CountedFile(data)
            root: Any = devmod.load(file)
            file.sizes.clear()
            (found,) = root._owners_of(name)
            assert (
                found.save_to_bytes() == b"%d" % number == whole._owners_of(name)[0].save_to_bytes()
            )
            assert len(file.sizes) <= 3
            assert sum(file.sizes) < 2 * PAGE_SIZE + 500


def looked_up(data: bytes, name: str) -> tuple[Any, int, int]:
    """Return the candidates of a function, and how many reads they take with the first one's bytes,
    and how many bytes beside these.
    """
    file = CountedFile(data)
    root: Any = devmod.load(file)
    found = root._owners_of(name)
    size = len(found[0].save_to_bytes())
    return found, len(file.sizes), sum(file.sizes) - size


@pytest.mark.row("R50")
@pytest.mark.parametrize("common", ["a_common", "zzz_common"])
def test_a_name_that_all_candidates_have_fills_no_page(common: str) -> None:
    count = 2000
    modules = [
        Raw("toy", b"%d" % number, functions=(common, f"kernel_{number:05}", f"other_{number}"))
        for number in range(count)
    ]
    data = devmod.dumps(devmod.bundle(*modules))
    pages = pages_of(data)
    # A candidate is in the page of its rarest name, and of two in that of the lower one.
    assert [each["functions"][1] for page in pages for each in page.get("modules", ())] == [
        f"kernel_{number:05}" for number in range(count)
    ]
    for number in (0, 7, 1999):
        for name in (f"kernel_{number:05}", f"other_{number}"):
            (found,), reads, size = looked_up(data, name)
            assert found.save_to_bytes() == b"%d" % number
            assert reads <= 4  # the head in two
            assert size < 100_000
    found, reads, size = looked_up(data, common)
    assert [each.entry.rank for each in found[:3]] == [0, 1, 2]
    assert (len(found), reads <= 4, size < 100_000) == (count, True, True)
    spec_reader.read_bundle(data)


@pytest.mark.row("R50")
def test_a_choice_among_kinds_reads_the_record_of_the_candidate_that_is_used() -> None:
    """Four of five kinds are not installed. Each kind has the functions in modules of its own."""
    names = [f"kernel_{number}" for number in range(600)]
    modules: list[devmod.Module] = []
    for kind in range(5):
        own = names[:]
        random.Random(kind).shuffle(own)
        for at in range(0, len(own), 6):
            group = own[at : at + 6]
            if kind < 4:
                modules.append(Raw(f"toy{kind}", b"x" * 500, functions=tuple(group)))
            else:
                value = memoryview(group[0].encode())
                modules.append(devmod.const_loader({"w": value}, {each: ["w"] for each in group}))
    data = devmod.dumps(devmod.bundle(*modules, mixed=True))
    whole = devmod.loads(data)
    for name in names[::97]:
        file = CountedFile(data)
        (value,) = devmod.load(file)[name]()
        assert len(file.sizes) <= 4
        (owner,) = (each for each in whole.imports if each.kind == "const_loader" and name in each)
        assert bytes(value) == bytes(owner.get_global("w"))
        root: Any = devmod.load(CountedFile(data))
        assert [each.kind for each in root._owners_of(name)] == [
            *(f"toy{kind}" for kind in range(4)),
            "const_loader",
        ]
        assert len(read(root)) == 1


@pytest.mark.row("R50")
def test_a_small_file_has_one_page_which_is_read_at_once() -> None:
    count = 200
    data = devmod.dumps(
        devmod.bundle(*(module(number, f"f{number}", "all") for number in range(count)))
    )
    assert len(pages_of(data)) == 1
    file = CountedFile(data)
    root = devmod.load(file)
    file.sizes.clear()
    assert owners(root, "f7") == ["7"]
    assert owners(root, "all") == [str(number) for number in range(count)]
    assert list(root)[:3] == ["f0", "all", "f1"]


@pytest.mark.row("R50")
def test_few_modules_with_many_names_have_pages_of_their_own() -> None:
    """The rule counts bytes: with 60 modules in one page, a look-up would read 2 MB of names."""
    modules = []
    for number in range(60):
        names = [f"kernel_{number:02}_{'x' * 60}_{each:03}" for each in range(500)]
        modules.append(module(number, *names))
    data = devmod.dumps(devmod.bundle(*modules))
    file = CountedFile(data)
    root = devmod.load(file)
    assert owners(root, f"kernel_41_{'x' * 60}_499") == ["41"]
    assert sum(file.sizes) < 120_000 < 20 * 120_000 < len(data)


def test_names_and_one_signature_make_no_other_module(many: bytes) -> None:
    root: Any = devmod.loads(many)
    functions = root.functions
    assert (len(functions), len(root), "kernel_41" in root) == (1001, 1001, True)
    assert list(functions)[6:11] == ["kernel_6", "zoom", "blur", "größe", "kernel_8"]
    assert functions["blur"] == devmod.FunctionInfo("symbol_7", ["handle"])
    assert len(root.tree._made._values) == 1
    for missing in ("kernel_7", "blu", 7):
        assert missing not in functions


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
    assert len(root.imports) == 1000
    assert root.imports[9] is early
    assert root.imports is root.imports
    assert list(root)[6:9] == ["kernel_6", "zoom", "blur"]
    assert owners(root, "zoom") == ["7", "300"]
    other = devmod.loads(many)
    other.import_module(module(1000))
    assert owners(other, "kernel_1000") == ["1000"]


@pytest.mark.row("R19")
def test_a_large_file_is_saved_unchanged(many: bytes, tree: bytes, tmp_path: Path) -> None:
    for data in (many, tree):
        assert devmod.dumps(devmod.loads(data)) == data
        (tmp_path / "k.devmod").write_bytes(data)
        assert devmod.dumps(devmod.load(tmp_path / "k.devmod")) == data


# -- files whose modules have imports


def descendants(root: devmod.Module) -> list[devmod.Module]:
    return [root, *(each for child in root.imports for each in descendants(child))]


@pytest.mark.row("R21", "R50")
def test_a_look_up_makes_a_module_and_its_imports(tree: bytes) -> None:
    root: Any = devmod.loads(tree)
    (found,) = root._owners_of("kernel_5")
    assert len(root.tree._made._values) == 5
    constants, node = found.imports
    assert (constants.kind, node.kind, [list(each) for each in node.imports]) == (
        "const_loader",
        "bundle",
        [["inner"], ["inner", "kernel_3"]],
    )
    assert bytes(found.get_function("init", query_imports=True)()[0]) == b"abc"
    assert owners(root, "kernel_8") == ["8", "1003"]
    ((nine,), eight) = (root._owners_of("kernel_9"), root._owners_of("kernel_8")[0])
    assert nine.imports == (eight,)
    assert len(root.imports) == 1000
    assert root.imports[5] is found
    assert root.imports[8] is nine.imports[0] is eight
    assert root.imports[10].imports[0] is root.imports[3]


@pytest.mark.row("R19", "R21", "R50")
def test_the_pages_of_a_tree_give_what_the_tree_has(tree: bytes) -> None:
    whole: Any = devmod.loads(tree)
    assert len(whole.imports) == 1000
    for name in [*whole][::41]:
        root: Any = devmod.loads(tree)
        assert owners(root, name) == owners(whole, name)
        assert "_devmod_imports" not in root.__dict__
    found = spec_reader.read_bundle(tree)
    assert [found["records"][number]["kind"] for number in found["roots"]] == [
        each.kind for each in whole.imports
    ]
    names = [
        name for number in found["candidates"] for name in found["records"][number]["functions"]
    ]
    assert list(dict.fromkeys(names)) == list(devmod.loads(tree)) == list(whole)


def test_the_functions_of_imports_are_found_on_request_alone(tree: bytes) -> None:
    root: Any = devmod.loads(tree)
    with pytest.raises(devmod.FunctionNotFoundError):
        root["inner"]
    assert root.get_function("init", query_imports=True)()[0].shape == (3,)
    assert [each.kind for each in devmod.loads(tree)._owners_of("inner", True)] == ["bundle"]  # type: ignore[attr-defined]
    assert len(devmod.loads(tree)._owners_of("kernel_8", True)) == 3  # type: ignore[attr-defined] # 8, 9 by its import, and 1003


@pytest.mark.row("R50")
def test_a_look_up_is_the_same_work_in_any_page() -> None:
    def look_up(count: int, *, imports: bool) -> Callable[[], object]:
        modules = [module(number) for number in range(count)]
        if imports:
            modules[77].import_module(devmod.const_loader({"w": b"abc"}, {"init": ["w"]}))
        data = devmod.dumps(devmod.bundle(*modules))
        return lambda: devmod.loads(data).functions["kernel_77"]

    few, many, plain = (
        look_up(512, imports=True),
        look_up(4096, imports=True),
        look_up(4096, imports=False),
    )
    few()
    assert work(many) < 2 * work(few)  # the head has a row for each page
    assert work(many) < 2.5 * work(plain)  # the constants are in another page


@pytest.mark.row("R41")
def test_the_limit_on_nodes_without_bytes_holds_at_a_look_up() -> None:
    """Otherwise a module with many of them takes a hundred times the memory of the index."""

    def file(nodes: int) -> bytes:
        modules = [Raw("toy", b"", functions=(f"kernel_{number}",)) for number in range(512)]
        for _ in range(MAX_BARE + 500):
            modules[0].import_module(devmod.bundle(modules[1]))
        data = devmod.dumps(devmod.bundle(*modules))
        # Nodes take the place of modules that nothing else has.
        head, pages = head_of(data), pages_of(data)
        left = nodes - MAX_BARE - 500
        for page in pages:
            for number, each in enumerate(page["modules"]):
                if (
                    left
                    and each["kind"] == "toy"
                    and each["functions"] not in (["kernel_0"], ["kernel_1"])
                ):
                    page["modules"][number] = {
                        "kind": "_lib",
                        "functions": each["functions"],
                        "rank": each["rank"],
                    }
                    left -= 1
        return with_pages(data, head, pages)

    most = (512 + MAX_BARE + 500 + MAX_BARE) // 2
    root: Any = devmod.loads(file(most))
    assert [len(each.imports) for each in root._owners_of("kernel_0")] == [MAX_BARE + 500]
    text = f"the index of the bundle in memory: {most + 1} nodes without bytes and {2036 - most - 1} modules with some; there may be 1024 more of the first"
    message = refusal(
        devmod.FormatError, lambda: devmod.loads(file(most + 1))._owners_of("kernel_0")
    )
    assert message == text


def test_an_unknown_function_lists_what_there_is(many: bytes) -> None:
    assert (
        "did you mean 'kernel_43'"
        in refusal(
            devmod.FunctionNotFoundError, devmod.loads(many).get_function, "kernel_43x"
        ).lower()
    )


# -- pages that disagree


def refused(data: bytes, act: Callable[[Any], object]) -> str:
    return refusal(devmod.FormatError, act, devmod.loads(data))


def whole(root: Any) -> object:
    return root.imports


@pytest.mark.row("R41", "R50")
def test_a_name_that_one_page_alone_has_is_refused_where_both_are_read(many: bytes) -> None:
    """tests/test_readers.py has the look-ups of pages that disagree."""
    head = head_of(many)
    # A page has the second name of the candidate with "blur": what no page says is not found.
    pages = pages_of(many)
    for page in pages:
        page["names"] = [each for each in page.get("names", ()) if each[0] != "zoom"]
    missing = with_pages(many, head, pages)
    assert owners(devmod.loads(missing), "zoom") == ["300"]
    assert refused(missing, whole) == refused(missing, devmod.dumps) == DISAGREE

    # A candidate that is no record of the file, or that is in the page itself.
    for number in (1 << 20, 0):
        pages = pages_of(many)
        pages[0] |= {"names": [["blur", [number, 1 << 20, 0]]], "variants": [["cuda", "cubin", ""]]}
        wrong = with_pages(many, head, pages)
        assert refused(wrong, lambda root: root._owners_of("blur")) == DISAGREE

    # By its record, and its page does not find it.
    pages = pages_of(many)
    for record in pages[0]["modules"]:
        if "blur" in record["functions"]:
            record["functions"].append("zz")
    listed = with_pages(many, head, pages)
    assert "zz" in list(devmod.loads(listed).functions)
    assert (
        refused(listed, lambda root: (list(root.functions), root.functions["zz"]))
        == refused(listed, whole)
        == DISAGREE
    )


@pytest.mark.row("R41", "R50")
def test_a_damaged_page_leaves_the_functions_of_the_others(many: bytes) -> None:
    page = pages_of(many)[1]
    name = page["modules"][3]["functions"][0]
    at = many.index(name.encode(), 48 + int.from_bytes(many[12:16], "little"))
    data = bytearray(many)
    data[at] ^= 1
    text = "the bundle in memory is damaged: the SHA-256 of a page of its index is not the one in its head. Get the file again"
    root = devmod.loads(bytes(data))
    assert owners(root, "blur") == ["7"]
    for act in (lambda: root._owners_of(name), lambda: list(root), lambda: devmod.dumps(root)):  # type: ignore[attr-defined]
        assert refusal(devmod.FormatError, act) == text


@pytest.mark.row("R41", "R50")
def test_mutated_heads_and_pages_give_nothing_foreign(many: bytes) -> None:
    """With digests that fit, as everyone can write them. What is found is a module with the
    function and the bytes that its record names.
    """
    numbers = random.Random(11)
    head, pages = head_of(many), pages_of(many)
    import msgpack

    packed = [msgpack.packb(each) for each in pages]
    digests = {
        hashlib.sha256(b).digest()
        for b in (each.save_to_bytes() for each in devmod.loads(many).imports)
    }
    for _ in range(60):
        number = numbers.randrange(len(packed))
        page = bytearray(packed[number])
        for _ in range(numbers.randrange(1, 4)):
            page[numbers.randrange(len(page))] = numbers.randrange(256)
        data = with_pages(many, head, [*packed[:number], bytes(page), *packed[number + 1 :]])
        for name in ("zoom", "blur", f"kernel_{numbers.randrange(1000)}"):
            try:
                for each in devmod.loads(data)._owners_of(name):  # type: ignore[attr-defined]
                    assert name in each.function_names
                    assert hashlib.sha256(each.save_to_bytes()).digest() in digests
            except devmod.DevmodError:
                pass


def test_the_memory_of_a_look_up(many: bytes, tmp_path: Path) -> None:
    (tmp_path / "k.devmod").write_bytes(many)
    owners(devmod.load(tmp_path / "k.devmod"), "zoom")
    tracemalloc.start()
    try:
        assert owners(devmod.load(tmp_path / "k.devmod"), "zoom") == ["7", "300"]
        assert tracemalloc.get_traced_memory()[1] < 400_000
    finally:
        tracemalloc.stop()
