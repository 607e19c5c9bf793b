"""The softmax of each row of a matrix, for Triton. A program computes one row, BLOCK elements at a
time.
"""

import triton
import triton.language as tl

CONFIGURATIONS = [
    triton.Config({"BLOCK": 1024}, num_warps=4),
    triton.Config({"BLOCK": 256}, num_warps=2),
    triton.Config({"BLOCK": 2048}, num_warps=8),
    triton.Config({"BLOCK": 4096}, num_warps=16),
]


@triton.autotune(CONFIGURATIONS, key=["columns"])
@triton.jit
def softmax(x, y, rows, columns, BLOCK: tl.constexpr):
    first = tl.program_id(0) * columns
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.load(x + first + i, mask=i < columns, other=float("-inf")))
    peak = tl.max(top, 0)

    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        part = tl.load(x + first + i, mask=i < columns, other=float("-inf"))
        total += tl.exp(part - peak)
    whole = tl.sum(total, 0)

    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        part = tl.load(x + first + i, mask=i < columns, other=0.0)
        tl.store(y + first + i, tl.exp(part - peak) / whole, mask=i < columns)
