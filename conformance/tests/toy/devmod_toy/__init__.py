"""A small conforming backend without hardware. Each wrong backend changes one thing of it."""

from __future__ import annotations

from devmod import TargetSpec

TARGET = TargetSpec(
    "toy",
    title="Toy",
    distribution="devmod-toy",
    formats=("toy", "toybin"),
    text_formats=("toy",),
    source_keys=("toy",),
    default_source=("toy",),
    aliases=("toyish",),
    compiled_as={"text": "toy"},
    languages={"toysource": "Toy source"},
    compiler="devmod_toy._compile:compile",
    needs_arch={"Toy source": "t1,t2"},
)


def create(code, fmt, fmap, source):
    from devmod_toy._module import ToyModule

    return ToyModule(TARGET, fmt, fmap, code, source)


def load_from_bytes(data):
    from devmod_toy._module import ToyModule

    return ToyModule.from_wire(TARGET, data)


def load_from_file(path, fmt):
    from devmod_toy._module import ToyModule

    return ToyModule.from_file(path, fmt)


def devices():
    from devmod_toy._device import devices as found

    return found()
