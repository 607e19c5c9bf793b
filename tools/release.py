"""Build every distribution as an index gets it, check each, install them from a folder into empty
environments, tag the commit, and print what to type.

    python tools/release.py             `make release` runs it
    python tools/release.py --set X     write version X wherever the tree names its version, and end
    python tools/release.py --tree      write the tree that the distributions are built of, and end

REPOSITORY is the address of the repository: each distribution gets it as its `urls`, and the links
of the READMEs lead there. Without it, nothing is tagged. Publishing is a person's act. What is
built is in build/release/dist, for Python's index, and in build/release/npm, for npm's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import binaries
import npm_package
import pythons
from environments import ROOT, InstallError, find_uv, install, make_venv, python_of, uv_settings
from setup import projects
from wheels import TVM, WITH_TVM, build_into

OUT = ROOT / "build" / "release"
DIST = OUT / "dist"
NPM = OUT / "npm"
TREE = OUT / "tree"
REPOSITORY = os.environ.get("REPOSITORY", "").rstrip("/")
#: A link to a file of the repository, or a picture of it.
_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
#: An index takes 100 MB; a wheel of devmod that has more than this has a file that nobody wanted.
LARGEST = 4_000_000
#: Files that a distribution must not have.
_FOREIGN = re.compile(
    r"(^|/)(tests?|__pycache__|\.[^/]+)/|^build/|\.(pyc|orig|rej|log)$|(^|/)(conftest|test_[^/]*|[^/]*_test)\.py$"
)
#: Templates of commands have tests for their user.
_TEMPLATE = re.compile(r"/templates/.*\.tmpl$")


def folders() -> list[Path]:
    """Return the folders of the distributions that are released: the examples stay in the
    repository.
    """
    return [*projects(), ROOT]


def version_of(folder: Path) -> str:
    """Return the version of a distribution."""
    return str(
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    )


def set_version(old: str, new: str) -> None:
    """Write a version wherever the tree names its own: in the projects, in requirements, in
    `__version__`, in pages and tests.
    """
    npm = [npm_package.npm_version(each) for each in (old, new)]
    places = ["*.toml", "*.py", "*.md", "*.json", ":!tools/benchmarks/RESULTS.md"]
    found = ["git", "grep", "-lIF", "-e", old, "-e", npm[0], "--", *places]
    for name in subprocess.run(
        found, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines():
        before, after = npm if name.endswith(".json") else (old, new)
        lead = r'devmod(?:-[a-z]+)?(?:\[[a-z,-]+\])?(?:[=>]=| )|version(?:__)? = "|"version": "'
        text = (ROOT / name).read_text(encoding="utf-8")
        changed = re.sub(rf"({lead}){re.escape(before)}(?!\w|[.+-]\w)", rf"\g<1>{after}", text)
        if changed != text:
            (ROOT / name).write_text(changed, encoding="utf-8")
            print(f"  {name}")


def copy_tree(version: str) -> list[Path]:
    """Copy the files of the repository, name it in them, and return the folders of the
    distributions there.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        target = TREE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    found = [TREE / each.relative_to(ROOT) for each in folders()]
    tvm = TREE / TVM.relative_to(ROOT)
    if REPOSITORY:
        for folder in (*found, tvm):
            name_repository(folder, version)
    if python_of(WITH_TVM).exists():
        found.append(tvm)
    return found


def name_repository(folder: Path, version: str) -> None:
    """Write the address of the repository into the metadata of a distribution of the copy, and
    into its README.
    """
    readme = folder / "README.md"
    place = folder.relative_to(TREE).as_posix()
    text = with_links(readme.read_text(encoding="utf-8"), place, version)
    readme.write_text(text, encoding="utf-8")
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as project:
        project.write("\n[project.urls]\n")
        for name, address in addresses(version).items():
            project.write(f'{name} = "{address}"\n')


