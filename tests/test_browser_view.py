"""`devmod view`: the responses of the server, its access checks, and the output of the command."""

from __future__ import annotations

import http.client
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import MagicMock
from urllib.parse import parse_qs, urlsplit

import pytest
from checker import checker, policy
from interruptible import interruptible_python

import devmod
from devmod.errors import DevmodError
from devmod_workbench import _cli
from devmod_workbench._view.serve import Server

__all__ = ["checker", "policy"]

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "tests" / "golden" / "v1" / "tree.devmod"
SECRET = "a-secret"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    """A server of a page and of a file with a name that needs quoting."""
    page = tmp_path / "page"
    (page / "inner").mkdir(parents=True)
    (page / "index.html").write_text("<p>page</p>")
    (page / "inner" / "code.js").write_text("export {};")
    (page / "notes.md").write_text("not for browsers")
    (page / ".hidden.js").write_text("")
    (tmp_path / "secret.txt").write_text("not yours")
    (page / "link.txt").symlink_to(tmp_path / "secret.txt")
    lake = tmp_path / "other.png"
    lake.write_bytes(b"png")
    file = tmp_path / "a b+é#.devmod"
    file.write_bytes(TREE.read_bytes())
    server = Server(file, {"": page, "lake.png": lake, "kit": page / "inner"}, 0, SECRET)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def get(served: Server) -> Callable[..., Answer]:
    """Request a path from the server."""

    def request(path: str, method: str = "GET", host: str | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", served.server_port, timeout=300)
        try:
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{served.server_port}")
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    return request


def file_path(served: Server) -> str:
    """Return the path of the file, as the page derives it from its own URL."""
    url = urlsplit(served.url)
    [name] = parse_qs(url.query)["file"]
    return url.path + name


def test_the_server_listens_on_loopback_only(served: Server) -> None:
    assert served.server_address[0] == "127.0.0.1"
    assert served.url.startswith(f"http://127.0.0.1:{served.server_port}/{SECRET}/?file=file/")


def test_the_page_and_the_file(served: Server, get: Callable[..., Answer]) -> None:
    status, headers, body = get(f"/{SECRET}/")
    assert (status, body) == (200, b"<p>page</p>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers
    assert get(f"/{SECRET}/?file=x")[2] == b"<p>page</p>"
    assert get(f"/{SECRET}/inner/code.js")[1]["Content-Type"].startswith("text/javascript")
    assert get(f"/{SECRET}/kit/code.js")[2] == b"export {};"
    assert get(f"/{SECRET}/lake.png")[2] == b"png"
    status, headers, body = get(file_path(served))
    assert (status, body) == (200, TREE.read_bytes())
    assert headers["Accept-Ranges"] == "bytes"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/index.html",
        "/{}",
        "/wrong/",
        "/{}x/",
        "/{}/missing.js",
        "/{}/notes.md",
        "/{}/.hidden.js",
        "/{}/inner",
        "/{}/inner/",
        "/{}/../secret.txt",
        "/{}/%2e%2e/secret.txt",
        "/{}/inner/../index.html",
        "/{}//etc/passwd",
        "/{}/lake.png/x.png",
        "/{}/file/other.devmod",
        "/{}/file/",
        "/{}/file",
        "/{}/file/../page/index.html",
        "/{}/index.html%00",
        "/{}/inner\\code.js",
        "http://[/{}/",
        "//[/{}/",
        "*",
    ],
)
def test_other_paths_are_not_found(
    get: Callable[..., Answer], capfd: pytest.CaptureFixture[str], path: str
) -> None:
    status, _, body = get(path.format(SECRET))
    assert (status, body) == (404, b"This page does not exist.\n")
    assert capfd.readouterr() == ("", "")  # nor a traceback


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "evil.example:{port}",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "[::1]:{port}",
    ],
)
def test_requests_with_another_host_are_refused(
    served: Server, get: Callable[..., Answer], host: str
) -> None:
    status, _, body = get(f"/{SECRET}/", host=host.format(port=served.server_port))
    assert (status, body) == (
        421,
        b"This server answers only requests to 127.0.0.1 and localhost.\n",
    )


def test_localhost_is_accepted(served: Server, get: Callable[..., Answer]) -> None:
    assert get(f"/{SECRET}/", host=f"localhost:{served.server_port}")[0] == 200


