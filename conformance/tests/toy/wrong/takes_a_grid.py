"""A kind without a grid, whose functions take grid= and ignore block= and threads=."""

from devmod_toy import TARGET as TOY
from devmod_toy._conformance import NEGATE, ToyConformance, negate
from devmod_toy._module import ToyLauncher, ToyModule

from devmod import TargetSpec
from devmod_conformance import Call, Sample

ROWS = ("R34-gridless",)
REASON = "'negate' with grid=1: expected ArgumentError, but no error was raised"
TARGET = TargetSpec("toy", title="Toy", distribution="devmod-toy", formats=TOY.formats, text_formats=TOY.text_formats, has_grid=False)


class Wrong(ToyModule):
    class launcher_type(ToyLauncher):
        has_grid = False

    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)
        return _Any(function)


class _Any:
    block = None

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, grid=None, block=None, threads=None):
        return self.function(*args)


def create(code, fmt, fmap, source):
    return Wrong(TARGET, fmt, fmap, code, source)


class Cases(ToyConformance):
    samples = (
        Sample(
            b"toy 1\nnegate\n", "toy", {"negate": NEGATE}, calls=[Call("negate", lambda rng: [rng.integers(1, 99, 1, "int32")], negate)]
        ),
    )
