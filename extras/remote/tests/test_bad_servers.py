"""Servers that fail, lie, stop or change the file: the error, and what is tried again."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle_of, noise
from each_case import raised, refusal
from http_server import Answer, Handler, Server, http_server

import devmod
from devmod.backend import DiskCache

A = noise(200_000, 1)
BUNDLE = bundle_of(first=A)
#: A time in which no server answers that waits for the end of its test.
SHORT = 0.05


def status(number: int, **headers: str) -> Answer:
    """Answer with a status."""

    def answer(handler: Handler, server: Server) -> bool:
        handler.status(number, **headers)
        return True

    return answer


def partial(content_range: str, body: bytes = BUNDLE[:28672], **headers: str) -> Answer:
    """Answer with a part and this header."""

    def answer(handler: Handler, server: Server) -> bool:
        handler.start(
            206, {"Content-Range": content_range, "Content-Length": str(len(body))} | headers
        )
        handler.body(body)
        return True

    return answer


def disconnect(handler: Handler, server: Server) -> bool:
    """Close the connection without an answer."""
    handler.close_connection = True
    return True


def truncate(handler: Handler, server: Server) -> bool:
    """Close the connection in the middle of the answer."""
    first, _, last = server.spans[-1].partition("-")
    handler.start(
        206,
        {
            "Content-Range": f"bytes {first}-{last}/{len(BUNDLE)}",
            "Content-Length": str(int(last) + 1 - int(first)),
        },
    )
    handler.body(BUNDLE[:1000])
    handler.close_connection = True
    return True


def proceed(handler: Handler, server: Server) -> bool:
    """Answer as the server does without `answers`."""
    return False


def stall(handler: Handler, server: Server) -> bool:
    """Send a part of the answer, and the rest never."""
    handler.start(206, {"Content-Range": f"bytes 0-28671/{len(BUNDLE)}", "Content-Length": "28672"})
    handler.body(BUNDLE[:1000])
    server.end.wait()
    handler.close_connection = True
    return True


error_of = functools.partial(raised, devmod.FetchError)


@pytest.fixture(autouse=True)
def bundle(server: Server) -> None:
    server.files["k.devmod"] = BUNDLE


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of the pauses between attempts, which are not waited for."""
    result: list[float] = []
    monkeypatch.setattr("time.sleep", result.append)
    return result


@pytest.mark.parametrize(
    "answer",
    [status(500), status(503, Retry_After="0"), status(429), disconnect, truncate],
    ids=["500", "503", "429", "disconnect", "truncate"],
)
def test_a_failure_that_may_pass_is_repeated(server: Server, answer: Answer) -> None:
    server.answers = [answer, proceed, answer]
    assert devmod.load(server.url(), retries=1).save_to_bytes() == A
    assert len(server.requests) == 4


def test_the_last_attempt_raises_the_error(server: Server) -> None:
    server.answers = [status(500), status(503), status(502)]
    error = error_of(devmod.load, server.url(), retries=1)
    assert (
        str(error)
        == f"'{server.url()}' cannot be read: the server answered 503 Service Unavailable (after 2 attempts)"
    )
    assert error.status == 503
    assert len(server.requests) == 2


def test_the_pauses_double_and_are_those_that_the_server_asks_for(
    server: Server, pauses: list[float]
) -> None:
    server.answers = [
        status(500),
        status(503, Retry_After="7"),
        status(503, Retry_After="Fri, 20 Nov 2026 00:00:00 GMT"),
        status(429, Retry_After="99"),
    ]
    assert devmod.load(server.url(), retries=4).kind == "first"
    assert pauses == [0.1, 7, 0.4, 30]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (404, "the server answered 404 Not Found"),
        (401, "the server answered 401 Unauthorized; `storage_options` takes credentials"),
        (403, "the server answered 403 Forbidden; `storage_options` takes credentials"),
        (410, "the server answered 410 Gone"),
        (501, "the server answered 501 Not Implemented"),
    ],
)
def test_a_final_status_is_an_error_at_once(server: Server, number: int, text: str) -> None:
    server.answers = [status(number)]
    error = error_of(devmod.load, server.url())
    assert str(error) == f"'{server.url()}' cannot be read: {text}"
    assert (error.status, len(server.requests)) == (number, 1)


