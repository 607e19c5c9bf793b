"""The toy's compiler. Its source is the names of kernels, one on each line."""

from __future__ import annotations

from hashlib import sha256

from devmod import Origin
from devmod_targets.authoring import Payload
from devmod_toy._wrong import become_wrong


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
        Origin(
            **{
                "target": str(request.target),
                "toolchain": "toycc 1.0",
                "sources": sources,
                **origin,
            }
        ),
    )


become_wrong()