def test_on_port_80_a_browser_omits_the_port(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("page")
    try:
        server = Server(TREE, {"": tmp_path}, 80, SECRET)
    except DevmodError as error:
        pytest.skip(str(error))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
    try:
        for host, expected in (
            ("127.0.0.1", 200),
            ("localhost", 200),
            ("127.0.0.1:80", 200),
            ("evil.example", 421),
            ("", 421),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", 80, timeout=300)
            connection.putrequest("GET", f"/{SECRET}/", skip_host=True)
            connection.putheader("Host", host)
            connection.endheaders()
            assert connection.getresponse().status == expected
            connection.close()
    finally:
        server.shutdown()
        server.server_close()


WHOLE = TREE.read_bytes()


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        ("bytes=0-9", (0, 10)),
        ("bytes=100-", (100, None)),
        ("bytes=-7", (-7, None)),
        ("bytes=5-5", (5, 6)),
        ("bytes=0-99999999", (0, None)),
        ("bytes=-99999999", (0, None)),
    ],
)
def test_ranges(
    served: Server, get: Callable[..., Answer], wanted: str, part: tuple[int, int | None]
) -> None:
    status, headers, body = get(file_path(served), Range=wanted)
    assert status == 206
    assert body == WHOLE[part[0] : part[1]]
    first = part[0] % len(WHOLE)
    assert headers["Content-Range"] == f"bytes {first}-{first + len(body) - 1}/{len(WHOLE)}"
    assert headers["Content-Length"] == str(len(body))


@pytest.mark.parametrize(
    "wanted",
    [
        "bytes=9-5",
        "bytes=-",
        "bytes=a-b",
        "lines=1-2",
        "bytes=0-1,5-6",
        "bytes=1",
        "bytes=" + "9" * 40 + "-",
    ],
)
def test_invalid_ranges_are_ignored(
    served: Server, get: Callable[..., Answer], wanted: str
) -> None:
    status, _, body = get(file_path(served), Range=wanted)
    assert (status, body) == (200, WHOLE)


def test_ranges_outside_of_the_file(served: Server, get: Callable[..., Answer]) -> None:
    for wanted in (f"bytes={len(WHOLE)}-", "bytes=-0"):
        status, headers, body = get(file_path(served), Range=wanted)
        assert (status, headers["Content-Range"], body) == (416, f"bytes */{len(WHOLE)}", b"")


def test_a_file_that_changes_has_another_etag(served: Server, get: Callable[..., Answer]) -> None:
    path = file_path(served)
    tag = get(path)[1]["ETag"]
    assert get(path, Range="bytes=0-1", If_Range=tag)[0] == 206
    assert get(path, Range="bytes=0-1", If_Range='"other"')[0] == 200
    served.file.write_bytes(WHOLE + b"more")
    status, headers, _ = get(path, Range="bytes=0-1", If_Range=tag)
    assert status == 200
    assert headers["ETag"] != tag


@pytest.mark.parametrize("later", ["another file", "a link", "nothing"])
def test_a_replaced_file_is_not_served(
    served: Server, get: Callable[..., Answer], tmp_path: Path, later: str
) -> None:
    served.file.unlink()
    if later == "another file":
        served.file.write_text("not yours")
    elif later == "a link":
        served.file.symlink_to(tmp_path / "secret.txt")
    status, _, body = get(file_path(served))
    assert (status, body) == (200, WHOLE)