def test_a_server_that_does_not_exist() -> None:
    error = error_of(devmod.load, "http://127.0.0.1:9/k.devmod", retries=0)
    assert re.fullmatch(
        r"'http://127\.0\.0\.1:9/k\.devmod' cannot be read: ClientConnectorError: Cannot connect to host .*",
        str(error),
    )
    assert error.status is None


def test_a_server_that_stops(server: Server) -> None:
    server.answers = [stall]
    error = error_of(devmod.load, server.url(), retries=0, timeout=SHORT)
    # On a loaded machine the time may end before the first bytes.
    assert re.fullmatch(
        rf"'{server.url()}' cannot be read: the server sent (nothing for|1000 bytes in) 0\.05 s; `timeout` allows more",
        str(error),
    )
    server.answers = [silence]
    error = error_of(devmod.load, server.url(), retries=0, timeout=SHORT)
    assert (
        str(error)
        == f"'{server.url()}' cannot be read: the server sent nothing for 0.05 s; `timeout` allows more"
    )


def test_a_server_that_sends_byte_after_byte(server: Server) -> None:
    """Each byte comes in time, and all of them would take a day."""

    def trickle(handler: Handler, server: Server) -> bool:
        handler.start(
            206, {"Content-Range": f"bytes 0-28671/{len(BUNDLE)}", "Content-Length": "28672"}
        )
        while not handler.close_connection and not server.end.wait(0.01):
            handler.body(b"x")
        return True

    server.answers = [trickle]
    error = error_of(devmod.load, server.url(), retries=0, timeout=SHORT)
    assert re.fullmatch(
        rf"'{server.url()}' cannot be read: the server sent (nothing for|\d+ bytes in) 0\.05 s; `timeout` allows more",
        str(error),
    )


def silence(handler: Handler, server: Server) -> bool:
    """Send no answer."""
    server.end.wait()
    handler.close_connection = True
    return True


def test_the_text_has_no_secrets(server: Server) -> None:
    address = server.url("gone.devmod").replace("//", "//user:password@")
    error = error_of(devmod.load, f"{address}?signature=secret")
    assert (
        str(error)
        == f"'{server.url('gone.devmod')}?…' cannot be read: the server answered 404 Not Found"
    )


def test_redirects_without_an_end(server: Server) -> None:
    server.answers = [status(302, Location=server.url())] * 20
    error = error_of(devmod.load, server.url())
    assert str(error) == f"'{server.url()}' cannot be read: the server redirects without an end"
    assert len(server.requests) < 20


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "http://[::bad/?signature=secret", "ftp://127.0.0.1/k"]
)
def test_a_redirect_to_no_http_url(server: Server, place: str) -> None:
    server.answers = [status(302, Location=place)]
    error = error_of(devmod.load, server.url())
    assert (
        str(error)
        == f"'{server.url()}' cannot be read: the server redirects to an address that is not an HTTP URL"
    )
    assert len(server.requests) == 1


def garbage(handler: Handler, server: Server) -> bool:
    """Answer with something else than HTTP."""
    handler.wfile.write(b"\x00\x1b[31m" * 1000 + b"\r\n\r\n")
    handler.close_connection = True
    return True


