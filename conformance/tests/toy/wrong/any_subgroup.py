"""The size of subgroups that a function requires is ignored."""

from devmod_toy._module import ToyLauncher, ToyModule, entries

ROWS = ("R40-subgroup",)
REASON = "'subgroup' that requires subgroups of 4 threads: argument 1 is wrong in 128 of 128 elements; at 0: expected np.uint32(4), got …"


class Launcher(ToyLauncher):
    def kernel(self, device):
        return self.kernel_type(_eight if self.run.__name__ == "subgroup" else self.run)


def _eight(threads, result):
    result[::4] = b"\x08" * (len(result) // 4)


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
