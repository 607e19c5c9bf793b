"""The kernels get the low 32 bits of scalars of 64 bits."""

from devmod_toy._module import changing_values, entries

ROWS = ("R34-scalars",)
REASON = "'store_int64' with the int64 9223372036854775807: the kernel got 4294967295"


def change(value):
    return value[:4] + bytes(4) if type(value) is bytes and len(value) == 8 else value


create, load_from_bytes, load_from_file = entries(changing_values(change))