@pytest.mark.parametrize(
    "answer", [garbage, status(404), status(302, Location="/k.devmod?credential=secret")]
)
def test_no_traceback_has_a_secret(
    server: Server, answer: Answer, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Programs log whole tracebacks, and messages of other packages have the URL."""
    url = "http://user:pass%20word@{}/k.devmod?credential=secret"
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    server.answers = [answer] * 20
    error = error_of(lambda: devmod.load(url.format(server.address.partition("//")[2]), retries=1))
    text = "".join(traceback.format_exception(error)) + "".join(capsys.readouterr())
    assert "cannot be read: " in text
    assert not any(
        secret in text for secret in ("pass%20word", "pass word", "credential", "secret")
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:password@[::1]:9/k.devmod?signature=secret", "http://[::1]:9/k.devmod?…"),
        ("http://user:password@[::1/k.devmod?signature=secret", "http://[::1/k.devmod?…"),
    ],
)
def test_an_address_with_colons_has_no_secrets(url: str, shown: str) -> None:
    assert str(error_of(devmod.load, url, retries=0)).startswith(f"{shown!r} cannot be read: ")


def test_a_redirect_to_another_server_takes_no_headers_along(server: Server) -> None:
    with http_server() as other:
        other.files["k.devmod"] = BUNDLE
        server.answers = [status(302, Location=other.url())] * 2
        headers = {
            "Authorization": "Bearer secret",
            "X-Token": "secret",
            "Cookie": "secret",
            "User-Agent": "mine",
        }
        options = {"headers": headers, "client_kwargs": {"headers": {"X-Session": "secret"}}}
        assert devmod.load(server.url(), storage_options=options).save_to_bytes() == A
    assert server.headers[0]["X-Token"] == server.headers[0]["X-Session"] == "secret"
    assert [each["User-Agent"] for each in other.headers] == ["mine"] * 2
    assert other.spans == ["0-28671", "256-200255"]
    assert not any("secret" in value for each in other.headers for value in each.values())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:aiohttp",
    "ignore:BasicAuth:DeprecationWarning",
    "ignore:The 'auth':DeprecationWarning",
)
@pytest.mark.parametrize("is_session", [True, False])
def test_a_redirect_to_another_server_takes_no_credentials_along(
    is_session: bool, server: Server
) -> None:
    """aiohttp adds those of the session to each request of the chain."""
    import aiohttp

    credentials = {"auth": aiohttp.BasicAuth("user", "secret"), "cookies": {"session": "secret"}}
    with http_server() as other:
        other.files["k.devmod"] = BUNDLE
        server.answers = [status(302, Location=other.url())] * 2
        options = {"client_kwargs": credentials} if is_session else credentials
        assert devmod.load(server.url(), storage_options=options).save_to_bytes() == A
    assert [each["Cookie"] for each in server.headers] == ["session=secret"] * 2
    assert all("Authorization" in each for each in server.headers)
    assert [sorted(each) for each in other.headers] == [
        ["Accept-Encoding", "Host", "Range", "User-Agent"]
    ] * 2


def test_a_middleware_of_the_session_is_called(server: Server) -> None:
    async def sign(request: Any, handler: Any) -> Any:
        request.headers["X-Signed"] = "yes"
        return await handler(request)

    module = devmod.load(server.url(), storage_options={"client_kwargs": {"middlewares": (sign,)}})
    assert module.save_to_bytes() == A
    assert [each["X-Signed"] for each in server.headers] == ["yes", "yes"]


def test_an_answer_that_is_compressed(server: Server) -> None:
    """A megabyte of gzip may be a gigabyte, so nothing is decompressed."""

    def answer(handler: Handler, server: Server) -> bool:
        handler.start(200, {"Content-Encoding": "gzip", "Content-Length": "1000"})
        handler.body(bytes(1000))
        return True

    server.answers = [answer]
    error = error_of(devmod.load, server.url())
    assert str(error) == (
        f"'{server.url()}' cannot be read: the server compressed the answer (gzip), and was asked not to: turn that off for this file"
    )
    assert len(server.requests) == 1


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.devmod")
    url = f"file://{tmp_path}/k.devmod"
    error = error_of(devmod.load, url)
    assert (
        str(error)
        == f"{url!r} cannot be read: {os.fspath(tmp_path / 'k.devmod')!r} is a pipe (FIFO); expected a regular file"
    )


def test_a_long_text_of_the_server_is_cut(server: Server) -> None:
    server.answers = [partial("y" * 7000)]
    error = error_of(devmod.load, server.url())
    assert str(error).endswith(f"answered with Content-Range {'y' * 200 + '…'!r}")


# -- lies


@pytest.mark.parametrize(
    "content_range",
    [
        "",
        "bytes",
        "bytes 1-28672/200232",
        "bytes 1-28671/200232",
        "bytes 0-28672/200232",
        "bytes 0-100/200232",
        "bytes -1-28671/9",
        "lines 0-28671/9",
        "bytes 0-x/9",
    ],
)
def test_another_range_than_requested(server: Server, content_range: str) -> None:
    server.answers = [partial(content_range)]
    error = error_of(devmod.load, server.url())
    assert str(error) == (
        f"'{server.url()}' cannot be read: the server was asked for bytes 0-28671, and answered with Content-Range {content_range!r}"
    )
    assert len(server.requests) == 1


@pytest.mark.parametrize("total", ["*", str(len(BUNDLE))])
def test_the_size_may_be_unknown(server: Server, total: str) -> None:
    server.answers = [partial(f"bytes 0-28671/{total}")]
    assert devmod.load(server.url()).save_to_bytes() == A


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (100_000, "{} is cut short: 100000 bytes; expected are 200256"),
        (300_000, "{} has 99744 bytes more than its index describes; expected are 200256"),
    ],
)
def test_another_size_than_the_index_describes(server: Server, total: int, text: str) -> None:
    server.answers = [partial(f"bytes 0-28671/{total}")]
    assert refusal(devmod.FormatError, devmod.load, server.url()) == text.format(
        f"'{server.url()}'"
    )


def test_an_answer_that_is_shorter_than_its_range(server: Server) -> None:
    server.answers = [partial("bytes 0-28671/200232", BUNDLE[:1000])]
    error = error_of(devmod.load, server.url(), retries=0)
    assert (
        str(error) == f"'{server.url()}' cannot be read: the answer ended after 1000 of 28672 bytes"
    )


def test_an_answer_that_is_longer_than_its_range(server: Server) -> None:
    """The client reads what it asked for, and closes the connection."""

    def endless(handler: Handler, server: Server) -> bool:
        handler.start(
            206, {"Content-Range": f"bytes 0-28671/{len(BUNDLE)}", "Content-Length": str(1 << 40)}
        )
        handler.body(BUNDLE[:28672])
        while not handler.close_connection:
            handler.body(bytes(1 << 16))
        return True

    server.answers = [endless]
    assert devmod.load(server.url()).save_to_bytes() == A
    assert server.sent < 50_000_000


def test_a_page_in_place_of_a_bundle(server: Server) -> None:
    server.files["k.devmod"] = b"<html>" + bytes(5000)
    assert (
        refusal(devmod.FormatError, devmod.load, server.url())
        == f"'{server.url()}' is not a bundle: it does not begin with the magic bytes of a .devmod file"
    )


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("size", [0, 8, 47, 48, 100, 150])
def test_a_file_that_is_cut_short(server: Server, size: int, ranges: bool) -> None:
    server.ranges = ranges
    server.files["k.devmod"] = BUNDLE[:size]
    assert refusal(devmod.FormatError, devmod.load, server.url()) == refusal(
        devmod.FormatError, devmod.loads, BUNDLE[:size]
    ).replace("the bundle in memory", f"'{server.url()}'")


@pytest.mark.row("R41")
def test_a_damaged_index(server: Server) -> None:
    server.files["k.devmod"] = BUNDLE[:60] + b"\xff" + BUNDLE[61:]
    assert refusal(devmod.FormatError, devmod.load, server.url()) == (
        f"'{server.url()}' is damaged: the SHA-256 of its head is not the one in its header. Get the file again"
    )


# -- changes of the file


def test_a_file_that_is_replaced_after_load(server: Server) -> None:
    module = devmod.load(server.url())
    server.files["k.devmod"] = bundle_of(first=noise(200_000, 7))
    error = error_of(module.save_to_bytes)
    assert (
        str(error)
        == f"'{server.url()}' was replaced by another file since devmod.load opened it. Load it again"
    )
    assert devmod.load(server.url()).save_to_bytes() == noise(200_000, 7)


def test_a_file_that_is_replaced_while_its_index_is_read(server: Server) -> None:
    large = [bundle_of(**{f"kind{number}_{seed}": b"" for number in range(900)}) for seed in (0, 1)]
    server.files["k.devmod"] = large[0]

    def replace(handler: Handler, server: Server) -> bool:
        server.files["k.devmod"] = large[1]
        return False

    server.answers = [proceed, replace]
    error = error_of(devmod.load, server.url())
    assert (
        str(error)
        == f"'{server.url()}' was replaced by another file since devmod.load opened it. Load it again"
    )


def test_a_damaged_answer_is_read_again_and_not_cached(server: Server) -> None:
    module = devmod.load(server.url())
    server.answers = [partial(f"bytes 256-200255/{len(BUNDLE)}", bytes(200_000))]
    assert module.save_to_bytes() == A
    assert server.spans[1:] == ["256-200255", "0-47", "256-200255"]


@pytest.mark.row("R41")
def test_a_damaged_module_is_an_error_and_not_cached(server: Server) -> None:
    server.files["k.devmod"] = BUNDLE[:-1] + bytes([BUNDLE[-1] ^ 1])
    for _ in range(2):
        assert refusal(devmod.FormatError, devmod.load(server.url()).save_to_bytes) == (
            f"'{server.url()}': the first module with 'f' is damaged: its SHA-256 is not the one in the index. Nothing of it was used. "
            "Get the file again from where it came"
        )
    assert server.spans.count("256-200255") == 4
    assert DiskCache("remote").read(hashlib.sha256(A).hexdigest()) is None


# -- invalid calls


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": 0}, "timeout is a number of seconds above 0, not 0"),
        ({"timeout": None}, "timeout is a number of seconds above 0, not None"),
        ({"retries": -1}, "retries is a number of further attempts, not -1"),
        ({"storage_options": "anon"}, "storage_options is a map of options, not 'anon'"),
    ],
)
def test_an_invalid_option(server: Server, options: dict[str, Any], text: str) -> None:
    error = raised(devmod.ArgumentError, devmod.load, server.url(), **options)
    assert str(error) == f"load(url): {text}"
    assert error.argument == next(iter(options))


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://[/k.devmod", "ValueError: Invalid IPv6 URL"),
    ],
)
def test_an_invalid_url(url: str, text: str) -> None:
    assert str(error_of(devmod.load, url)) == f"{url!r} cannot be read: {text}"


SCHEMES = (
    "abfs, abfss, adl, az, box, dbfs, dropbox, file, ftp, gcs, gdrive, github, gs, hdfs, hf, http, https, lakefs, local, memory, oss, "
    "root, s3, s3a, sftp, smb, ssh, tos, wandb"
)
ARCHIVE = "Get the archive and unpack it; devmod.load also takes zipfile.Path(archive, name) for a file in it"
CACHE = "devmod has a cache of its own: load the URL of the bundle without this part"
ANY = "devmod.load(fsspec.open(url).open()) reads through fsspec, without checks of redirects and answers"


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("zip://k.devmod::{}", {}, f"zip:// cannot be read. {ARCHIVE}"),
        ("tar://k.devmod::{}", {}, f"tar:// cannot be read. {ARCHIVE}"),
        ("zip://k.devmod", {"fo": "{}"}, f"zip:// cannot be read. {ARCHIVE}"),
        ("zip::{}", {}, f"zip:// cannot be read. {ARCHIVE}"),
        ("nope::zip://k::{}", {}, f"nope:// cannot be read. {ANY}"),
        ("simplecache::{}", {}, f"simplecache:// cannot be read. {CACHE}"),
        (
            "filecache://k.devmod",
            {"target_protocol": "http"},
            f"filecache:// cannot be read. {CACHE}",
        ),
        ("blockcache::{}", {}, f"blockcache:// cannot be read. {CACHE}"),
        ("reference://k.devmod::{}", {}, f"reference:// cannot be read. {ANY}"),
        ("FILE:///k.devmod", {}, f"FILE:// cannot be read. {ANY}"),
        ("reference://k.devmod", {"fo": "{}"}, f"reference:// cannot be read. {ANY}"),
        ("generic://k.devmod", {"default_method": "options"}, f"generic:// cannot be read. {ANY}"),
        ("ZIP://k.devmod::{}", {}, f"ZIP:// cannot be read. {ANY}"),
        ("ftpx://host/k.devmod", {}, f"ftpx:// cannot be read. {ANY}"),
    ],
)
def test_a_scheme_that_could_leave_the_checks_of_http(
    server: Server, url: str, options: dict[str, str], text: str
) -> None:
    """fsspec sends the caller's headers to another server, decompresses, and reads files that a
    server names.
    """
    target = server.url().replace("//", "//user:secret@") + "?signature=secret"
    given = {key: value.format(target) for key, value in options.items()}
    error = error_of(lambda: devmod.load(url.format(target), storage_options=given, offline=False))
    assert str(error) == f"load(url): a URL with {text}. The schemes of bundles are {SCHEMES}"
    assert server.requests == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_another_file_system_in_the_place_of_that_for_http(scheme: str) -> None:
    import fsspec
    from fsspec.implementations.http import HTTPFileSystem
    from fsspec.implementations.memory import MemoryFileSystem

    fsspec.register_implementation(scheme, MemoryFileSystem, clobber=True)
    try:
        error = error_of(devmod.load, f"{scheme}://host/k.devmod")
    finally:
        fsspec.register_implementation(scheme, HTTPFileSystem, clobber=True)
    assert str(error) == (
        f"'{scheme}://host/k.devmod' cannot be read: fsspec.implementations.memory.MemoryFileSystem replaced fsspec's file system for "
        f"{scheme}://, and does not check redirects and answers. devmod.load(fsspec.open(url).open()) reads through it"
    )


@pytest.mark.parametrize("name", ["a::b.devmod", "zip::http:%2F%2Fhost"])
def test_colons_in_a_path_are_no_chain(server: Server, name: str) -> None:
    server.files[name] = BUNDLE
    assert devmod.load(server.url(name)).save_to_bytes() == A


@pytest.mark.parametrize(
    ("url", "package", "install"),
    [
        ("s3://bucket/k.devmod", "s3fs", "pip install s3fs"),
        ("gs://bucket/k.devmod", "gcsfs", "pip install gcsfs"),
        ("smb://host/k.devmod", "smbclient", "pip install smbprotocol"),
    ],
)
def test_a_file_system_without_its_package(
    url: str, package: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    text = f"the package {package} is not installed. To add it: {install}"
    assert str(error_of(devmod.load, url)) == f"{url!r} cannot be read: {text}"


def test_a_file_system_whose_package_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.registry import known_implementations

    (tmp_path / "broken_files.py").write_text("raise ImportError('a library cannot be opened')")
    monkeypatch.syspath_prepend(tmp_path)
    entry = {"class": "broken_files.Files", "err": "Install broken-files for it"}
    monkeypatch.setitem(known_implementations, "box", entry)
    text = "Install broken-files for it (ImportError: a library cannot be opened)"
    assert str(error_of(devmod.load, "box://k")) == f"'box://k' cannot be read: {text}"
