"""The compiler does not support the architecture of the spec's example."""

from devmod_toy._compile import payload, target

from devmod.errors import CompileError

ROWS = ("R40-example",)
REASON = "the example 'toy -arch=t1' for Toy source does not compile a sample: the toy has no t1"
TARGET = target("example_refused:compile")


def compile(request):
    if request.target.arch == "t1":
        raise CompileError("the toy has no t1", kind="toy")
    return payload(request)
