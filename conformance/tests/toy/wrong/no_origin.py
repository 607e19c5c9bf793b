"""The compiler returns no origin."""

from devmod_toy._compile import payload, target

from devmod_targets.authoring import Payload

ROWS = ("R42",)
REASON = "a module of devmod.compile has no origin; give the Payload an Origin"
TARGET = target("no_origin:compile")


def compile(request):
    module = payload(request)
    return Payload(module.kind, module.code, module.fmt, module.fmap, module.source)
