"""What `make release` accepts and refuses; the whole task runs for minutes, before a release."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

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
    assert problems_of(sdist(tmp_path, LICENCE | files), "0.1.0") == [problem]


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
