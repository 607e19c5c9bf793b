"""A conforming backend with a map of shaders, one format and no driver. It overrides
Conformance.builds.

The variable TOYMAP changes it: with "text", its text payloads are not source; with "first", every
function is built from the first shader.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from devmod_toy._conformance import AXPY, NEGATE, axpy, negate

import devmod
from devmod import TargetSpec
from devmod.backend import read_payload
from devmod_conformance import Call, Conformance, Sample

TARGET = TargetSpec(
    "toymap",
    title="Toy map",
    distribution="devmod-toymap",
    formats=("toyshader",),
    text_formats=("toyshader",),
    source_formats=() if os.environ.get("TOYMAP") == "text" else None,
    shader_map=True,
    fields=("fmap", "code"),
    pack=lambda code: b"TOYFILE" + code,
    unpack=lambda data: data[7:],
)


def make(fmap, code, source=None, wire=None):
    from devmod_toy._device import driver
    from devmod_toy._module import ToyLauncher, ToyModule, with_blocks

    class MapLauncher(ToyLauncher):
        kind = "toymap"

    class MapModule(ToyModule):
        def launcher(self, name, info):
            _, shader = self.payload(
                next(iter(self.code)) if os.environ.get("TOYMAP") == "first" else name
            )
            return MapLauncher(with_blocks(driver().KERNELS[parse(shader)], info.interface))

    return MapModule(TARGET, "toyshader", fmap, code, source, wire=wire)


def parse(shader):
    """Return the kernel of a shader: the only build step."""
    data = bytes(shader)
    if data[:4] != b"toy ":
        raise devmod.FormatError("the toymap shader does not begin with 'toy '", kind="toymap")
    return data[4:].decode()


def create(code, fmt, fmap, source):
    return make(fmap, code, source)


def load_from_bytes(data):
    from devmod.backend import decode

    _, fmap, code = decode(TARGET, data)
    return make(fmap, code, wire=data)


def load_from_file(path, fmt):
    _, fmap, code = read_payload(TARGET, path, fmt)
    return make(fmap, code)


class MapConformance(Conformance):
    kind = "toymap"
    samples = (
        Sample(
            {"negate": b"toy negate", "axpy": b"toy axpy"},
            "toyshader",
            {"negate": NEGATE, "axpy": AXPY},
            calls=[
                Call(
                    "axpy",
                    lambda rng: [rng.random(50, "float32"), rng.random(50, "float32"), 2.5, 40],
                    axpy,
                    grid=4,
                    block=16,
                ),
                Call(
                    "negate",
                    lambda rng: [rng.integers(1, 99, 16, "int32")],
                    negate,
                    grid=2,
                    block=8,
                ),
            ],
        ),
        Sample(
            {"negative": b"toy negate"},
            "toyshader",
            {"negative": NEGATE},
            calls=[
                Call(
                    "negative",
                    lambda rng: [rng.integers(1, 99, 8, "int32")],
                    negate,
                    grid=1,
                    block=8,
                )
            ],
        ),
    )

    @contextmanager
    def builds(self, sample, on_build):
        global parse
        before = parse

        def counted(shader):
            on_build()
            return before(shader)

        parse = counted
        try:
            yield
        finally:
            parse = before
