"""Clusters raise ValueError, and cooperative launches run nothing."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R35-clusters", "R35-cooperative")
REASON = "'axpy' launched with clusters of two blocks: expected LaunchError, got ValueError: clusters of (2, 1, 1)"


class WrongKernel(ToyKernel):
    def shape(self, launch):
        if launch.cluster != (1, 1, 1):
            raise ValueError(f"clusters of {launch.cluster}")
        return super().shape(launch)


class Wrong(ToyModule):
    class launcher_type(ToyLauncher):
        kernel_type = WrongKernel

    def launcher(self, name, info):
        result = super().launcher(name, info)
        if "tirx.use_cooperative_launch" in info.launch_param_tags:
            result.run = lambda threads, *values: None
        return result


create, load_from_bytes, load_from_file = entries(Wrong)
