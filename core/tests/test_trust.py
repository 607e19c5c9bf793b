"""What core does under a policy: it asks devmod-trust about each file before it hands out anything
of it (R46).

A plugin of that name is devmod-trust here, and keeps what it is asked. extras/trust/tests has the
real one.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import types
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from checker import checker, policy, refusal
from distributions import install, run
from stored import Raw
from support import sample

import devmod
from devmod import interop
from devmod.backend import create_own, find_spec, load_stored, loads_own, policies, read_payload
from devmod.errors import TrustError
from devmod_workbench._cli import main

pytestmark = pytest.mark.row("R46")

FILE = devmod.dumps(Raw("first", b"1", functions=("f",)))
HEAD = FILE[: 48 + int.from_bytes(FILE[12:16], "little")]
__all__ = ["checker", "policy"]

MISSING = "is refused: DEVMOD_TRUST names a policy, and "


# -- what is asked, and when


def test_a_file_is_asked_about_once_when_it_is_opened(
    checker: Any, policy: str, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    Path("store/k").write_bytes(FILE)
    Path("k.devmod").symlink_to("store/k")
    assert refusal(devmod.load, "k.devmod") == f"{tmp_path}/k.devmod has no signature"
    assert checker.asked == [(f"{tmp_path}/k.devmod", "", HEAD, len(FILE), None, (policy,))]
    Path("k.devmod.sig").write_bytes(b"signed")
    module = devmod.load("k.devmod")
    assert checker.asked[1:] == [
        (f"{tmp_path}/k.devmod", "", HEAD, len(FILE), b"signed", (policy,))
    ]
    with pytest.raises(devmod.NotRegisteredError):
        module["f"]
    assert (len(checker.asked), module.save_to_bytes()) == (2, b"1")
    assert devmod.load("k.devmod", signature=b"signed").kind == "first"
    assert refusal(devmod.load, "k.devmod", signature=b"another")
    Path("k.devmod.sig").write_bytes(bytes(2 << 20))
    assert refusal(devmod.load, "k.devmod")
    assert len(checker.asked[-1][4]) == (1 << 20) + 1


def test_bytes_and_file_objects_are_memory(checker: Any) -> None:
    assert refusal(devmod.loads, FILE) == "memory has no signature"
    assert refusal(lambda: devmod.load(io.BytesIO(FILE))) == "memory has no signature"
    assert devmod.loads(FILE, signature=b"signed").kind == "first"
    assert devmod.load(io.BytesIO(FILE), signature=b"signed").save_to_bytes() == b"1"
    assert [each[0] for each in checker.asked] == ["memory"] * 4
    assert devmod.loads(loads_own(FILE) and FILE, signature=b"signed")
    assert len(checker.asked) == 5  # no policy is asked about a program's own results


def test_a_resource_has_its_signature_beside_it(checker: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile("kernels.zip", "w") as archive:
        archive.writestr("a/k.devmod", FILE)
        archive.writestr("a/s.devmod", FILE)
        archive.writestr("a/s.devmod.sig", b"signed")
    with zipfile.ZipFile("kernels.zip") as archive:
        unsigned, signed = (zipfile.Path(archive, f"a/{name}.devmod") for name in "ks")
        assert (
            refusal(devmod.load, unsigned) == f"{tmp_path}/kernels.zip/a/k.devmod has no signature"
        )
        assert devmod.load(signed).save_to_bytes() == b"1"
        gc.collect()  # closes the refused resource before its archive


def test_the_file_of_a_package_names_the_package(
    checker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "acme_kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "k.devmod").write_bytes(FILE)
    install(tmp_path / "site", "acme-kernels", groups={"devmod.bundles": {"acme": "acme_kernels"}})
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-trust,acme-kernels")
    assert refusal(devmod.installed, "acme")
    assert checker.asked[-1][:2] == (str(package / "k.devmod"), "acme_kernels")


def test_the_commands_refuse_a_file_that_no_policy_takes(
    checker: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("k.devmod").write_bytes(FILE)
    for arguments in (
        ["inspect", "k.devmod"],
        ["inspect", "--verify", "k.devmod"],
        ["inspect", Path("k.devmod").absolute().as_uri()],
    ):
        assert main(arguments) == 1
        output = capsys.readouterr()
        assert (output.out, "has no signature" in output.err) == ("", True)


def test_payloads_without_an_index_are_asked_about(
    checker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code, fmt, fmap), spec = sample("opencl"), find_spec("opencl")
    assert spec is not None
    Path("k.cl").write_bytes(code)
    blob = interop.tvm.dump_imports(create_own("opencl", code, fmt, {"add_kernel": fmap["add"]}))
    calls = {
        "create('opencl', …)": lambda: devmod.create("opencl", code, fmt, fmap),
        "create_with_fallback('opencl', …)": (
            lambda: devmod.create_with_fallback("opencl", code, fmt, fmap)
        ),
        "load_from_bytes('const_loader', data)": (
            lambda: devmod.load_from_bytes("const_loader", b"\x80\x80")
        ),
        "load_module_bytes('opencl', data)": (lambda: interop.tvm.load_module_bytes("opencl", b"")),
        "the imports blob": lambda: interop.tvm.load_imports(blob),
    }
    files = (
        lambda: interop.tvm.load_library("k.cl"),
        lambda: read_payload(spec, "k.cl", "cl"),
    )
    assert interop.tvm.load_imports(blob).functions
    monkeypatch.setenv("REFUSE_RAW", "1")
    for name, call in calls.items():
        assert refusal(call) == f"{name}: memory has no signature"
        assert checker.asked[-1][:4] == ("memory", "", b"", -1)
    for call in files:
        assert refusal(call) == f"{tmp_path}/k.cl has no signature"
        assert checker.asked[-1][:4] == (f"{tmp_path}/k.cl", "", b"", -1)
    count = len(checker.asked)
    create_own("opencl", code, fmt, fmap)
    load_stored("const_loader", b"\x80\x80")
    kernels = devmod.compile(
        "__kernel void f(__global float *x) { x[get_global_id(0)] = 1; }", "opencl", block=1
    )
    devmod.program(
        "p", kernels, outputs=["x: float32[n]"], inputs=["n: int32"], steps="f(x=x, threads=n)"
    )
    assert len(checker.asked) == count


# -- a checker that is missing, excluded or broken


def test_without_the_checker_everything_is_refused(
    policy: str, register: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("k.devmod").write_bytes(FILE)
    asked = []

    def devmod_verify(place: str) -> None:
        asked.append(place)

    devmod_verify.devmod_impl = dict.fromkeys(  # type: ignore[attr-defined]
        ("wrapper", "hookwrapper", "optionalhook", "tryfirst", "trylast", "specname")
    )
    missing = f"{MISSING}devmod-trust, which checks files, is not installed. To add it: pip install devmod-trust"
    assert refusal(devmod.load, "k.devmod") == f"'k.devmod' {missing}"
    assert refusal(devmod.loads, FILE) == f"the bundle in memory {missing}"
    assert refusal(devmod.create, "opencl", b"", "cl", {}) == f"create('opencl', …) {missing}"
    # Another plugin is asked too, and does not stand for devmod-trust.
    register("devmod.hooks", "devmod_verify", types.SimpleNamespace(devmod_verify=devmod_verify))
    assert refusal(devmod.load, "k.devmod") == f"'k.devmod' {missing}"
    assert asked == [str(Path("k.devmod").absolute())]
    monkeypatch.setenv("DEVMOD_TRUST", " ")
    assert devmod.load("k.devmod").kind == "first"


@pytest.mark.parametrize(
    ("variable", "value", "todo"),
    [
        ("DEVMOD_PLUGINS_DENY", "devmod-trust", "remove devmod-trust from DEVMOD_PLUGINS_DENY"),
        ("DEVMOD_PLUGINS_ALLOW", "devmod-opencl", "add devmod-trust to DEVMOD_PLUGINS_ALLOW"),
    ],
)
def test_an_excluded_checker_refuses_everything(
    checker: Any, monkeypatch: Any, variable: str, value: str, todo: str
) -> None:
    monkeypatch.setenv(variable, value)
    text = f"the bundle in memory {MISSING}{variable} excludes devmod-trust, which checks files: {todo}"
    assert refusal(devmod.loads, FILE, signature=b"signed") == text
    assert not checker.asked


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        ("1 / 0\n", devmod.PluginError, "devmod.hooks.devmod_verify"),
        ("def devmod_verify(place): pass\n", devmod.PluginError, "has no devmod_verify marked"),
        (
            "import pluggy\n@pluggy.HookimplMarker('devmod')\ndef devmod_verify(place): raise KeyError(place)\n",
            TrustError,
            "'k.devmod' is refused: the check by devmod-trust 1.0 failed: KeyError: ",
        ),
    ],
)
def test_a_broken_checker_refuses_everything(
    tmp_path: Path,
    policy: str,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    error: type[devmod.DevmodError],
    text: str,
) -> None:
    Path("k.devmod").write_bytes(FILE)
    install(
        tmp_path / "site",
        "devmod-trust",
        groups={"devmod.hooks": {"devmod_verify": "the_broken"}},
        modules={"the_broken": code},
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-trust")
    try:
        for _ in range(2):
            with pytest.raises(error) as caught:
                devmod.load("k.devmod")
            assert text in str(caught.value)
    finally:
        sys.modules.pop("the_broken", None)


# -- the policies


def test_trust_adds_a_policy_for_this_process_and_those_that_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVMOD_TRUST", "")
    Path("a.toml").touch()
    Path("b.toml").touch()
    devmod.trust("a.toml")
    devmod.trust(Path("b.toml"))
    assert os.environ["DEVMOD_TRUST"] == f"{tmp_path / 'a.toml'}{os.pathsep}{tmp_path / 'b.toml'}"
    Path("k.devmod").write_bytes(FILE)
    out, _ = run(
        "import devmod\ntry:\n    devmod.load('k.devmod')\nexcept devmod.TrustError as error:\n    print(error.distribution)",
        [],
        tmp_path / "cache",
        {"DEVMOD_TRUST": os.environ["DEVMOD_TRUST"]},
        tmp_path,
    )
    assert out == "devmod-trust\n"
    known = os.environ["DEVMOD_TRUST"]
    with pytest.raises(FileNotFoundError):
        devmod.trust("c.toml")
    Path("d:e.toml").touch()
    with pytest.raises(devmod.ArgumentError) as caught:
        devmod.trust("d:e.toml")
    assert (
        str(caught.value)
        == f"trust(policy): the path {str(tmp_path / 'd:e.toml')!r} has ':', which separates paths in DEVMOD_TRUST"
    )
    assert os.environ["DEVMOD_TRUST"] == known


def test_threads_that_add_policies_at_once_lose_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"p{number}.toml" for number in range(160)]
    for name in names:
        Path(name).touch()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):  # without a lock, a policy is lost in one of seven
            monkeypatch.setenv("DEVMOD_TRUST", "")
            with ThreadPoolExecutor(8) as threads:
                [
                    *threads.map(
                        lambda first: [devmod.trust(name) for name in names[first::8]], range(8)
                    )
                ]
            assert sorted(policies()) == sorted(str(tmp_path / name) for name in names)
    finally:
        sys.setswitchinterval(interval)


def test_a_fork_adds_a_policy_while_a_thread_of_its_parent_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = """
import os, signal, devmod
from threading import Event, Thread, current_thread
from devmod.backend import policies
held, forked = Event(), Event()
class Slow(type(os.environ)):
    def __setitem__(self, name, value):
        if current_thread() is thread:
            held.set(), forked.wait()
        super().__setitem__(name, value)
