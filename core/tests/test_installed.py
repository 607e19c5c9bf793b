"""`devmod.installed`: the bundles of installed packages (the group ``devmod.bundles``)."""

from __future__ import annotations

import json
import sys
import types
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from distributions import install, run, wheel
from each_case import raised, refusal
from stored import Raw

import devmod
from devmod_workbench._cli import main

FIRST = devmod.dumps(Raw("first", b"1", functions=("f",)))
SECOND = devmod.dumps(Raw("second", b"2", functions=("f", "g")))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sys.path, whose distributions are seen."""
    monkeypatch.delenv("DEVMOD_PLUGINS_ALLOW")
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def kernels(
    folder: Path, name: str, package: str, *, value: str = "", init: str = "", **files: bytes
) -> Path:
    """Install a distribution with a package of bundles."""
    path = folder.joinpath(*package.split("."))
    path.mkdir(parents=True)
    (path / "__init__.py").write_text(init)
    for stem, data in files.items():
        (path / f"{stem}.devmod").write_bytes(data)
    return install(
        folder,
        f"{package.replace('.', '-').replace('_', '-')}-dist",
        groups={"devmod.bundles": {name: value or package}},
    )


def test_one_file(folder: Path) -> None:
    kernels(folder, "one", "one_file", k=FIRST)
    module = devmod.installed("one")
    assert (module.kind, module.save_to_bytes()) == ("first", b"1")


INTERRUPTED = """
import sys
for name in [*sys.modules]:
    if name.partition(".")[0] in ("pathlib", "zipfile") or name.startswith("importlib.resources"):
        del sys.modules[name]
def interrupt(frame, event, argument):
    if frame.f_code.co_filename.endswith(("pathlib/_local.py", "pathlib/_os.py", "pathlib.py")):
        raise KeyboardInterrupt
sys.settrace(interrupt)
try:
    import pathlib
except KeyboardInterrupt:
    print("interrupted")
