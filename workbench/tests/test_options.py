"""Options with a value or without, and what a call lacks."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from devmod.commands import OptionalValue, OptionalValueCommand, RequiredUnless
from devmod_workbench._cli._options import missing_text


@click.command(cls=OptionalValueCommand)
@click.option("--check", cls=OptionalValue, flag_value="")
@click.option(
    "-s", "--size", cls=OptionalValue, flag_value="all", type=click.Choice(["all", "some"])
)
@click.option("--name")
@click.option("-q", is_flag=True)
@click.argument("words", nargs=-1)
def mixed(check: str | None, size: str | None, name: str | None, q: bool, words: object) -> None:
    click.echo(repr((check, size, name, q, words)))


@click.command(cls=OptionalValueCommand, context_settings={"allow_interspersed_args": False})
@click.option("--check", cls=OptionalValue, flag_value="")
@click.option("--name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def program(check: str | None, name: str | None, words: object) -> None:
    click.echo(repr((check, name, words)))


@pytest.mark.parametrize(
    ("command", "line", "result"),
    [
        (mixed, "f", (None, None, None, False, ("f",))),
        (mixed, "--check f", ("", None, None, False, ("f",))),
        (mixed, "f --check", ("", None, None, False, ("f",))),
        (mixed, "--check=race,bounds f", ("race,bounds", None, None, False, ("f",))),
        (mixed, "--size f", (None, "all", None, False, ("f",))),
        (mixed, "--size some f", (None, "some", None, False, ("f",))),
        (mixed, "-s some f", (None, "some", None, False, ("f",))),
        (mixed, "--size=some all", (None, "some", None, False, ("all",))),
        (mixed, "--size --check -q", ("", "all", None, True, ())),
        # A value or a word of another program that looks like the option.
        (mixed, "--name --check f", (None, None, "--check", False, ("f",))),
        (mixed, "--name --name --check", ("", None, "--name", False, ())),
        (mixed, "-- --check", (None, None, None, False, ("--check",))),
        (mixed, "--check -- some", ("", None, None, False, ("some",))),
        (program, "--check run --check", ("", None, ("run", "--check"))),
        (program, "--name n --check run", ("", "n", ("run",))),
        (program, "run --check", (None, None, ("run", "--check"))),
        (program, "--name=n --check -- --check", ("", "n", ("--check",))),
    ],
)
def test_an_option_whose_value_may_be_left_out(
    command: click.Command, line: str, result: object
) -> None:
    run = CliRunner().invoke(command, line.split(), catch_exceptions=False)
    assert (run.exit_code, run.output) == (0, f"{result!r}\n")


@pytest.mark.parametrize(
    ("command", "line", "text"),
    [
        (
            mixed,
            "--check=race f --check=init,sync",
            "--check is given twice; write --check=race,init,sync",
        ),
        (mixed, "--check f --check=init", "--check is given twice"),
        (mixed, "--check --name n --check", "--check is given twice"),
        (mixed, "--size some -s", "--size is given twice"),
        (mixed, "--size=some --size=all", "--size is given twice"),
        (program, "--check=race --check", "--check is given twice"),
    ],
)
def test_an_option_whose_value_may_be_left_out_is_given_once(
    command: click.Command, line: str, text: str
) -> None:
    run = CliRunner().invoke(command, line.split())
    assert run.exit_code == 2
    assert run.output.splitlines()[-1] == f"Error: {text}"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--key", cls=RequiredUnless, unless="--login", metavar="KEY", help="A key.")
@click.option("--name", metavar="NAME", required=True, help="A name.")
@click.option("--login", is_flag=True)
@click.option("--level", default=3)
def lacking(**values: object) -> None:
    click.echo("done")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "",
            "missing arguments and options:\n  FILE...\n  --key KEY, or --login: A key.\n  --name NAME: A name.",
        ),
        (
            "f --level 4",
            "missing options:\n  --key KEY, or --login: A key.\n  --name NAME: A name.",
        ),
        ("--login", "missing arguments and options:\n  FILE...\n  --name NAME: A name."),
        ("f --key k", "Missing option '--name'. A name."),
        ("f --name n", "Missing option '--key' or '--login'. A key."),
        ("--key k --name n", "Missing argument 'FILE...'."),
    ],
)
def test_all_that_a_call_lacks_is_one_error(line: str, text: str) -> None:
    with pytest.raises(click.MissingParameter) as caught:
        lacking.main(line.split(), standalone_mode=False)
    assert missing_text(caught.value) == text


@pytest.mark.parametrize("line", ["f --login --name n", "f --key k --name n"])
def test_either_option_is_enough(line: str) -> None:
    assert CliRunner().invoke(lacking, line.split()).output == "done\n"
