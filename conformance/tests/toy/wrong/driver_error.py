"""A missing driver raises Python's ModuleNotFoundError."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R23-absent",)
REASON = "get_function of sample 1 without the driver: expected DeviceNotFoundError, got ModuleNotFoundError: No module named 'toydriver'"


class Wrong(ToyModule):
    def launcher(self, name, info):
        import toydriver

        assert toydriver
        return super().launcher(name, info)


create, load_from_bytes, load_from_file = entries(Wrong)