def test_concurrent_reads_get_the_requested_parts(
    served: Server, get: Callable[..., Answer]
) -> None:
    wrong: list[int] = []

    def ask(start: int) -> None:
        for _ in range(5):
            if (
                get(file_path(served), Range=f"bytes={start}-{start + 99}")[2]
                != WHOLE[start : start + 100]
            ):
                wrong.append(start)

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(0, 800, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_pipe_in_the_page_folder_does_not_block(
    get: Callable[..., Answer], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "page" / "pipe.txt")
    assert get(f"/{SECRET}/pipe.txt")[0] == 404


def test_the_number_of_connections_is_limited(served: Server, get: Callable[..., Answer]) -> None:
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", served.server_port)) for _ in range(100)]
    try:
        deadline = time.monotonic() + 300
        while (refused := sum(map(closed, idle))) < 68 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert refused == 68
        # Threads of earlier connections may have ended.
        assert threading.active_count() - before <= 32
        assert get(f"/{SECRET}/")[0] == 503
    finally:
        for each in idle:
            each.close()
    while get(f"/{SECRET}/")[0] == 503 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert get(f"/{SECRET}/")[0] == 200


def closed(connection: socket.socket) -> bool:
    """Return whether the server has answered 503 on a connection without a request."""
    try:
        return connection.recv(20, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"HTTP/1.1 503 Service"
    except BlockingIOError:
        return False


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has file names that are not valid text"
)
def test_a_file_name_that_is_not_valid_text(served: Server, get: Callable[..., Answer]) -> None:
    named = served.file.with_name(os.fsdecode(b"k\xff%.devmod"))
    other = Server(served.file.rename(named), {}, 0, SECRET)
    other.server_close()
    served.file, served.url = named, other.url
    assert file_path(served) == f"/{SECRET}/file/k%FF%25.devmod"
    assert get(file_path(served))[2] == WHOLE


def test_head_and_other_methods(served: Server, get: Callable[..., Answer]) -> None:
    status, headers, body = get(file_path(served), method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(len(WHOLE)), b"")
    assert get("/", method="HEAD")[2] == b""
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert get(f"/{SECRET}/", method=method)[0] == 501


# -- the command


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert _cli.main(["view", "--no-open", *map(str, arguments)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_no_such_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert (
        refused(capsys, tmp_path / "k.devmod")
        == f"devmod: error: {tmp_path}/k.devmod: No such file or directory\n"
    )
    assert refused(capsys, tmp_path) == f"devmod: error: {tmp_path}: Is a directory\n"


def test_a_file_that_is_not_a_bundle(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "k.cl"
    path.write_text("__kernel void k() {}")
    assert refused(capsys, path) == (
        f"devmod: error: {str(path)!r} is not a bundle: it does not begin with the magic bytes of a .devmod file. devmod compile {path} "
        f"-t opencl compiles a source; devmod inspect {path} reads a payload that has a metadata file beside it\n"
    )


def test_a_pipe_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    os.mkfifo(path)
    assert refused(capsys, path) == (
        f"devmod: error: {str(path)!r} is a pipe (FIFO); expected a regular file. For bytes in memory there is devmod.loads\n"
    )


def test_the_commands_of_all_wheels_describe_themselves_as_the_table_of_core_does() -> None:
    from click import Context

    from devmod_workbench._cli import group
    from devmod_workbench._cli._known import KNOWN

    for name, entry in KNOWN.items():
        found = group.get_command(Context(group), name)
        assert found is not None
        assert found.get_short_help_str(limit=200) == entry.help


def test_a_port_in_use(served: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, TREE, "--port", served.server_port) == (
        f"devmod: error: port {served.server_port} of 127.0.0.1 cannot be used: Address already in use. Omit --port to use a free one\n"
    )


@pytest.mark.parametrize("compress", ["none", "zstd"])
@pytest.mark.parametrize("from_stdin", [False, True])
def test_the_command_serves_until_it_is_interrupted(
    tmp_path: Path, from_stdin: bool, compress: str
) -> None:
    """A compressed file is served without compression: browsers cannot decompress it."""
    file = tmp_path / "k.devmod"
    devmod.save(devmod.loads(WHOLE), file, compress=compress)
    assert (file.read_bytes() == WHOLE) == (compress == "none")
    command = interruptible_python(
        "-m", "devmod", "view", "-" if from_stdin else str(file), "--no-open"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary)}
    with file.open("rb") as stdin:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, text=True, env=environment
        )
    name = "stdin.devmod" if from_stdin else "k.devmod"
    assert process.stdout is not None
    guard = threading.Timer(300, process.kill)
    guard.start()
    try:
        found = re.fullmatch(
            rf"(.*) is shown at (http://127\.0\.0\.1:(\d+)/([\w-]{{20,}})/\?file=file/{name})\n",
            process.stdout.readline(),
        )
        assert found is not None
        assert found[1] == ("standard input" if from_stdin else str(file))
        assert process.stdout.readline() == "Ctrl-C ends it.\n"
        connection = http.client.HTTPConnection("127.0.0.1", int(found[3]), timeout=300)
        for part in ("", "page.js", "page.css", "devmod-webgpu/index.js", f"file/{name}"):
            connection.request("GET", f"/{found[4]}/{part}")
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, len(body) > 0) == (200, True), part
        assert body == WHOLE
        connection.close()
    finally:
        guard.cancel()
        process.send_signal(signal.SIGINT)
        code = process.wait(300)
        process.stdout.close()
    assert code == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.row("R46")
def test_under_a_policy_the_bytes_that_were_checked_are_served(
    checker: object,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: list[tuple[bool, bytes]] = []
    file = tmp_path / "k.devmod"
    file.write_bytes(WHOLE)

    def server(each: Path, *_: object) -> MagicMock:
        served.append((each.samefile(file), each.read_bytes()))
        return MagicMock()

    monkeypatch.setattr("devmod_workbench._view.serve.Server", server)
    assert refused(capsys, file) == f"devmod: error: {file} has no signature\n"
    (tmp_path / "k.devmod.sig").write_bytes(b"signed")
    assert _cli.main(["view", str(file), "--no-open"]) == 0
    assert served == [(False, WHOLE)]
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(WHOLE)))
    assert refused(capsys, Path("-")) == "devmod: error: memory has no signature\n"
