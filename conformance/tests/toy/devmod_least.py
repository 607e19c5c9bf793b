"""A minimal backend: a subclass of Module without a target, devices or a fallback."""

from __future__ import annotations

import json

import numpy as np

import devmod
from devmod.backend import function_not_found
from devmod_conformance import Call, Conformance, Sample

INFO = devmod.FunctionInfo("scale", ["handle", "float32"])


class Least(devmod.Module):
    kind = "least"
    format = "text"

    functions = source = None  # set for each module

    def __init__(self, code, fmap, source=None):
        self.code, self.functions, self.source = bytes(code), dict(fmap), dict(source or {})

    def get_function(self, name, query_imports=False):
        if name not in self.functions:
            raise function_not_found(self.kind, name, self.functions)
        if self.code != b"x *= a":
            raise devmod.FormatError(
                "the least payload: expected x *= a", kind="least", function=name
            )
        return lambda *value, **shape: scale(name, *value, **shape)

    def save_to_bytes(self):
        return json.dumps(
            [self.code.decode("latin-1"), {key: info.name for key, info in self.functions.items()}]
        ).encode()


def scale(name, *given, stream=None):
    def refuse(argument, why):
        raise devmod.ArgumentError(
            f"the least function {name!r}: {argument} {why}",
            kind="least",
            function=name,
            argument=argument,
        )

    if len(given) != 2 or stream is not None:
        refuse("", "takes an array, a number and no stream")
    if not isinstance(given[0], np.ndarray) or not given[0].flags.writeable:
        refuse("1", "is not a writable array")
    if not isinstance(given[1], float):
        refuse("2", "is not a float")
    given[0][...] *= given[1]


def create(code, fmt, fmap, source):
    return Least(code, fmap, source)


def load(data):
    code, names = json.loads(bytes(data))
    return Least(
        code.encode("latin-1"),
        {key: devmod.FunctionInfo(name, INFO.arg_types) for key, name in names.items()},
    )


def half(x, a):
    x *= a


class LeastConformance(Conformance):
    kind = "least"
    samples = (
        Sample(
            b"x *= a",
            "text",
            {"scale": INFO},
            calls=[Call("scale", lambda rng: [rng.random(16, "float32"), 0.5], half)],
        ),
    )
