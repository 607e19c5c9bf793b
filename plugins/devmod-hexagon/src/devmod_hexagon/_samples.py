"""A shared object for the conformance cases, so that most of them need no compiler."""

from __future__ import annotations

import zlib
from base64 import b64decode

from devmod import FunctionInfo, Interface, Param

# void axpy(const float *x, float *y, float a, int n)
# {
#     for (int i = 0; i < n; i++)
#         y[i] += a * x[i];
# }
#: The shared object of this C for v66, as `devmod.compile` writes it, compressed by zlib.
_AXPY = (
    "eNqVVM9rE1EQnre72cSEYvwBRvEQ8RBPSy0FRYRu2mpAImj1IhR028Qk1GxCsi0JCKlE0qpBCQg5KEigJIgecvO62KIXT8U/wEOlNwtiPWnXmd23dYm5OOTb"
    "+ebNvDez83ZSu5S8zBgDV0RYA9caR0RFgLs2j4IfzkAIgiBzn4svHBLH39Mc0ZkDybaY7S8yArOxhTbB5/HfFAiCjfNovx0BOy/5hSF+gszzz3w1UsP2u7Vd"
    "Rz8MERmGi1OvU+dhrJLxNcIJxDL+iPeuPr9PtQmeffuiVYpVOsdcD2+p4pJPhcrs9tQhq2b5xYS4JL9n/diU2KyvQz9i+u+ACjUwoeaL+/qxWr29ajXar2uN"
    "9ifUqwlh5xvyXz+6vQT6DpqN1kW10bqC+hH6FpD/Rl/GqrebaO997/ZWkD9FbiHvIX+GHDa7nY/IXyJnyLeRP0YuID8H4uSTFWFHnpb74udu58OEeise922o"
    "pm8jYkr79Z1Wl19I5oPWw7qwE9jsvAHz1Qz18Si+fAh1mN9rFu0g7/HunlUY59/DNU+T4scoMF3RMgUdGO2WJgMsyJI5fSFduhBNJqejY2PKWQUvVElV9XI1"
    "D0pGX1SyWjkL/EnrRgkUI10xbEvL5+ZBKaXvlQq3i1oqldMzGOtkUTTDKOXmFo10GZT5Qj6f1nFTOYsnGNoc/IfQa4T43dO7E6KeeZB4Lw4gflpWgeKoB4ST"
    "nm9F4voI75vAe0SIDMQRjtsz68RRjwnyQF0kpziXwZ07Z+ZcCXMd4zEiuPPjzJbkyRtAjHJNcU2Ma2KcMfJv3gknpuiuU1xkSH03OB/l9prg9MAbR5jlOV15"
    "Jzj/T4Pn/QHdc8Uf"
)


def axpy_code() -> bytes:
    """Return the shared object."""
    return zlib.decompress(b64decode(_AXPY))


def axpy_info() -> FunctionInfo:
    """Return the description of its function."""
    params = [
        Param("x", "buffer", "float32", "r"),
        Param("y", "buffer", "float32", "rw"),
        Param("a", "scalar", "float32"),
        Param("n", "scalar", "int32"),
    ]
    return FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], (), (), Interface(params))
