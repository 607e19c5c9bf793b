"""The Triton kernels of the vectors in compilers/targets/tests/vectors/triton, and of the tests
where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + i, weights / tl.sum(weights, axis=0), mask=i < n)


@triton.jit
def line(x, pair, scale, flag, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = pair[0] + pair[1] * i + scale.to(tl.float32)
    if flag:
        values = -values
    tl.store(x + i, values, mask=i < n)


@triton.jit
def shift(x, n, BLOCK: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, [n, BLOCK], [BLOCK, 1], [16, BLOCK])
    rows.store([16, 0], rows.load([0, 0]))


#: For each vector: the function, the types of its arguments, its constants and the options of the
#: compiler.
VECTORS = {
    "add": (
        add,
        {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        {"BLOCK": 256},
        {},
    ),
    "softmax": (
        softmax,
        {"out": "*fp32", "x": "*kfp32", "stride": "i32", "n": "i32", "BLOCK": "constexpr"},
        {"BLOCK": 128},
        {},
    ),
    "line": (
        line,
        {
            "x": "*fp32",
            "pair": ("fp32", "i32"),
            "scale": "fp16",
            "flag": "i1",
            "n": "i32",
            "BLOCK": "constexpr",
        },
        {"BLOCK": 128},
        {"num_ctas": 2, "num_warps": 2, "launch_pdl": True},
    ),
    "shift": (shift, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 32}, {}),
}