os.environ.__class__ = Slow
thread = Thread(target=devmod.trust, args=("a.toml",))
thread.start(), held.wait()
child = os.fork()
if not child:
    signal.alarm(120), devmod.trust("b.toml"), os._exit(len(policies()))
forked.set(), thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(policies()))
"""
    for name in ("a.toml", "b.toml"):
        Path(name).touch()
    assert run(code, [], tmp_path / "cache", {"DEVMOD_TRUST": ""}, tmp_path)[0] == "1 1\n"


@pytest.mark.parametrize("name", ["t.toml ", " t.toml", "t.toml\n"])
def test_white_space_is_part_of_the_name_of_a_policy(
    name: str, checker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (name, "t.toml"):
        Path(each).touch()
    for before in ("", "  "):
        monkeypatch.setenv("DEVMOD_TRUST", before)
        devmod.loads(FILE)
        devmod.trust(name)
        assert refusal(devmod.loads, FILE)
        assert checker.asked[-1][-1] == (str(tmp_path / name),)


def test_an_empty_path_among_the_policies_stays(
    checker: Any, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_TRUST", f"{policy}{os.pathsep}")
    devmod.loads(FILE, signature=b"signed")
    assert checker.asked[-1][-1] == (policy, "")


# -- the bytes


def test_a_file_that_changes_in_place_is_used_as_it_was_hashed(checker: Any) -> None:
    path = Path("k.devmod")
    module = Raw("first", b"old payload", functions=("f",))
    module.__dict__["_devmod_origin"] = devmod.Origin("opencl", sources={"old": "0" * 64})
    devmod.save(module, path)
    Path("k.devmod.sig").write_bytes(b"signed")
    stored = devmod.load(path)
    data = path.read_bytes()
    stored.verify()  # type: ignore[attr-defined]
    with path.open("r+b") as file:
        file.write(bytes(48) + data[48:].replace(b"old", b"new"))
    assert stored.save_to_bytes() == b"old payload"
    assert stored.origin is not None
    assert [*stored.origin.sources] == ["old"]
    assert devmod.dumps(stored) == data


@pytest.mark.row("R41")
def test_without_a_policy_nothing_is_read_or_asked_when_a_file_is_opened(
    checker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_TRUST", "")
    monkeypatch.setenv("REFUSE_RAW", "1")
    Path("k.devmod").write_bytes(FILE)
    module = devmod.load("k.devmod")
    devmod.loads(FILE)
    create_own("opencl", *sample("opencl"))
    devmod.create_with_fallback("opencl", *sample("opencl"))
    assert not checker.asked
    # The hook is asked before the first use, whoever registers it.
    with pytest.raises(devmod.NotRegisteredError):
        module["f"]
    assert checker.asked == [("k.devmod", "", HEAD, len(FILE), None, ())]


@pytest.mark.parametrize("is_under_policy", [False, True])
@pytest.mark.parametrize("signature", ["{}", bytearray(b"{}"), Path("k.devmod.sig")])
def test_a_signature_that_is_not_bytes_is_refused(
    checker: Any, monkeypatch: pytest.MonkeyPatch, signature: Any, is_under_policy: bool
) -> None:
    if not is_under_policy:
        monkeypatch.delenv("DEVMOD_TRUST")
    Path("k.devmod").write_bytes(FILE)
    for load, source in (
        (devmod.load, "k.devmod"),
        (devmod.load, Path("k.devmod").absolute().as_uri()),
        (devmod.load, io.BytesIO(FILE)),
        (devmod.loads, FILE),
    ):
        with pytest.raises(devmod.ArgumentError) as error:
            load(source, signature=signature)
        assert str(error.value) == (
            "signature is the content of the file with the signatures, as bytes, not "
            f"{type(signature).__name__}"
        )
    assert checker.asked == []


# -- what commands say about signatures


def test_inspect_shows_the_keys_of_signatures_as_a_strangers_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a k.devmod"
    path.write_bytes(FILE)
    signatures = tmp_path / "a k.devmod.sig"

    def shown(content: bytes) -> tuple[object, str]:
        signatures.write_bytes(content)
        main(["inspect", str(path), "--json"])
        keys = json.loads(capsys.readouterr().out)["claimed_keys"]
        main(["inspect", str(path)])
        return keys, next(
            line for line in capsys.readouterr().out.splitlines() if line.startswith("Keys of")
        )

    end = f". To check them: devmod check '{path}'"
    start = "Keys of the signatures beside it, not checked: "
    good = json.dumps(
        {"signatures": [{"keyid": "acme"}, {"keyid": "\x1b[31m" + 100 * "x"}]}
    ).encode()
    assert shown(good) == (
        ["acme", "\x1b[31m" + 75 * "x"],
        f"{start}'acme', '\\x1b[31m{75 * 'x'}'{end}",
    )
    for bad in (
        b"",
        b"[]",
        b"{}",
        b'{"signatures": [1]}',
        b"[" * 100_000,
        b"\xff",
        b'{"signatures": 1}',
    ):
        assert shown(bad) == ([], f"{start}none that can be read{end}")
    signatures.unlink()
    main(["inspect", str(path), "--json"])
    assert "claimed_keys" not in json.loads(capsys.readouterr().out)
