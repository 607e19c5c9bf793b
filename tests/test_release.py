"""What `make release` accepts and refuses; the whole task runs for minutes, before a release."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal

ROOT = Path(__file__).resolve().parent.parent


def sdist(folder: Path, files: dict[str, bytes], name: str = "devmod_x-0.1.0") -> Path:
    path = folder / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, data in files.items():
            member = tarfile.TarInfo(f"{name}/{file}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def wheel(folder: Path, files: dict[str, bytes], name: str = "devmod_x-0.1.0-py3-none-any") -> Path:
    path = folder / f"{name}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in files.items():
            archive.writestr(file, data)
    return path


LICENCE = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
IN_WHEEL = {"devmod_x-0.1.0.dist-info/licenses/LICENSE": LICENCE["LICENSE"]}


@pytest.mark.parametrize(
    "name",
    [
        "devmod_x/build/plan.py",
        "devmod_x/testing.py",
        "devmod_x/latest/a.py",
        "devmod_x/templates/both/tests/test_k.py.tmpl",
    ],
)
def test_a_distribution_without_a_fault(tmp_path: Path, name: str) -> None:
    from release import problems_of  # tools/release.py

    assert problems_of(sdist(tmp_path, LICENCE | {f"src/{name}": b""}), "0.1.0") == []
    assert problems_of(wheel(tmp_path, IN_WHEEL | {name: b"/home"}), "0.1.0") == []


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"tests/test_a.py": b""}, "has tests/test_a.py"),
        ({"src/devmod_x/conftest.py": b""}, "has src/devmod_x/conftest.py"),
        (
            {"src/devmod_x/__pycache__/a.cpython-311.pyc": b""},
            "has src/devmod_x/__pycache__/a.cpython-311.pyc",
        ),
        (
            {"src/devmod_x/a.py": b"# made in " + str(ROOT).encode()},
            f"src/devmod_x/a.py names {ROOT}, a path of this machine",
        ),
        (
            {"src/devmod_x/a.py": b"#!/opt/python/3/bin/python"},
            "src/devmod_x/a.py names /opt/python/3, a path of this machine",
        ),
        ({"src/LICENSE/licenses/LICENSE": LICENCE["LICENSE"]}, "has 2 licences, not 1"),
        ({"LICENSE": b"MIT"}, "LICENSE is not the licence of the repository"),
        ({"src/devmod_x/templates/a/k_test.py": b""}, "has src/devmod_x/templates/a/k_test.py"),
        ({".mypy_cache/a.json": b""}, "has .mypy_cache/a.json"),
    ],
    ids=[
        "tests",
        "conftest",
        "bytecode",
        "machine",
        "python",
        "licences",
        "another licence",
        "no template",
        "a cache",
    ],
)
def test_a_distribution_with_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], problem: str
) -> None:
    from release import problems_of

    monkeypatch.setattr(sys, "base_prefix", "/opt/python/3")
    monkeypatch.setenv("HOME", "/home/other/one")  # a clone may be in the home folder
    assert problems_of(sdist(tmp_path, LICENCE | files), "0.1.0") == [problem]


def test_a_source_distribution_is_unpacked(tmp_path: Path) -> None:
    """Also with Python 3.11.3, whose tarfile has no filters."""
    from release import unpack

    unpack(sdist(tmp_path, {"a.txt": b"a"}), tmp_path / "there")
    assert (tmp_path / "there/devmod_x-0.1.0/a.txt").read_bytes() == b"a"


def test_the_size_the_version_and_the_licence_of_a_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import release

    monkeypatch.setattr(release, "LARGEST", 100)
    path = wheel(tmp_path, {"devmod_x/a.py": b""}, "devmod_x-0.2.0-py3-none-any")
    size = path.stat().st_size
    assert release.problems_of(path, "0.1.0") == [
        f"has {size:,} bytes; at most 100 are expected",
        "is not of version 0.1.0",
        "has 0 licences, not 1",
    ]


def test_a_wheel_with_the_code_of_others_and_without_their_notice(tmp_path: Path) -> None:
    from release import problems_of

    strings = b"No error information\0Illegal byte sequence\0"  # of musl
    path = wheel(tmp_path, IN_WHEEL | {"devmod_x/run": strings})
    assert problems_of(path, "0.1.0") == [
        f"devmod_x/run has code of {owner}, whose notice is not in the wheel"
        for owner in ("musl", "Zig")
    ]


def npm_package(folder: Path, package: dict[str, Any], files: dict[str, bytes]) -> Path:
    path = folder / f"devmod-webgpu-{package.get('version')}.tgz"
    files = LICENCE | {
        "package.json": json.dumps(package).encode(),
        "README.md": b"",
        "dist/index.js": b"",
        "types/index.d.ts": b"",
        **files,
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def problems(path: Path, version: str) -> list[str]:
    import npm_package
    import release

    return release.problems_of(path, version) + npm_package.problems_of(path, version)


def test_an_npm_package_without_a_fault(tmp_path: Path) -> None:
    package = {"version": "0.2.0-rc.1", "scripts": {"prepack": "npm run types"}}
    assert problems(npm_package(tmp_path, package, {"types/a.d.ts": b""}), "0.2.0-rc.1") == []


@pytest.mark.parametrize(
    ("package", "files", "problem"),
    [
        ({}, {"src/index.js": b""}, "has src/index.js"),
        ({}, {"types/a.ts": b""}, "has types/a.ts"),
        ({}, {"LICENSE": b"MIT"}, "LICENSE is not the licence of the repository"),
        (
            {},
            {"dist/index.js": b"// of " + str(ROOT).encode()},
            f"dist/index.js names {ROOT}, a path of this machine",
        ),
        ({"dependencies": {"a": "1"}}, {}, "package.json has dependencies"),
        ({"scripts": {"postinstall": "a"}}, {}, "package.json has the script postinstall"),
    ],
)
def test_an_npm_package_with_a_fault(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: dict[str, Any],
    files: dict[str, bytes],
    problem: str,
) -> None:
    monkeypatch.setenv("HOME", "/home/other/one")
    path = npm_package(tmp_path, {"version": "0.1.0", **package}, files)
    assert problems(path, "0.1.0") == [problem]


def test_the_version_and_the_files_of_an_npm_package(tmp_path: Path) -> None:
    path = tmp_path / "devmod-webgpu-0.1.0.tgz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("package/package.json")
        data = b'{"version": "0.1.0-dev.1"}'
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    assert problems(path, "0.1.0") == [
        "has 0 licences, not 1",
        "lacks LICENSE",
        "lacks README.md",
        "lacks dist/index.js",
        "lacks types/index.d.ts",
        "package.json has the version 0.1.0-dev.1, not 0.1.0",
    ]


@pytest.mark.parametrize(
    ("repository", "version", "tag"),
    [("", "0.2.0", "latest"), ("https://a/b", "0.2.0-rc.1", "next")],
)
def test_what_is_published_on_npm_names_its_repository_and_its_tag(
    tmp_path: Path, repository: str, version: str, tag: str
) -> None:
    """npm refuses a version before a release without a tag, and compares the repository with that
    of the workflow.
    """
    from npm_package import prepare

    (tmp_path / "package.json").write_text(json.dumps({"version": version}))
    prepare(tmp_path, repository)
    package = json.loads((tmp_path / "package.json").read_text())
    assert package["publishConfig"] == {"access": "public", "provenance": True, "tag": tag}
    address = package.get("repository", {})
    assert address == (
        {"type": "git", "url": "git+https://a/b.git", "directory": "extras/browser/js"}
        if repository
        else {}
    )


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("0.2.0", "0.2.0"),
        ("0.2.0rc1", "0.2.0-rc.1"),
        ("1.0.0a2", "1.0.0-alpha.2"),
        ("1.0.0b3", "1.0.0-beta.3"),
        ("0.2.0.dev12", "0.2.0-dev.12"),
    ],
)
def test_a_version_as_npm_writes_it(version: str, number: str) -> None:
    from npm_package import npm_version

    assert npm_version(version) == number


#: A tree that names version 0.1.0 in each way, and others that begin alike.
BEFORE = {
    "pyproject.toml": 'version = "0.1.0"\ndependencies = ["devmod-core>=0.1.0", "devmod>=0.1.0.post1"]\n',
    "a.py": '__version__ = "0.1.0"\nNEXT = "devmod==0.1.01", "devmod==0.1.0rc1"\n',
    "b.md": "devmod 0.1.0. pip install devmod-cuda==0.1.0, not devmod==0.1.0.post1 or tvm==0.1.0\n",
    "package.json": '{"version": "0.1.0", "other": "0.1.0"}\n',
    "lock.json": '{"version": "0.1.0-dev.1"}\n',
    "tools/benchmarks/RESULTS.md": "devmod 0.1.0\n",
}
AFTER = BEFORE | {
    "pyproject.toml": 'version = "0.2.0rc1"\ndependencies = ["devmod-core>=0.2.0rc1", "devmod>=0.1.0.post1"]\n',
    "a.py": '__version__ = "0.2.0rc1"\nNEXT = "devmod==0.1.01", "devmod==0.1.0rc1"\n',
    "b.md": "devmod 0.2.0rc1. pip install devmod-cuda==0.2.0rc1, not devmod==0.1.0.post1 or tvm==0.1.0\n",
    "package.json": '{"version": "0.2.0-rc.1", "other": "0.1.0"}\n',
}


def test_a_new_version_replaces_the_old_one_and_no_version_that_begins_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import release

    for name, text in BEFORE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    release.set_version("0.1.0", "0.2.0rc1")
    assert {name: (tmp_path / name).read_text() for name in BEFORE} == AFTER


def test_a_version_that_npm_cannot_have_is_not_written() -> None:
    import release
    from environments import InstallError

    assert refusal(InstallError, release.set_version, "0.1.0", "0.1.0.post1") == (
        "npm has no version 0.1.0.post1; expected one such as 0.2.0, 0.2.0rc1 or 0.2.0.dev1"
    )


def test_the_released_distributions_are_all_but_the_examples() -> None:
    from release import folders
    from wheels import TVM, distributions

    examples = {path for path in distributions() if path.is_relative_to(ROOT / "examples")}
    assert set(folders()) == set(distributions()) - examples
    assert TVM not in folders()  # it is built where TVM is installed


def test_a_readme_on_an_index_has_the_addresses_of_its_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import release

    monkeypatch.setattr(release, "REPOSITORY", "https://host/me/devmod")
    text = (
        "[a](../../docs/a.md#part) ![b](images/b.svg) [c](https://c.org/x) [d](#d) [e](../LICENSE)"
    )
    assert release.with_links(text, "plugins/devmod-x", "0.1.0") == (
        "[a](https://host/me/devmod/blob/v0.1.0/docs/a.md#part) ![b](https://host/me/devmod/raw/v0.1.0/plugins/devmod-x/images/b.svg) "
        "[c](https://c.org/x) [d](#d) [e](https://host/me/devmod/blob/v0.1.0/plugins/LICENSE)"
    )


def test_each_distribution_has_the_addresses_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also devmod-tvm, which another machine builds of the tree."""
    import release
    from wheels import TVM

    monkeypatch.setattr(release, "REPOSITORY", "https://host/me/devmod")
    monkeypatch.setattr(release, "TREE", tmp_path)
    release.copy_tree("0.1.0")
    for folder in (*release.folders(), TVM):
        text = (tmp_path / folder.relative_to(ROOT) / "pyproject.toml").read_text()
        assert tomllib.loads(text)["project"]["urls"] == {
            "Source": "https://host/me/devmod",
            "Documentation": "https://host/me/devmod/blob/v0.1.0/docs/index.md",
            "Changelog": "https://host/me/devmod/blob/v0.1.0/CHANGELOG.md",
        }


