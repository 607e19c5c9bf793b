"""The kernels get scalars without their sign."""

from devmod_toy._module import changing_values, entries

ROWS = ("R34-scalars",)
REASON = "'store_int8' with the int8 -1: the kernel got 127"


def change(value):
    return value[:-1] + bytes([value[-1] & 127]) if type(value) is bytes and len(value) < 8 else value


create, load_from_bytes, load_from_file = entries(changing_values(change))
