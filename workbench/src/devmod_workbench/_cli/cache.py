"""`devmod cache`: show the contents of the cache folder, and clear it."""

from __future__ import annotations

import os
from typing import Any

import click

from devmod._util.cache_files import files, kinds, remove
from devmod.backend import cache_dir, folder_problem, size_bound
from devmod.errors import DevmodError, list_names
from devmod_workbench._cli._known import KNOWN
from devmod_workbench._cli._options import SuggestingGroup, debug_option, json_option
from devmod_workbench._cli._output import echo, print_json, print_table, size


@click.group(
    "cache",
    cls=SuggestingGroup,
    invoke_without_command=True,
    short_help=KNOWN["cache"].help,
    epilog="""\b
Examples:
  devmod cache                # the folder, and the size of each kind's entries
  devmod cache --json
  devmod cache clear opencl   # the results of the opencl runtime
  devmod cache clear          # everything
""",
)
@json_option
@debug_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show the folder of caches and the size of each kind's entries.

    The kind "discovery" is the index of entry points, "remote" has bundles at URLs, and "simulator"
    has the caches of programs below `devmod simulate`; the others are the kinds of backends, and
    hold what drivers and compilers made.
    Everything in the folder may be removed at any time.
    """
    if context.invoked_subcommand is not None:
        return
    state = _state()
    if as_json:
        print_json(state)
        return
    if not state["folder"]:
        echo(
            "There is no cache folder: this user has no home folder, and DEVMOD_CACHE_DIR is not set."
        )
        return
    echo(
        f"{state['folder']}: {_amount(state['entries'], state['bytes'])}; DEVMOD_CACHE_SIZE allows {size(state['bound'])}"
    )
    if state["kinds"]:
        rows = [
            (each["kind"], str(each["entries"]), size(each["bytes"])) for each in state["kinds"]
        ]
        print_table(("kind", "entries", "size"), rows)
    for problem in state["problems"]:
        echo(f"! not used: {problem}")


@command.command("clear", short_help="Remove the entries of one kind, or of all.")
@click.argument("kind", required=False)
@json_option
@debug_option
def clear(kind: str | None, as_json: bool) -> None:
    """Remove the cache entries of KIND, or of all kinds. Other files are not removed."""
    base = _check_folder(cache_dir())
    there = kinds(base)
    if kind is not None and kind not in there:
        raise DevmodError(
            f"there is no cache of the kind {kind!r} in {base!r}; there are: {list_names(there)}"
        )
    removed = []
    failed = []
    chosen = there if kind is None else [kind]
    for name in chosen:
        for file in files(_check_folder(os.path.join(base, name))):
            if not remove(file):
                failed.append(file.path)
            elif not file.temporary:
                removed.append(file)
    count = len(removed)
    total = sum(file.size for file in removed)
    if as_json:
        print_json({"entries": count, "bytes": total})
    else:
        echo(f"Removed {_amount(count, total)}.")
    if failed:
        raise DevmodError(f"{len(failed)} files cannot be removed, among them {failed[0]!r}")


def _state() -> dict[str, Any]:
    base = cache_dir()
    rows = []
    problems = []
    if base:
        problems.append(folder_problem(base))
    for kind in kinds(base):
        folder = os.path.join(base, kind)
        problems.append(folder_problem(folder))
        entries = [each for each in files(folder) if not each.temporary]
        total = sum(each.size for each in entries)
        rows.append({"kind": kind, "entries": len(entries), "bytes": total})
    return {
        "folder": base,
        "entries": sum(each["entries"] for each in rows),
        "bytes": sum(each["bytes"] for each in rows),
        "bound": size_bound(),
        "kinds": rows,
        "problems": [problem for problem in dict.fromkeys(problems) if problem],
    }


def _check_folder(folder: str) -> str:
    problem = folder_problem(folder)
    if problem:
        raise DevmodError(f"the cache folder {folder!r} is not cleared: {problem}")
    return folder


def _amount(count: int, total: int) -> str:
    entries = "entry" if count == 1 else "entries"
    return f"{count} {entries}, {size(total)}"
