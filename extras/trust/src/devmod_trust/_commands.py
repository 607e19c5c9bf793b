"""The commands `devmod keygen`, `devmod sign` and `devmod check`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

import click

from devmod.backend import absolute, policies
from devmod.commands import (
    OutputPath,
    RequiredUnless,
    WholeNumber,
    debug_option,
    echo,
    json_option,
    print_json,
)
from devmod.errors import TrustError
from devmod_trust._envelope import MAX_VERSION, head_of, read_envelope, read_statement
from devmod_trust._sign import read_bundle, sign_file

_EXISTING = click.Path(exists=True, dir_okay=False)


@click.command(
    "keygen",
    short_help="Make a key that signs files.",
    epilog="""\b
Examples:
  devmod keygen -o acme.pem              # and acme.pub, for those who check
  devmod keygen -o acme.pem --encrypt    # asks for a passphrase
""",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=OutputPath(),
    help="The file of the private key.",
)
@click.option("--encrypt", is_flag=True, help="Ask for a passphrase that encrypts the private key.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no error.")
@debug_option
def keygen(output: Path, encrypt: bool, quiet: bool) -> None:
    """Make an Ed25519 key: its private half in FILE, which the owner alone can read, and its public
    half beside it, with the suffix .pub.

    No file is replaced. `devmod sign` also takes keys of ssh-keygen and openssl: Ed25519, and ECDSA
    with P-256.
    """
    from devmod_trust._keys import write_new_key

    passphrase = ""
    if encrypt:
        passphrase = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    public = write_new_key(str(output), passphrase)
    if not quiet:
        echo(f"{output}: the private key; keep it secret")
        echo(f"{public}: the public key, for the `keys` of a policy")


@click.command(
    "sign",
    short_help="Sign files, for policies to check.",
    epilog="""\b
Examples:
  devmod sign softmax.devmod --key acme.pem --name acme/softmax --version 3
  devmod sign softmax.devmod --key ~/.ssh/id_ed25519 --name acme/softmax --version 3    # a second signer
  devmod sign softmax.devmod --sigstore --name acme/softmax --version 3    # the identity of a CI job, or a login in the browser
""",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_EXISTING)
@click.option(
    "--key",
    "keys",
    cls=RequiredUnless,
    unless="--sigstore",
    metavar="KEY",
    multiple=True,
    type=_EXISTING,
    help="The file of a private key, in PEM or OpenSSH's form. Several times: several signers.",
)
@click.option(
    "--name",
    metavar="NAME",
    required=True,
    help="The name that policies compare, such as acme/softmax.",
)
@click.option(
    "--version",
    metavar="NUMBER",
    required=True,
    type=WholeNumber(0, MAX_VERSION),
    help="A number that grows: a policy can refuse lower ones.",
)
@click.option(
    "--sigstore",
    is_flag=True,
    help="Sign with the certificate of an identity, which is published in sigstore's log.",
)
@click.option(
    "--sigstore-config",
    metavar="FILE",
    type=_EXISTING,
    help="The configuration of a private sigstore, for --sigstore.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Drop signatures of another file, name or version. Without it they are an error.",
)
@debug_option
def sign(
    files: tuple[str, ...],
    keys: tuple[str, ...],
    name: str,
    version: int,
    sigstore: bool,
    sigstore_config: str | None,
    replace: bool,
) -> None:
    """Write FILE.sig beside each FILE: a DSSE envelope that signs its header and head, and with
    them the digests of all parts.

    The statement has the name, the version, and the tools and the digests of the sources by which
    FILE was built. If FILE.sig is of the same statement, the signature is added to it. The
    passphrase of an encrypted key is asked for.
    """
    ask = cache(lambda key: click.prompt(f"Passphrase of {key}", hide_input=True, err=True))
    config = None
    by = [*keys]
    if sigstore:
        config = sigstore_config or ""
        by.append("sigstore")
    for file in files:
        path = sign_file(file, keys, name, version, ask, replace, config)
        echo(f"{path}: {name}, version {version}; signed with {', '.join(by)}")


# Where to change: what `devmod check` compares
#   here: `check`; `extras/trust/src/devmod_trust/_policy.py` has what a policy requires,
#     `extras/trust/src/devmod_trust/_rebuild.py` the comparison with a build
#   tests: `extras/trust/tests/test_commands.py`, `extras/trust/tests/test_policy.py`,
#     `extras/trust/tests/test_rebuild.py`
@click.command(
    "check",
    short_help="Check the signatures of a file.",
    epilog="""\b