def addresses(version: str) -> dict[str, str]:
    """Return the `urls` of each distribution."""
    return {
        "Source": REPOSITORY,
        "Documentation": f"{REPOSITORY}/blob/v{version}/docs/index.md",
        "Changelog": f"{REPOSITORY}/blob/v{version}/CHANGELOG.md",
    }


def with_links(text: str, folder: str, version: str) -> str:
    """Return the text of a README in a folder of the repository, with the addresses of the files
    that it names.
    """

    def address(match: re.Match[str]) -> str:
        picture, words, path, part = match.groups()
        form = "raw" if picture else "blob"
        return f"{picture}{words}({REPOSITORY}/{form}/v{version}/{os.path.normpath(os.path.join(folder, path))}{part or ''})"

    return _LINK.sub(address, text)


def unpack(path: Path, folder: Path) -> None:
    """Unpack a source distribution into a folder."""
    with tarfile.open(path) as archive:
        # Python before 3.11.4 has no filters, and ignores the attribute.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)


def build(version: str) -> list[Path]:
    """Build the sdist and the wheel of each distribution, and return them. Each wheel is built from
    its sdist, as an index's users may.
    """
    shutil.rmtree(OUT, ignore_errors=True)
    DIST.mkdir(parents=True)
    sources = build_into(sys.executable, DIST, copy_tree(version), "sdist")
    unpacked = OUT / "sdists"
    for each in sources:
        unpack(each, unpacked)
    tvm = sorted(unpacked.glob("devmod_tvm-*"))
    build_into(sys.executable, DIST, sorted({*unpacked.iterdir()}.difference(tvm)), "wheel")
    if tvm:
        build_into(str(python_of(WITH_TVM)), DIST, tvm, "wheel")
    else:
        print("  without devmod-tvm, which needs TVM's headers: run make frameworks first")
    return sorted(DIST.iterdir())


def files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of a distribution's files."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name.partition("/")[2], file.read()


def problems_of(path: Path, version: str) -> list[str]:
    """Return what is wrong with a distribution: its size, its version, its licence, foreign files,
    paths of this machine.
    """
    result = []
    if path.stat().st_size > LARGEST:
        result.append(f"has {path.stat().st_size:,} bytes; at most {LARGEST:,} are expected")
    if not re.search(rf"-{re.escape(version)}(-|\.tar|\.tgz)", path.name):
        result.append(f"is not of version {version}")
    places = {
        ROOT,
        *(
            each
            for each in (Path.home(), Path(sys.prefix), Path(sys.base_prefix))
            if len(each.parts) > 2
        ),
    }
    machine = sorted(str(place).encode() for place in places)
    files = dict(files_of(path))
    licences = 0
    for name, data in files.items():
        if name == "LICENSE" or name.endswith("licenses/LICENSE"):
            licences += 1
            if data != (ROOT / "LICENSE").read_bytes():
                result.append(f"{name} is not the licence of the repository")
        if _FOREIGN.search(name) and not _TEMPLATE.search(name):
            result.append(f"has {name}")
        result += [
            f"{name} names {place.decode()}, a path of this machine"
            for place in machine
            if place in data
        ]
    if licences != 1:
        result.append(f"has {licences} licences, not 1")
    if path.suffix == ".whl":
        result += binaries.missing_notices(files)
        result += missing_addresses(files, version)
    return result


def missing_addresses(files: Mapping[str, bytes], version: str) -> list[str]:
    """Return which addresses of the repository the metadata of a wheel lacks, if it is named."""
    if not REPOSITORY:
        return []
    metadata = b"".join(data for name, data in files.items() if name.endswith("info/METADATA"))
    lines = metadata.decode().splitlines()
    wanted = [f"Project-URL: {name}, {address}" for name, address in addresses(version).items()]
    return [f"lacks {line}" for line in wanted if line not in lines]


