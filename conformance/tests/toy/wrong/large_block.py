"""The limit of a block is a thousand times that of the driver."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R34-limit",)
REASON = (
    "'axpy' with block=2048: expected the result, or LaunchError that names the block and the limit, got ValueError: toy error 7: invalid "
    "configuration"
)


class Kernel(ToyKernel):
    max_block = 1024 * 1000


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
