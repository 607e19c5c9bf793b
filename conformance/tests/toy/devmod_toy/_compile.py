"""The toy's compiler. Its source is the names of kernels, one on each line. `target` makes targets with wrong compilers."""

from __future__ import annotations

from hashlib import sha256

from devmod import Origin, TargetSpec
from devmod_targets.authoring import Payload
from devmod_toy import TARGET


def compile(request):
    return payload(request)


def payload(request, more="", **origin):
    """Return the payload; `more` is a comment after its kernels."""
    from devmod_toy._conformance import AXPY, NEGATE

    known = {"axpy": AXPY, "negate": NEGATE}
    names = request.text.split()
    sources = {request.name: sha256(request.text.encode()).hexdigest()}
    text = "\n".join(["toy 1", *names, *([f"# {more}"] if more else []), ""])
    return Payload(
        "toy",
        text.encode(),
        "toy",
        {name: known[name] for name in names},
        {"toy": request.text},
        Origin(**{"target": str(request.target), "toolchain": "toycc 1.0", "sources": sources, **origin}),
    )


def target(compiler):
    """Return the toy's target with another compiler, ``"module:function"``."""
    return TargetSpec(
        TARGET.kind,
        title=TARGET.title,
        distribution=TARGET.distribution,
        formats=TARGET.formats,
        text_formats=TARGET.text_formats,
        source_keys=TARGET.source_keys,
        default_source=TARGET.default_source,
        aliases=TARGET.aliases,
        compiled_as=TARGET.compiled_as,
        languages=TARGET.languages,
        needs_arch=TARGET.needs_arch,
        compiler=compiler,
    )
