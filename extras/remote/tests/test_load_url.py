"""`devmod.load` of a URL: the bytes that move, the cache, and `offline`."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgpack
import pytest
import toy_backend as toy
from bundles import Register, bundle_of, noise, runtime
from command_line import printed_by
from each_case import raised, refusal, some
from http_server import Handler, Server
from stored import Raw, entry, head_of, headed, row

import devmod
from devmod.backend import DiskCache

A, B = noise(200_000, 1), noise(100_000, 2)


def index_size(data: bytes) -> int:
    return int.from_bytes(data[12:16], "little") + sum(
        size for _, size, *_ in head_of(data)["pages"]
    )


@pytest.mark.row("R24")
def test_the_index_and_the_chosen_candidate_move(server: Server, register: Register) -> None:
    loaded = runtime(register, "second")
    server.files["k.devmod"] = bundle_of(first=A, second=B, third=A)
    module = devmod.load(server.url())
    assert [each.kind for each in module.imports] == ["first", "second", "third"]
    assert list(module.functions) == ["f"]
    assert server.sent < 29_000  # with the headers of the answers
    before = server.sent
    assert module.get_function("f")() == "f"
    assert loaded == [B]
    assert 0 < server.sent - before - len(B) < 300
    assert len(server.requests) == 2


def test_one_of_several_candidates_with_names_moves(server: Server, register: Register) -> None:
    """The candidates have different orders of arguments. The index has that, so their interfaces
    are not read.
    """
    x, n = devmod.Param("x", "buffer", "float32", "rw"), devmod.Param("n", "scalar", "int32")
    code = noise(100_000).hex().encode()

    def candidate(kind: str, fmt: str, *params: devmod.Param) -> devmod.Module:
        info = devmod.FunctionInfo(
            "f",
            ["handle" if each is x else "int32" for each in params],
            (),
            (),
            devmod.Interface(params),
        )
        return devmod.create_with_fallback(kind, code, fmt, {"f": info})

    own = toy.ToyModule(toy.SPEC, "toy", candidate("opencl", "cl", x, n).functions, code)
    register("devmod.targets", "toy", toy.SPEC)
    register("devmod.load_from_bytes", "toy", lambda data: own)
    server.files["k.devmod"] = devmod.dumps(
        devmod.bundle(candidate("cuda", "ptx", n, x), own, candidate("opencl", "cl", x, n))
    )
    function = devmod.load(server.url())["f"]
    assert [span.partition("-")[0] for span in server.spans] == [
        "0",
        str(server.files["k.devmod"].index(own.save_to_bytes())),
    ]  # type: ignore[union-attr]
    with pytest.raises(
        devmod.ArgumentError, match="its candidates have different orders of arguments"
    ):
        function([0.0], 1)


@pytest.mark.row("R24")
def test_the_interface_of_the_best_variant_alone_moves(server: Server, register: Register) -> None:
    """Several variants of one kind fit the device. Those behind the best are not asked for what
    they need.
    """
    spec = devmod.TargetSpec(
        "toy",
        title="Toy",
        distribution="devmod-toy",
        formats=("toy",),
        text_formats=("toy",),
        architecture=lambda fmt, code: bytes(code[:1]).decode(),
        rank=lambda variant, arch: int(variant),
    )
    info = devmod.FunctionInfo(
        "f", ["handle"], (), (), devmod.Interface([devmod.Param("x", "buffer", "float32", "rw")])
    )
    variants = [
        toy.ToyModule(spec, "toy", {"f": info}, number + noise(100_000).hex().encode())
        for number in (b"1", b"3", b"2")
    ]
    register("devmod.targets", "toy", spec)
    register("devmod.device", "toy", lambda: [toy.ToyDevice(0)])
    register("devmod.load_from_bytes", "toy", lambda data: toy.ToyModule.from_wire(spec, data))
    server.files["k.devmod"] = devmod.dumps(devmod.bundle(*variants))
    module = devmod.load(server.url())
    assert module["f"].info.interface == info.interface
    starts = [server.files["k.devmod"].index(each.save_to_bytes()) for each in variants]  # type: ignore[union-attr]
    assert [span.partition("-")[0] for span in server.spans] == ["0", str(starts[1])]
    unread = (
        "toy:0 decides: what the function needs moves with its payload, which a call does not get"
    )
    assert [
        (each.variant, each.outcome) for each in devmod.explain(module, "f").functions["f"]
    ] == [
        ("3", "best"),
        ("2", "unknown"),
        ("1", "unknown"),
    ]
    assert devmod.explain(module, "f").functions["f"][1].text.partition(";")[0] == unread
    assert len(server.spans) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [20, 2000], ids=["small", "large"])
def test_the_index_of_many_modules_and_29_kB_move(server: Server, count: int) -> None:
    modules = [Raw("toy", noise(64, number), functions=(f"f{number}",)) for number in range(count)]
    data = server.files["k.devmod"] = devmod.dumps(devmod.bundle(*modules))
    module = devmod.load(server.url())
    assert len(module) == count
    assert server.sent < index_size(data) + 29_000
    assert len(server.spans) < 3
    assert module.candidates[-1].save_to_bytes() == noise(64, count - 1)  # type: ignore[attr-defined]


@pytest.mark.row("R50")
def test_one_function_of_a_library_is_four_requests_and_100_kB(server: Server) -> None:
    """Of each module the first and the second name, which may be in another page."""
    names = [
        f"fmha_qkv_e4m3_o_bf16_h128_paged_p{number % 7}_q{number * 7919 % 2500:05}_kv{number % 11}"
        for number in range(2500)
    ]
    modules = [
        Raw("toy", b"%d" % number, functions=(name, f"{number * 104729 % 99991:05}_{name}"))
        for number, name in enumerate(names)
    ]
    for each in modules:
        each.__dict__["_devmod_origin"] = devmod.Origin(
            "cuda", "nvcc 13.0", ["-O3"], {"k.cu": "00" * 32}, {"file": "x" * 200}
        )
    data = server.files["k.devmod"] = devmod.dumps(devmod.bundle(*modules))
    assert len(head_of(data)["pages"]) > 40
    for offline in (False, True):
        for number in (0, 1, 1250, 2499):
            for name in modules[number].functions:
                requests, sent = len(server.requests), server.sent
                (found,) = devmod.load(server.url(), offline=offline)._owners_of(name)  # type: ignore[attr-defined]
                assert found.save_to_bytes() == b"%d" % number
                assert len(server.requests) - requests <= (0 if offline else 4)
                assert server.sent - sent < 100_000


@pytest.mark.row("R50")
def test_a_further_name_of_modules_in_two_neighbouring_pages_is_four_requests(
    server: Server,
) -> None:
    """The border between the two pages is between the modules. Their names are far from that of
    both.
    """
    modules = [
        Raw(
            "toy", b"%d" % number, functions=(f"kernel_{number:04}", f"warp_{(number + 1) // 2:04}")
        )
        for number in range(6000)
    ]
    data = server.files["k.devmod"] = devmod.dumps(devmod.bundle(*modules))
    stops = list(accumulate(count for count, *_ in head_of(data)["pages"]))
    borders = [stop for stop in stops if 0 < stop < 6000 and not stop % 2]
    assert len(borders) > 5
    for number in borders:
        requests = len(server.requests)
        found = devmod.load(server.url())._owners_of(f"warp_{number // 2:04}")  # type: ignore[attr-defined]
        assert found[0].save_to_bytes() == b"%d" % (number - 1)
        assert len(found) == 2
        assert len(server.requests) - requests <= 4


@pytest.mark.row("R19")
def test_saving_writes_the_same_file(server: Server, tmp_path: Path) -> None:
    data = server.files["k.devmod"] = bundle_of(first=A, second=B)
    devmod.save(devmod.load(server.url()), tmp_path / "again.devmod")
    assert (tmp_path / "again.devmod").read_bytes() == data


#: The constants that are used together, by the name of their function.
TOGETHER = {
    "all": [f"w{number:02}" for number in range(10)],
    "one": ["w04"],
    "apart": ["w00", "w02"],
}


@pytest.fixture
def weights(server: Server) -> dict[str, bytes]:
    """Constants of 1 MiB and 1 byte in a file of the server, with the names "w00" to "w09"."""
    constants = {name: noise((1 << 20) + 1, int(name[1:])) for name in TOGETHER["all"]}
    module = devmod.const_loader({"small": bytes(4), **constants}, TOGETHER)
    server.files["k.devmod"] = devmod.dumps(module)
    return constants


@pytest.mark.row("R20")
@pytest.mark.parametrize(("symbol", "sizes"), [("all", [7, 3]), ("one", [1]), ("apart", [1, 1])])
def test_constants_that_are_used_together_are_one_request_for_8_MiB(
    symbol: str, sizes: list[int], server: Server, weights: dict[str, bytes]
) -> None:
    """Those that are not neighbours are apart: what is between them does not move."""
    module = devmod.load(server.url())
    server.requests.clear()
    expected = [weights[name] for name in TOGETHER[symbol]]
    assert [bytes(memoryview(array)) for array in module[symbol]()] == expected
    moved = []
    for span in server.spans:
        start, end = map(int, span.split("-"))
        moved.append((end - start) >> 20)
    assert moved == sizes
    assert [bytes(memoryview(array)) for array in module[symbol]()] == expected
    assert len(server.requests) == len(sizes)


@pytest.mark.usefixtures("weights")
def test_constants_in_the_cache_are_not_requested_again(server: Server) -> None:
    module = devmod.load(server.url())
    for symbol in ("one", "all"):
        module[symbol]()
    assert len(server.requests) == 4
    devmod.load(server.url(), offline=True)["all"]()
    devmod.load(server.url())["all"]()
    assert len(server.requests) == 5


@pytest.mark.row("R41")
@pytest.mark.parametrize("name", ["w00", "w05", "w06", "w08"])
def test_the_bytes_between_constants_that_are_read_together_are_zero(
    name: str, server: Server, weights: dict[str, bytes]
) -> None:
    """The seventh is the last of a request."""
    data = server.files["k.devmod"]
    assert isinstance(data, bytes)
    place = data.index(weights[name]) + len(weights[name])
    server.files["k.devmod"] = data[:place] + b"\1" + data[place + 1 :]
    assert refusal(devmod.FormatError, devmod.load(server.url())["all"]) == (
        f"{server.url()!r} is damaged: the bytes between two of its parts are not zero. "
        "Get the file again"
    )


def test_a_small_bundle_is_one_request(server: Server) -> None:
    data = server.files["k.devmod"] = bundle_of(first=b"small")
    assert devmod.load(server.url()).save_to_bytes() == b"small"
    assert server.spans == ["0-28671"]
    assert len(data) < 28672


def test_the_cache_has_what_was_read_by_its_digest(server: Server, cache: Path) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    server.files["copy.devmod"] = bundle_of(other=B, first=A)
    assert devmod.load(server.url()).save_to_bytes() == A
    assert devmod.load(server.url("copy.devmod")).imports[1].save_to_bytes() == A
    assert devmod.load(server.url()).save_to_bytes() == A
    assert [span for span in server.spans if span != "0-28671"] == [f"256-{256 + len(A) - 1}"]
    assert sorted(path.name for path in cache.iterdir()) == ["remote"]


def test_a_large_index_comes_from_the_cache(server: Server) -> None:
    modules = [Raw("toy", b"", functions=(f"f{number}",)) for number in range(1000)]
    server.files["k.devmod"] = devmod.dumps(devmod.bundle(*modules))
    for _ in range(2):
        assert len(devmod.load(server.url())) == 1000
    assert len(server.spans) == 3  # the pages are one request
    assert len(devmod.load(server.url(), offline=True)) == 1000


def test_a_damaged_entry_of_the_cache_is_read_again(server: Server, cache: Path) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    assert devmod.load(server.url()).save_to_bytes() == A
    for path in some((cache / "remote").iterdir()):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert devmod.load(server.url()).save_to_bytes() == A
    assert len(server.requests) == 4


@pytest.mark.row("R41")
def test_an_entry_of_the_cache_with_other_bytes_is_read_again(server: Server) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    DiskCache("remote").write(hashlib.sha256(A).hexdigest(), B)
    assert devmod.load(server.url()).save_to_bytes() == A
    assert devmod.load(server.url(), offline=True).save_to_bytes() == A


def test_without_space_for_a_cache_everything_is_read_again(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "0")
    server.files["k.devmod"] = bundle_of(first=A)
    for _ in range(2):
        assert devmod.load(server.url()).save_to_bytes() == A
    assert len(server.requests) == 4
    assert not cache.exists()


# -- offline


@pytest.mark.row("R39")
def test_offline_uses_the_cache_alone(server: Server, register: Register) -> None:
    loaded = runtime(register, "second")
    server.files["k.devmod"] = bundle_of(first=A, second=B)
    devmod.load(server.url()).get_function("f")
    count = len(server.requests)
    module = devmod.load(server.url(), offline=True)
    assert module.get_function("f")() == "f"
    assert loaded == [B, B]
    assert refusal(devmod.FetchError, module.imports[0].save_to_bytes) == (
        f"'{server.url()}' cannot be read offline: a part of it (200000 bytes) is not in the cache. Load it once with offline=False, and get "
        "the functions that are needed"
    )
    assert len(server.requests) == count


@pytest.mark.parametrize("by_variable", [False, True])
def test_offline_without_an_entry_is_an_error(
    server: Server, by_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    if by_variable:
        monkeypatch.setenv("DEVMOD_OFFLINE", "1")
    error = raised(
        devmod.FetchError, devmod.load, server.url(), offline=None if by_variable else True
    )
    assert str(error) == (
        f"'{server.url()}' cannot be read offline: it is not in the cache. Load it once with offline=False and the same storage_options, "
        "and get the functions that are needed"
    )
    assert isinstance(error, OSError)
    assert server.requests == []


def names_in(cache: Path) -> set[str]:
    return {path.name for path in (cache / "remote").iterdir()}


def by_account(handler: Handler, server: Server) -> bool:
    """Answer with the bundle of the account in the headers."""
    server.files["k.devmod"] = bundle_of(toy=(handler.headers["X-Account"] or "nobody").encode())
    return False


ACCOUNTS: list[dict[str, Any]] = [
    {"headers": {"X-Account": "first", "X-Key": "hunter2"}, "use_listings_cache": True},
    {"headers": {"X-Account": "second", "X-Key": "hunter2"}},
    {},
]


def test_accounts_with_one_url_do_not_share_its_entry(server: Server, cache: Path) -> None:
    names = set[str]()
    for options in ACCOUNTS:
        server.answers = [by_account]
        module = devmod.load(server.url(), storage_options=options)
        assert len(names_in(cache) - names) == 1
        names = names_in(cache)
        assert (
            devmod.load(server.url(), storage_options=options, offline=True).save_to_bytes()
            == module.save_to_bytes()
        )
    again = {
        "use_listings_cache": True,
        "headers": {"X-Key": "hunter2", "X-Account": "first"},
    }  # a map has no order
    assert (
        devmod.load(server.url(), storage_options=again, offline=True).save_to_bytes() == b"first"
    )
    with pytest.raises(devmod.FetchError):
        devmod.load(server.url(), storage_options={"headers": {"X-Account": "third"}}, offline=True)


def test_the_name_of_an_entry_is_no_digest_of_a_secret(server: Server, cache: Path) -> None:
    """Someone who sees the names could compare them with the digests of guesses."""
    server.files["k.devmod"] = bundle_of(first=b"small")
    url = server.url().replace("//", "//user:hunter2@")
    devmod.load(url)
    devmod.load(server.url(), storage_options={"headers": {"X-Key": "hunter2"}})
    guesses = [
        (url,),
        ("first bytes", url),
        ("bundle at a URL", url),
        ("bundle of an account", url),
    ]
    assert len(names_in(cache)) == 2
    assert not names_in(cache) & {f"{DiskCache.key(*each)}.bin" for each in guesses}


def test_an_entry_of_an_older_release_is_not_read(server: Server) -> None:
    """Its name did not depend on the account."""
    DiskCache("remote").write(
        DiskCache.key("first bytes", server.url()), bundle_of(first=b"of another account")
    )
    for options in ({}, {"headers": {"X-Account": "first"}}):
        with pytest.raises(devmod.FetchError, match="it is not in the cache"):
            devmod.load(server.url(), offline=True, storage_options=options)


def test_options_that_cannot_be_compared(server: Server, cache: Path) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    options = {"client_kwargs": {"middlewares": (runtime,)}}
    assert refusal(
        devmod.FetchError, devmod.load, server.url(), storage_options=options, offline=True
    ) == (
        f"'{server.url()}' cannot be read offline: storage_options has a value of type function, which the cache cannot compare. "
        "Load it with strings, bytes, numbers, and lists and maps of them"
    )


class SecretText(str):
    """A text with a repr that does not show it."""

    def __repr__(self) -> str:
        return "'***'"


def test_a_text_that_hides_its_value_is_compared_by_it(server: Server) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    devmod.load(server.url(), storage_options={"headers": {"X-Key": SecretText("one")}})
    devmod.load(server.url(), storage_options={"headers": {"X-Key": "one"}}, offline=True)
    with pytest.raises(devmod.FetchError):
        devmod.load(
            server.url(), storage_options={"headers": {"X-Key": SecretText("two")}}, offline=True
        )


def test_the_argument_offline_has_priority_over_the_variable(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_OFFLINE", "1")
    server.files["k.devmod"] = bundle_of(first=A)
    assert devmod.load(server.url(), offline=False).kind == "first"


# -- servers without ranges, other file systems


def test_a_server_without_ranges(server: Server, register: Register) -> None:
    loaded = runtime(register, "second")
    server.ranges = False
    server.files["k.devmod"] = bundle_of(first=A, second=B, third=noise(2_000_000))
    module = devmod.load(server.url())
    assert module.get_function("f")() == "f"
    assert loaded == [B]
    assert len(server.requests) == 2


def test_no_compressed_transfer_is_requested(server: Server) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    devmod.load(server.url())
    assert server.headers[0]["Accept-Encoding"] == "identity"


def test_storage_options_are_those_of_the_file_system(server: Server) -> None:
    server.files["k.devmod"] = bundle_of(first=A)
    module = devmod.load(
        server.url(), storage_options={"headers": {"Authorization": "Bearer secret"}}
    )
    assert module.save_to_bytes() == A
    assert [each["Authorization"] for each in server.headers] == ["Bearer secret"] * 2


def test_a_redirect_is_followed_with_the_range(server: Server) -> None:
    def redirect(handler: Handler, server: Server) -> bool:
        handler.status(302, Location=server.url("moved.devmod"))
        return True

    server.files["moved.devmod"] = bundle_of(first=A)
    server.answers = [redirect, lambda *_: False, redirect]
    assert devmod.load(server.url()).save_to_bytes() == A
    assert server.spans[:2] == ["0-28671", "0-28671"]
    assert server.spans[2] == server.spans[3]


def test_a_file_system_in_memory() -> None:
    import fsspec

    with fsspec.open("memory://folder/k.devmod", "wb") as file:
        file.write(bundle_of(first=A))
    assert devmod.load("memory://folder/k.devmod").save_to_bytes() == A
    assert (
        refusal(devmod.FetchError, devmod.load, "memory://folder/other.devmod")
        == "'memory://folder/other.devmod' cannot be read: there is no such file"
    )


def test_a_file_of_this_machine_is_not_cached(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "k.devmod").write_bytes(bundle_of(first=A))
    assert devmod.load(f"file://{tmp_path}/k.devmod", offline=True).save_to_bytes() == A
    assert not cache.exists()


def test_compressed_bytes_and_sources_move_as_they_are_stored(server: Server) -> None:
    code = noise(40_000).hex().encode()
    info = {"f": devmod.FunctionInfo("f", ["handle"])}
    source = {"cuda": noise(10_000, 1).hex()}
    modules = [
        devmod.create_with_fallback("cuda", code + bytes([number]), "cubin", info, source)
        for number in range(2)
    ]
    data = server.files["k.devmod"] = devmod.dumps(
        devmod.bundle(*modules), compress="zstd", with_sources=True
    )
    module = devmod.load(server.url()).imports[1]
    assert module.save_to_bytes() == modules[1].save_to_bytes()
    sent = server.sent
    assert 68_000 < sent < 73_000
    assert module.source == source
    assert 10_000 < server.sent - sent < 15_000
    assert devmod.dumps(devmod.load(server.url())) == data


def test_a_forked_process_reads_too(server: Server) -> None:
    server.files["k.devmod"] = bundle_of(first=A, second=B)
    module = devmod.load(server.url())
    assert module.imports[0].save_to_bytes() == A
    child = os.fork()
    if not child:
        os._exit(0 if module.imports[1].save_to_bytes() == B else 1)
    assert os.waitpid(child, 0)[1] == 0


# -- the command line


def test_inspect(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    data = server.files["k.devmod"] = bundle_of(first=A)
    url = server.url().replace("//", "//user:password@") + "?signature=secret"
    out, err = printed_by(capsys, "inspect", url)
    assert out.startswith(
        f"{server.url()}?…: devmod bundle, {len(data) / 1000:.1f} kB\nfirst, 200.0 kB — runtime: not installed\n"
    )
    assert (err, "password" in out, "secret" in out) == ("", False, False)


def test_inspect_without_the_size_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    import fsspec

    with fsspec.open("memory://folder/k.devmod", "wb") as file:
        file.write(bundle_of(first=A))
    assert printed_by(capsys, "inspect", "memory://folder/k.devmod").out.startswith(
        "memory://folder/k.devmod: devmod bundle\nfirst, 200.0 kB"
    )
    description = json.loads(
        printed_by(capsys, "inspect", "--json", "memory://folder/k.devmod").out
    )
    assert (description["bytes"], description["module"]["bytes"]) == (None, len(A))
    assert printed_by(capsys, "inspect", "memory://folder/other.devmod", status=1) == (
        "",
        "devmod: error: 'memory://folder/other.devmod' cannot be read: there is no such file\n",
    )


# -- memory


def sparse_file(path: Path, size: int, blob: bytes) -> None:
    """Write a bundle with a module of `size` zeros, which take no space on the disk, and one with
    `blob`.
    """
    end = -(-size // 64) * 64
    page = msgpack.packb(
        {"modules": [entry(b"", kind="zeros", size=size, rank=0), entry(blob, kind="toy", rank=1)]}
    )
    head = headed({"candidates": 2, "pages": [row(page, 2, end + len(blob))]}, page)
    with path.open("wb") as file:
        file.write(head)
        file.seek(len(head) + end)
        file.write(blob)


def test_the_memory_for_a_file_of_1_GB(server: Server, tmp_path: Path) -> None:
    sparse_file(tmp_path / "k.devmod", 1_000_000_000, B)
    server.files["k.devmod"] = lambda: (tmp_path / "k.devmod").open("rb")
    devmod.load(server.url())
    tracemalloc.start()
    try:
        assert devmod.load(server.url()).imports[1].save_to_bytes() == B
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_the_memory_without_ranges(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    sparse_file(tmp_path / "k.devmod", 50_000_000, B)
    server.files["k.devmod"] = lambda: (tmp_path / "k.devmod").open("rb")
    devmod.load(server.url())
    tracemalloc.start()
    try:
        assert devmod.load(server.url()).imports[1].save_to_bytes() == B
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
