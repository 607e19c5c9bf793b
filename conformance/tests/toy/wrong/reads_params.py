"""The kernel gets one value for each parameter of its interface, and an array may be several."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R34-packs",)
REASON = "TypeError: transpose() missing 2 required positional arguments: 'width' and 'height'"


class Wrong(ToyModule):
    def launcher(self, name, info):
        launcher = super().launcher(name, info)
        if info.interface is not None and any(param.pack for param in info.interface.params):
            run, count = launcher.run, len(info.interface.params)
            launcher.run = lambda threads, *values: run(threads, *values[:count])
        return launcher


create, load_from_bytes, load_from_file = entries(Wrong)
