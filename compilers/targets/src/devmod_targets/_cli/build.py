"""`devmod build`: build a manifest into one file."""

from __future__ import annotations

import os
from typing import Any

import click

from devmod.commands import (
    complete_kind,
    debug_option,
    echo,
    json_option,
    print_json,
    print_table,
    size,
)
from devmod.errors import DevmodError
from devmod_targets._cli._options import no_cache_option, workers_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.build.result import BuildResult

#: The target and the file of a line, and what failed.
_MARKS = (
    (r"^\s*(failed)\b", "bad"),
    (r"([1-9]\d* failed)", "bad"),
    (r"^([^:\n]+)(?: is up to date| is unchanged| was not written)?: ", "name"),
)


@click.command(
    "build",
    short_help="Build the kernels of a manifest into one file.",
    epilog="""\b
Examples:
  devmod build                                # devmod.toml, or [tool.devmod] of pyproject.toml, in this folder
  devmod build kernels/devmod.toml -j 8
  devmod build -t opencl -t "cuda -arch=sm_90"
  devmod build --plan                         # the compiles, and which of them are cached
  devmod build --dry-run                      # compile all, write no file: a check for CI
  devmod build --cache s3://ci-cache/devmod   # a cache that several machines share
  devmod build --dask tcp://scheduler:8786    # compile on a Dask cluster
""",
)
@click.argument("manifest", default=".", type=click.Path())
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    shell_complete=complete_kind("devmod.targets"),
    help="Build only this target, a kind or a target of the manifest.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="The file to write. [default: that of the manifest]",
)
@workers_option
@click.option(
    "--cache",
    metavar="PLACE",
    help="The folder, or the URL, of the cache. [default: DEVMOD_BUILD_CACHE, else devmod's cache folder]",
)
@no_cache_option
@click.option(
    "--dask", metavar="ADDRESS", default="", help="Compile on the Dask cluster with this scheduler."
)
@click.option(
    "--or-local",
    is_flag=True,
    help="Build here, with a warning, if the cache or the cluster cannot be reached.",
)
@click.option(
    "--compress",
    metavar="METHOD",
    help='Compress payloads: "zstd", or "zstd:19" for another level. [default: as in the manifest]',
)
@click.option(
    "--with-sources", is_flag=True, help="Add the sources of binary payloads to the file."
)
@click.option(
    "--partial",
    is_flag=True,
    help="Write the file also if some compiles, or some kernels of OpenCL C for Vulkan, fail. The exit status is 1 all the same.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Make an error of what a device's compiler may refuse, and of a source that no validator checked.",
)
@click.option(
    "--allow-python",
    is_flag=True,
    help="Execute the Python sources of the manifest, which are in Triton's language.",
)
@click.option(
    "--plan",
    "plan_only",
    is_flag=True,
    help="Compile nothing; print the compiles, and which of them are cached.",
)
@click.option(
    "--dry-run", is_flag=True, help="Compile everything and check the file, but do not write it."
)
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no failure.")
@debug_option
def command(
    manifest: str,
    targets: tuple[str, ...],
    output: str | None,
    workers: int | None,
    cache: str | None,
    no_cache: bool,
    compress: str | None,
    with_sources: bool,
    strict: bool,
    partial: bool,
    plan_only: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Build the kernels of MANIFEST for its targets into one file. No device, driver or runtime is
    needed.

    MANIFEST is a file, or the folder of a devmod.toml or a pyproject.toml. The results of compiles
    are cached by their inputs. If a compile fails, the others go on, the exit status is 1, and the
    file is unchanged.
    """
    from contextlib import ExitStack

    from devmod.backend import temporary_folder
    from devmod_targets._cli._display import annotate_error, progress_for
    from devmod_targets.build import plan_of, read_manifest
    from devmod_targets.build.build import build_plan, rows_of

    if no_cache and cache:
        raise click.UsageError("--cache and --no-cache contradict each other")
    place = cache or not no_cache

    def run() -> int:
        own = read_manifest(manifest)
        own = own._replace(with_sources=own.with_sources or with_sources)
        if compress is not None:
            own = own._replace(compress=compress)
        plan = plan_of(own, targets, strict=strict, partial=partial)
        if plan_only:
            _print_rows(rows_of(plan, cache=place), as_json=as_json)
            return 0
        progress = progress_for(plan.manifest.folder, quiet=quiet, annotate=_is_ci(), json=as_json)
        with ExitStack() as stack:
            path = output
            if dry_run:
                path = os.path.join(stack.enter_context(temporary_folder()), "kernels.devmod")
            result = build_plan(
                plan, path, workers, cache=place, partial=partial, progress=progress, **options
            )
            if dry_run:
                result.output = os.path.abspath(output or plan.output)
                result.written = False
            _show(result, quiet=quiet, as_json=as_json, dry_run=dry_run)
        return int(bool(result.failures))

    try:
        return run()
    except DevmodError as error:
        if _is_ci():
            annotate_error(error, manifest, err=as_json)
        raise


def _is_ci() -> bool:
    """Return whether this is a job of a CI service: GitHub and others set the variable."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _print_rows(rows: list[tuple[str, str, str, str]], *, as_json: bool) -> None:
    names = ("kernel", "source", "target", "status")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows)


def _show(result: BuildResult, *, quiet: bool, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(result.to_dict())
        return
    if quiet and not result.failures:
        return
    path = os.path.relpath(result.output)
    if result.written or result.failures or dry_run:
        targets = dict.fromkeys(each.job.target for each in result.results)
        if targets:
            print_table(
                ("target", "compiled", "cached", "failed", "CPU seconds"),
                [_row(result, target) for target in targets],
                marks=((r"^[a-z]\w*", "kind"),),
            )
    if dry_run and not result.failures:
        echo(f"{path} was not written, for --dry-run: {result.summary}")
    elif result.written:
        line = f"{path}: {size(os.path.getsize(result.output))}, {result.summary}"
        echo(line, marks=_MARKS)
    elif result.failures:
        old = "is unchanged" if os.path.exists(result.output) else "was not written"
        echo(f"{path} {old}: {result.summary}", marks=_MARKS)
        for failure in result.failures:
            if quiet:  # otherwise their messages are above
                first_line = failure.message.partition("\n")[0]
                echo(f"  {failure.job}: {first_line}")
            else:
                echo(f"  failed {failure.job}", marks=_MARKS)
    else:
        line = f"{path} is up to date: {size(os.path.getsize(result.output))}, {result.summary}"
        echo(line, marks=_MARKS)


def _row(result: BuildResult, target: str) -> tuple[str, ...]:
    counts = {"compiled": 0, "cached": 0, "failed": 0}
    seconds = 0.0
    for each in result.results:
        if each.job.target == target:
            counts[each.status] += 1
            seconds += each.seconds
    return (target, *map(str, counts.values()), f"{seconds:.2f}")
