"""`devmod init`: write a manifest for the sources in a folder, or a package with operations of
PyTorch.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from devmod.backend import find_spec, temporary_folder
from devmod.commands import complete_kind, debug_option, echo
from devmod.errors import FormatError, count_text, did_you_mean, list_names
from devmod.targets import KINDS
from devmod_targets.writable import noting_interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.build.manifest import Manifest
    from devmod_targets.build.plan import Plan


@click.command(
    "init",
    short_help="Write a manifest for the sources in a folder.",
    epilog="""\b
Examples:
  devmod init                       # devmod.toml for the kernels in this folder and below it
  devmod init kernels -t opencl -t "cuda -arch=sm_90"
  devmod build                      # the next step
  devmod init --torch fast_ops      # a package with operations of PyTorch
""",
)
@click.argument(
    "folder", default=".", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    shell_complete=complete_kind("devmod.targets"),
    help="A target to build for. [default: one for each kind with a source]",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    default="kernels.devmod",
    show_default=True,
    help="The file that `devmod build` writes.",
)
@click.option(
    "--torch",
    metavar="NAME",
    help="Write a package NAME with an operation of PyTorch, its kernels and tests.",
)
@click.option("--force", is_flag=True, help="Overwrite files.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no error.")
@debug_option
def command(
    folder: Path, targets: tuple[str, ...], output: str, torch: str | None, force: bool, quiet: bool
) -> None:
    """Write FOLDER/devmod.toml for the kernels in FOLDER and below it, with comments that show the
    other keys.

    Sources of one name, such as blur.cl and blur.comp, are one kernel. Sources for several kinds,
    such as those in Slang, are compiled, and a kind for which one fails is commented out with the
    reason. Files of C, C++, LLVM IR, assembly and SPIR-V are found for targets that -t names.

    --torch writes a package into FOLDER. Each program of its manifest is an operation of PyTorch.
    """
    if torch is not None:
        if targets or output != "kernels.devmod":
            raise click.UsageError(
                "--torch takes neither --target nor --output: the manifest that it writes has them"
            )
        from devmod_targets._cli._package import package_files

        files = package_files(torch)
        _write_all({folder / path: text for path, text in files.items()}, force=force)
        if not quiet:
            test = 'pip install ".[opencl]" pytest; pytest'
            if str(folder) != ".":
                test = f"cd {shlex.quote(str(folder))}; {test}"
            echo(f"{folder / 'pyproject.toml'}: the package {torch}. To test it: {test}")
        return
    _write_manifest(folder, targets, output, force=force, quiet=quiet)


def _write_manifest(
    folder: Path, targets: tuple[str, ...], output: str, *, force: bool, quiet: bool
) -> None:
    """Write the manifest of the sources in a folder. The parameters are those of the command."""
    from devmod import Target
    from devmod_targets.build.document import MANIFEST_NAME, PYPROJECT, Document, find_manifest
    from devmod_targets.build.plan import plan_of
    from devmod_targets.build.read import manifest_of
    from devmod_targets.build.skeleton import (
        SCHEMA_NAME,
        find_sources,
        manifest_text,
        schema_text,
    )

    path = folder / MANIFEST_NAME
    if not path.exists():
        with suppress(FileNotFoundError):
            raise FormatError(
                f"{find_manifest(folder)} has [tool.devmod], a manifest; remove it first, or keep it: {PYPROJECT} is enough"
            )
    kinds = [Target.parse(text).kind for text in targets]
    for kind in kinds:
        if find_spec(kind) is None:
            hint = did_you_mean(kind, KINDS) or f". The kinds are {list_names(KINDS)}"
            raise click.UsageError(f"unknown target {kind!r}{hint}")
    sources, unusable = find_sources(os.fspath(folder), kinds)
    if unusable and not quiet:
        echo(f"devmod: warning: {_unusable(unusable)}", err=True)
    if not sources:
        raise FormatError(_no_sources(folder, kinds))

    def read(text: str) -> Manifest:
        return manifest_of(Document(os.fspath(path), text, tomllib.loads(text)))

    write = partial(manifest_text, os.fspath(folder), sources, targets, output=output)
    text = write()
    failures = _try(plan_of(read(text)), quiet=quiet)
    if failures:
        text = write(failures=failures)
        read(text)
    _write_all({path: text, folder / SCHEMA_NAME: schema_text()}, force=force)
    if not quiet:
        count = count_text(len(sources), "source")
        build = "devmod build" if str(folder) == "." else f"devmod build {folder}"
        echo(f"{path}: {count}. To build them: {build}")


def _no_sources(folder: Path, kinds: list[str]) -> str:
    """Return the error for a folder without sources of kernels for some kinds; all without any."""
    from devmod_targets.build.skeleton import example_target, find_sources

    advice = "Write one, such as twice.cl, twice.comp or twice.cu; then: devmod init"
    if kinds:
        return f"{folder} has no sources of kernels for {', '.join(kinds)}. {advice}"
    text = f"{folder} has no sources of kernels. {advice}"
    others = find_sources(os.fspath(folder), KINDS)[0]
    if not others:
        return text
    words = ["devmod", "init"]
    if str(folder) != ".":
        words.append(str(folder))
    command = shlex.join([*words, "-t", example_target(others[0])])
    return f"{text}. If {others[0]!r} has kernels, name their target: {command}"


def _write_all(contents: dict[Path, str], *, force: bool) -> None:
    """Write files. Raise FormatError before the first if one has another text, unless `force` is
    true.
    """
    for each, text in contents.items():
        if not force and os.path.lexists(each) and not _has_text(each, text):
            raise FormatError(f"{each} exists; --force overwrites it")
    with noting_interrupts(*contents):
        for each, text in contents.items():
            each.parent.mkdir(parents=True, exist_ok=True)
            _write(each, text)


def _try(plan: Plan, *, quiet: bool) -> dict[tuple[str, str], str]:
    """Compile what may fail for a kind. Return the kernels and the kinds to leave out, with the
    reasons; `devmod build` has the results.
    """
    from devmod_targets.build.build import build_plan
    from devmod_targets.build.skeleton import Collected, failures_in, jobs_to_try

    jobs = jobs_to_try(plan.jobs)
    if not jobs:
        return {}
    if not quiet:
        echo(f"Trying {len(jobs)} compiles of sources that are for several kinds", err=True)
    trial = Collected()
    # A FormatError is of functions that do not fit into one file, which the user may rename.
    with temporary_folder() as folder, suppress(FormatError):
        output = os.path.join(folder, "trial.devmod")
        build_plan(plan._replace(jobs=jobs), output, or_local=True, progress=trial)
    failures = failures_in(trial.results)
    if not quiet:
        for (kernel, kind), text in failures.items():
            echo(f"devmod: note: the kernel {kernel!r} is left out for {kind}: {text}", err=True)
    return failures


def _unusable(paths: list[str]) -> str:
    names = ", ".join(map(repr, paths[:5]))
    if len(paths) > 5:
        names += f" and {len(paths) - 5} more"
    return f"left out, because a manifest takes printable names in UTF-8 without backslashes: {names}. Rename the files to add them"


def _has_text(path: Path, text: str) -> bool:
    try:
        return path.is_file() and path.read_bytes() == text.encode()
    except OSError:
        return False


def _write(path: Path, text: str) -> None:
    """Write a file beside its place, and move it there, also onto a link."""
    partial = path.with_name(f".{path.name}.{os.urandom(4).hex()}.partial")
    try:
        # The mode "x" writes to no link that is there.
        with partial.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