Examples:
  devmod check softmax.devmod --policy trust.toml
  devmod check softmax.devmod --policy trust.toml --source https://acme.example/softmax.devmod    # before an upload
  devmod check softmax.devmod --rebuild .    # compares it with a build of ./devmod.toml

\b
Exit status:
  0  each policy takes the file
  1  a policy refuses it or is invalid, there is no policy, the file is damaged, or an error; with --rebuild, a payload or
     the tree of modules differs, or a payload is missing or not rebuilt
""",
)
@click.argument("file", type=_EXISTING)
@click.option(
    "--policy",
    "paths",
    metavar="POLICY",
    multiple=True,
    type=_EXISTING,
    help="The policy's file; several times: each must take FILE, and so must those in DEVMOD_TRUST.",
)
@click.option(
    "--source", metavar="URL|PATH|package:NAME|memory", help="Check FILE as if it came from there."
)
@click.option(
    "--rebuild",
    "manifest",
    metavar="MANIFEST",
    type=click.Path(exists=True),
    help="Build this manifest, or a folder's, and compare each payload of FILE with it. No policy is asked.",
)
@json_option
@debug_option
@click.pass_context
def check(
    context: click.Context,
    file: str,
    paths: tuple[str, ...],
    source: str | None,
    manifest: str | None,
    as_json: bool,
) -> None:
    """Show what FILE.sig claims, and the keys of the policies that have signed FILE.

    Each payload is compared with its digest; `devmod inspect --verify` does that without a policy.
    No kernel is run: `devmod verify` does that.
    """
    if manifest is not None:
        if paths or source:
            raise click.UsageError(
                "--rebuild asks no policy; give --policy and --source without it"
            )
        _show_rebuild(context, file, manifest, as_json)
        return
    from devmod_trust import _policy

    _, data, signature = read_bundle(file)
    place = source or file
    package = ""
    if place.startswith("package:"):
        package = place.removeprefix("package:")
        place = file
    if place != "memory" and "://" not in place:
        place = absolute(place)
    taken = []
    refusal = ""
    try:
        known = (*policies(), *paths)
        if not known:
            other = f"To look only for damage: devmod inspect --verify {quote(file)}"
            raise TrustError(
                f"nothing says whether {file!r} may be used: give --policy, or set DEVMOD_TRUST. {other}"
            )
        taken = _policy.check(
            _policy.File(place, package, head_of(data), len(data), signature), known
        )
    except TrustError as error:
        refusal = str(error)
    claims = _claims(signature)
    if as_json:
        answer = {
            "file": file,
            "source": source or place,
            "taken": not refusal,
            "refusal": refusal,
            "claims": claims,
            "rules": [each._asdict() for each in taken],
        }
        print_json(answer)
        context.exit(int(bool(refusal)))
    if signature is None:
        text = f"{file} is not signed: there is no {file}.sig"
    elif claims["problem"]:
        text = f"{file}.sig {claims['problem'].removeprefix('it ')}"
    else:
        keys = ", ".join(each[:16] or "an unnamed key" for each in claims["keys"])
        text = f"{file}.sig claims: {claims['name']}, version {claims['version']}; signed by {keys}"
    echo(text)
    if refusal:
        raise TrustError(refusal)
    for each in taken:
        echo(f"taken by rule {each.rule} of {each.policy}: signed by {', '.join(each.keys)}")


def _show_rebuild(context: click.Context, file: str, manifest: str, as_json: bool) -> None:
    """Show how the payloads of a file compare with those of a build. The exit status is 1 unless
    all are the same.
    """
    from devmod_trust._rebuild import rebuild

    compared = rebuild(read_bundle(file)[0], manifest)
    if as_json:
        print_json({"file": file, "payloads": [each._asdict() for each in compared]})
    else:
        for each in compared:
            echo(f"{each.payload}: {each.outcome}{each.why and f' ({each.why})'}")
    context.exit(int(any(each.outcome != "same" for each in compared)))


def _claims(signature: bytes | None) -> dict[str, Any]:
    """Return what a file of signatures claims. Nothing of it was checked."""
    if signature is None:
        return {"problem": "it is missing"}
    try:
        envelope = read_envelope(signature)
        keys = [each.keyid for each in envelope.signatures]
        return {"problem": "", **read_statement(envelope.payload)._asdict(), "keys": keys}
    except ValueError as error:
        return {"problem": f"it is invalid: {error}"}