sys.settrace(None)
import devmod
print(*devmod.installed("one"))
"""


def test_after_an_interrupt_of_the_first_import_of_pathlib(folder: Path, tmp_path: Path) -> None:
    """Python 3.13 has pathlib as a package, and cannot import it again."""
    kernels(folder, "one", "one_file", k=FIRST)
    out, errors = run(INTERRUPTED, [folder], tmp_path / "cache")
    assert (out, errors) == ("interrupted\nf\n", "")


def test_several_files_are_candidates(folder: Path) -> None:
    kernels(folder, "several", "several_files", b=SECOND, a=FIRST)
    (folder / "several_files" / "notes.txt").touch()
    (folder / "several_files" / "folder.devmod").mkdir()
    module = devmod.installed("several", prefer=["second"])
    assert module.kind == "bundle"
    assert [each.kind for each in module.imports] == ["first", "second"]
    assert list(module) == ["f", "g"]
    text = refusal(devmod.NotRegisteredError, module.get_function, "f")
    assert text.index("second") < text.index("first")


def test_a_package_in_a_package(folder: Path) -> None:
    kernels(folder, "inner", "outer_package.inner", k=FIRST)
    assert devmod.installed("inner").kind == "first"


def test_a_package_may_open_its_own_bundle(folder: Path) -> None:
    kernels(
        folder,
        "own",
        "own_bundle",
        init="import devmod\nMODULE = devmod.installed('own')\n",
        k=FIRST,
    )
    import own_bundle  # type: ignore[import-not-found]

    assert own_bundle.MODULE.kind == "first"


def test_a_package_in_a_zip_file(tmp_path: Path) -> None:
    path = wheel(tmp_path, "zipped", "1.0", {"devmod.bundles": {"zipped": "zipped_package"}}, {})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("zipped_package/__init__.py", "")
        archive.writestr("zipped_package/k.devmod", FIRST)
    out, _ = run(
        "import devmod\nprint(devmod.installed('zipped').save_to_bytes())",
        [path],
        tmp_path / "cache",
    )
    assert out == "b'1'\n"


@pytest.mark.row("R10")
def test_a_registered_package(folder: Path, register: object) -> None:
    kernels(folder, "entry", "registered_package", k=FIRST)
    import registered_package  # type: ignore[import-not-found]

    register("devmod.bundles", "mine", registered_package)  # type: ignore[operator]
    assert devmod.installed("mine").kind == "first"
    assert (
        refusal(
            devmod.PluginError,
            devmod.register,
            "devmod.bundles",
            "other",
            types.ModuleType("plain"),
        )
        == "devmod.bundles.other cannot be registered: the object is not a package with *.devmod files"
    )


# -- errors


def test_a_miss_lists_the_names(folder: Path) -> None:
    kernels(folder, "blur", "blur_kernels", k=FIRST)
    kernels(folder, "sum", "sum_kernels", k=FIRST)
    error = raised(devmod.NotRegisteredError, devmod.installed, "blurr")
    assert str(error) == (
        "devmod.bundles.blurr is not registered: no installed distribution provides this bundle. The bundles here: blur, sum. "
        "Did you mean 'blur'?"
    )
    assert error.key == "devmod.bundles.blurr"


def test_a_miss_without_any_bundle() -> None:
    assert refusal(devmod.NotRegisteredError, devmod.installed, "blur") == (
        "devmod.bundles.blur is not registered: no installed distribution provides this bundle. The bundles here: none. Install the "
        'package that has it. One of your own names it in its pyproject.toml, under [project.entry-points."devmod.bundles"], and is '
        "then installed again"
    )


def test_an_excluded_distribution(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels(folder, "denied", "denied_kernels", k=FIRST)
    monkeypatch.setenv("DEVMOD_PLUGINS_DENY", "denied-kernels-dist")
    assert refusal(devmod.NotRegisteredError, devmod.installed, "denied") == (
        "devmod.bundles.denied is not registered: denied-kernels-dist 1.0 provides it, and the environment variable DEVMOD_PLUGINS_DENY "
        "excludes it. To use it, remove denied-kernels-dist from DEVMOD_PLUGINS_DENY"
    )


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("empty_package", "empty_package is not a package with *.devmod files"),
        ("empty_package:k", "its entry is 'empty_package:k', which is not of the form 'package'"),
        ("empty_package.module", "empty_package.module is not a package with *.devmod files"),
        (
            "no_such_package",
            "importing no_such_package failed (ModuleNotFoundError: No module named 'no_such_package')",
        ),
        ("", "its entry is '', which is not of the form 'package'"),
    ],
)
def test_a_broken_entry(folder: Path, value: str, reason: str) -> None:
    kernels(folder, "broken", "empty_package")
    (folder / "empty_package" / "module.py").touch()
    text = folder / "empty_package_dist-1.0.dist-info" / "entry_points.txt"
    text.write_text(text.read_text().replace("= empty_package", f"= {value}"))
    for name in ("empty_package", "empty_package.module"):
        sys.modules.pop(name, None)
    assert refusal(devmod.PluginError, devmod.installed, "broken") == (
        f"devmod.bundles.broken is broken: empty-package-dist 1.0: {reason}. Install it again (pip install --force-reinstall "
        "empty-package-dist==1.0), or report it to its publisher"
    )


@pytest.mark.row("R9")
def test_two_distributions_with_one_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels(folder, "both", "kernels_of_a", k=FIRST)
    kernels(folder, "both", "kernels_of_b", k=SECOND)
    with pytest.raises(devmod.ConflictError):
        devmod.installed("both")
    monkeypatch.setenv("DEVMOD_PLUGINS_CHOOSE", "devmod.bundles.both=kernels-of-b-dist")
    assert devmod.installed("both").kind == "second"


def test_an_invalid_name() -> None:
    assert (
        refusal(devmod.FormatError, devmod.installed, "my-kernels")
        == "a bundle's name is of the form [a-z][a-z0-9_]{0,31}; got U+002D at character 3"
    )


def test_a_damaged_file_is_named(folder: Path) -> None:
    kernels(folder, "damaged", "damaged_kernels", k=FIRST[:-1])
    with pytest.raises(devmod.FormatError, match=r"damaged_kernels/k\.devmod"):
        devmod.installed("damaged")


def data_files(package: str, includes: Sequence[str] = ("*",)) -> list[tuple[str, str]]:
    """Return the files of a package as PyInstaller's `collect_data_files` does: all except
    modules.
    """
    spec = find_spec(package)
    assert spec is not None
    folders = map(Path, spec.submodule_search_locations or ())
    files = [
        file
        for each in folders
        for file in each.rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    ]
    return [(str(file), package) for file in files if any(map(file.match, includes))]


def test_the_hook_of_pyinstaller_collects_the_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions of PyInstaller are replaced: two return what they are called for, and one
    returns the files.
    """
    from devmod._pyinstaller import collect

    hooks = types.ModuleType("PyInstaller.utils.hooks")
    hooks.copy_metadata = lambda name: [(name, "metadata")]  # type: ignore[attr-defined]
    hooks.collect_submodules = lambda name, filter=None: [name]  # type: ignore[attr-defined]
    hooks.collect_data_files = data_files  # type: ignore[attr-defined]
    for name, module in (
        ("PyInstaller", hooks),
        ("PyInstaller.utils", hooks),
        ("PyInstaller.utils.hooks", hooks),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    kernels(folder, "frozen", "frozen_kernels", k=FIRST)
    data, modules = collect()
    assert {
        (str(folder / "frozen_kernels" / "k.devmod"), "frozen_kernels"),
        ("frozen-kernels-dist", "metadata"),
    } <= set(data)
    assert {"frozen_kernels", "devmod_remote"} <= set(modules)
    # A frozen program compiles with them: CUDA's `#include <cstdint>` is a file without a suffix.
    files = data_files("devmod_targets")
    assert {"cstdint", "skeleton.toml", "schema_frame.json"} <= {
        Path(file).name for file, _ in files
    }
    assert set(files) <= set(data)


def test_the_command_plugins_lists_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels(folder, "good", "good_kernels", k=FIRST)
    kernels(folder, "empty", "kernels_without_files")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert main(["plugins", "--json"]) == 0
    rows = {
        row["name"]: row
        for row in json.loads(capsys.readouterr().out)
        if row["group"] == "devmod.bundles"
    }
    assert [rows[name]["state"] for name in ("good", "empty")] == ["ok", "broken"]
    assert (rows["good"]["distribution"], rows["good"]["object"]) == (
        "good-kernels-dist",
        "good_kernels",
    )
    assert "kernels_without_files is not a package with *.devmod files" in rows["empty"]["problem"]