def test_a_wheel_without_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import release

    monkeypatch.setattr(release, "REPOSITORY", "https://host/me/devmod")
    lines = [f"Project-URL: {name}, {each}\n" for name, each in release.addresses("0.1.0").items()]
    name = "devmod_x-0.1.0.dist-info/METADATA"
    assert (
        release.problems_of(wheel(tmp_path, IN_WHEEL | {name: "".join(lines).encode()}), "0.1.0")
        == []
    )
    path = wheel(tmp_path, IN_WHEEL | {name: "".join(lines[1:]).encode()})
    assert release.problems_of(path, "0.1.0") == [f"lacks {lines[0].strip()}"]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit, which is that of the release."""
    import release

    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "REPOSITORY", "https://host/me/devmod")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@b.example")
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "Begin")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def test_the_release_makes_its_tag(clone: Path) -> None:
    import release

    assert release.tag_commit("v0.1.0") == ""
    shown = git(clone, "for-each-ref", "--format=%(refname) %(objecttype) %(subject)", "refs/tags")
    assert shown == "refs/tags/v0.1.0 tag devmod 0.1.0\n"
    assert release.tag_commit("v0.1.0") == ""  # as in the workflow, which the tag starts

    git(clone, "commit", "-q", "--allow-empty", "-m", "Go on")
    assert release.tag_commit("v0.1.0") == "another commit has it"
    assert git(clone, "tag") == "v0.1.0\n"


def test_nothing_is_tagged_that_is_no_release(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import release

    assert release.tag_commit("v0.2.0.dev1").startswith("it is a development version. Run ")
    (clone / "a.txt").write_text("a")
    assert release.tag_commit("v0.2.0") == "the tree has changes that are not committed"
    monkeypatch.setattr(release, "REPOSITORY", "")
    assert release.tag_commit("v0.2.0") == (
        "the distributions have no addresses. Run make release REPOSITORY=https://…"
    )
    assert git(clone, "tag") == ""