def check(files: Sequence[Path], version: str) -> None:
    """Print each distribution. Raise SystemExit if one has a problem, or if twine finds one in its
    metadata.
    """
    bad = False
    for path in files:
        problems = problems_of(path, version)
        bad = bad or bool(problems)
        show(path, problems)
    twine = make_venv(OUT / "twine")
    install(twine, ["twine"], cached=True)
    run([twine, "-m", "twine", "check", "--strict", *files], label="twine check --strict")
    if bad:
        raise SystemExit("release: the distributions above have problems")


def show(path: Path, problems: Sequence[str]) -> None:
    """Print a distribution and what is wrong with it."""
    print(f"  {path.stat().st_size / 1000:8.1f} kB  {path.name}")
    for text in problems:
        print(f"    {text}")


def release_npm(version: str) -> None:
    """Pack the npm package, check it, and use it in an empty folder. Raise SystemExit if it has a
    problem.
    """
    folder = TREE / npm_package.PLACE
    npm_package.prepare(folder, REPOSITORY)
    if REPOSITORY:
        readme = folder / "README.md"
        text = with_links(readme.read_text(encoding="utf-8"), str(npm_package.PLACE), version)
        readme.write_text(text, encoding="utf-8")
    path = npm_package.pack(folder, NPM)
    if path is None:
        print("  without the npm package, which needs npm (Debian, Ubuntu: apt-get install npm)")
        return
    number = npm_package.npm_version(version)
    problems = problems_of(path, number) + npm_package.problems_of(path, number)
    show(path, problems)
    if problems:
        raise SystemExit("release: the npm package above has problems")
    npm_package.use(path, OUT / "npm-box")
    print("  npm install, a program of TypeScript under --strict, and one under node")


def run(
    command: Sequence[str | Path],
    *,
    label: str = "",
    cwd: Path = OUT,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a command with the folder of distributions as one more index, and return its output.
    Raise SystemExit if it fails.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DEVMOD_", "PYTHON", "VIRTUAL_ENV"))
    }
    found = {"PIP_FIND_LINKS": str(DIST), "UV_FIND_LINKS": str(DIST)}
    env = clean | found | {"DEVMOD_CACHE_DIR": str(OUT / "cache")} | dict(variables or {})
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"release: {' '.join(map(str, command))}\nended with exit code {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    if label:
        print(f"  {label}")
    return done.stdout


