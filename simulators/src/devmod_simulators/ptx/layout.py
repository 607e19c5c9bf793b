"""Where a function's variables are, and the special registers that exist."""

from .memory import FUNCTION_PARAMETERS
from .ptx_types import Function

SPECIAL_REGISTERS = {
    *(f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid") for axis in "xyz"),
    *(f"{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid") for axis in "xyz"),
    *("laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "cluster_ctarank", "cluster_nctarank", "is_explicit_cluster"),
    *("lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"),
    *("dynamic_smem_size", "total_smem_size", "aggr_smem_size", "reserved_smem_offset_begin", "current_graph_exec"),
    *(f"envreg{number}" for number in range(32)),
    *("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"),
}  # fmt: skip
CHANGING_REGISTERS = {"clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"}


def function_parameters(function: Function) -> tuple[dict[str, tuple[str, int]], int]:
    """Return the places of a function's local variables and parameters in its frame, and the frame's size."""
    places: dict[str, tuple[str, int]] = {}
    size = 0
    kernel_params = {variable.name for variable in function.params} if function.entry else set()
    for variable in function.variables.values():
        if variable.name in kernel_params or variable.space not in ("local", "param"):
            continue
        align = max(variable.align, 1)
        size = -(-size // align) * align
        # The space of parameters of device functions is local memory too: their addresses have a mark.
        places[variable.name] = ("local", size + (FUNCTION_PARAMETERS if variable.space == "param" else 0))
        size += variable.size
    if function.entry:
        offset = 0
        for variable in function.params:
            offset = -(-offset // variable.align) * variable.align
            places[variable.name] = ("param", offset)
            offset += variable.size
    return places, -(-size // 16) * 16
