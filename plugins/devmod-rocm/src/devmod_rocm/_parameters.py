"""The parameters of ROCm's kernels. The metadata of the code object has their places. The driver sets the hidden arguments."""

from __future__ import annotations

from devmod_driver_api.parameters import ParameterLayout, Place, declared_arguments
from devmod_driver_api.parameters import parameter_layout as make_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_readers.amdgpu import CodeObjectKernel


def parameter_layout(info: FunctionInfo, kernel: CodeObjectKernel) -> ParameterLayout:
    """Return the parameter block of a kernel.

    Raises
    ------
    FormatError
        The code object has other arguments than the function.
    """
    visible = kernel.visible_arguments

    def find_problem(number: int) -> str:
        # OpenCL's __local: the driver takes a size in place of an address.
        return "a pointer to shared memory" if visible[number].kind == "dynamic_shared_pointer" else ""

    places = [Place(each.offset, each.size) for each in visible]
    return make_layout("rocm", info, declared_arguments("rocm", "ROCm", info), places, find_problem)