def install_all(version: str) -> None:
    """Install each kind alone, and all together, by pip with each Python here; all by uv; run the
    command by pipx.
    """
    kinds = sorted(
        folder.name.removeprefix("devmod-") for folder in (ROOT / "plugins").glob("devmod-*")
    )
    choices = [f"devmod[{kind}]" for kind in kinds] + [f"devmod[{','.join(kinds)}]"]
    for number, (release, interpreter) in enumerate(sorted(pythons.find().items())):
        for choice in choices if number == 0 else choices[-1:]:
            python = make_venv(OUT / "box", python=interpreter, pip=True)
            run([python, "-m", "pip", "install", "--quiet", f"{choice}=={version}"])
            shown = run([python, "-m", "devmod", "plugins"])
            text = re.sub(r" +", " ", shown)
            wanted = [kind for kind in kinds if kind in choice]
            missing = [kind for kind in wanted if f"devmod-{kind} {version}" not in text]
            if missing:
                raise SystemExit(f"release: {choice} does not show {', '.join(missing)}:\n{shown}")
            print("  pip, Python {}.{}: {}".format(*release, choice))
    uv = find_uv()
    if uv is not None:
        python = make_venv(OUT / "box")
        run(
            [uv, "pip", "install", "--quiet", "--python", python, f"{choices[-1]}=={version}"],
            variables=uv_variables(),
        )
        run([python, "-m", "devmod", "plugins"], label=f"uv: {choices[-1]}")
        demo = [uv, "tool", "run", "--from", f"devmod[opencl,pocl]=={version}", "devmod", "demo"]
        run(
            demo,
            label='uvx --from "devmod[opencl,pocl]" devmod demo',
            variables={**uv_variables(), "DEVMOD_OPENCL_POCL_CPU": "1"},
        )
    pipx = make_venv(OUT / "pipx", pip=True)
    install(pipx, ["pipx"], cached=True)
    homes = {
        "PIPX_HOME": str(OUT / "pipx-home"),
        "PIPX_BIN_DIR": str(OUT / "pipx-bin"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }
    run(
        [pipx, "-m", "pipx", "run", "--spec", f"devmod=={version}", "devmod", "--version"],
        label="pipx run devmod --version",
        variables=homes,
    )


def uv_variables() -> dict[str, str]:
    """Return uv's settings that follow pip's, with the folder of distributions."""
    return {name: value for name, value in uv_settings().items() if name.startswith("UV_")} | {
        "UV_FIND_LINKS": str(DIST)
    }


def readme_example() -> None:
    """Run the README's commands and its Python in an empty environment, and compare what they
    print.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    console, python_code, printed = (
        re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        for language in ("console", "python", "text")
    )
    box = make_venv(OUT / "box", pip=True)
    folder = OUT / "readme"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    # PoCL's LLVM may not know this processor; the error that says so names the variable.
    variables = {
        "PATH": f"{box.parent}{os.pathsep}{os.environ['PATH']}",
        "DEVMOD_OPENCL_POCL_CPU": "1",
    }
    for block in console[:2]:
        for line in block.splitlines():
            if line.startswith(("$ pip install", "$ devmod")):
                command = line.removeprefix("$ ").partition("  #")[0].rstrip()
                run(["sh", "-c", command], cwd=folder, variables=variables, label=command)
    shown = run(
        [box, "-W", "error", "-c", python_code[0]],
        cwd=folder,
        variables=variables,
        label="the Python of README.md",
    )
    if shown != printed[0]:
        raise SystemExit(
            f"release: the Python of README.md printed\n{shown}and the page has\n{printed[0]}"
        )


def main() -> None:
    """Build, check, install, run, and print what a person types."""
    version = version_of(ROOT / "core")
    if sys.argv[1:2] == ["--set"]:
        set_version(version, sys.argv[2])
        return
    if sys.argv[1:2] == ["--tree"]:
        shutil.rmtree(TREE, ignore_errors=True)
        copy_tree(version)
        return
    print(f"devmod {version}: building into {DIST.relative_to(ROOT)}", flush=True)
    check(build(version), version)
    print("the npm package", flush=True)
    release_npm(version)
    print("installing from this folder", flush=True)
    install_all(version)
    print("the README", flush=True)
    readme_example()
    tag = f"v{version}"
    problem = tag_commit(tag)
    if problem:
        print(f"\nAll passed, and {tag} is not made: {problem}")
        return
    print(
        f"\nAll passed, and {tag} is the tag of this commit. To publish it by .github/workflows/release.yml:"
    )
    print(f"  git push origin {tag}")
    print(
        f"That builds again, and gives {DIST.relative_to(ROOT)} to Python's index and {NPM.relative_to(ROOT)} to npm."
    )


def tag_commit(tag: str) -> str:
    """Tag this commit, unless it has the tag already. Return why the tag cannot be made, or ""."""
    if not REPOSITORY:
        return "the distributions have no addresses. Run make release REPOSITORY=https://…"
    if "dev" in tag:
        return "it is a development version. Run python tools/release.py --set VERSION, and write CHANGELOG.md"
    if _git("status", "--porcelain"):
        return "the tree has changes that are not committed"
    if not _git("tag", "--list", tag):
        _git("tag", "--annotate", tag, "--message", f"devmod {tag.removeprefix('v')}")
    if _git("rev-parse", f"{tag}^{{commit}}") != _git("rev-parse", "HEAD"):
        return "another commit has it"
    return ""


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    try:
        main()
    except InstallError as error:
        raise SystemExit(f"release: {error}") from None
