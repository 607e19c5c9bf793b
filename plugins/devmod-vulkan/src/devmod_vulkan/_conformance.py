"""Entry point ``devmod.conformance.vulkan``: shaders with their expected results, for `devmod conformance vulkan` and this plugin's tests.

The shaders are stored as SPIR-V, so that the kit needs no compiler. glslangValidator and ``spirv-opt -O --strip-debug`` made each
from the GLSL in the comment above it. One more shader is compiled, for the rows about the compiler.
"""

from __future__ import annotations

from base64 import b64decode
from zlib import decompress

from devmod import Block, FunctionInfo, Interface, Param
from devmod.backend import GRID_TAGS
from devmod_conformance import Call, Conformance, Sample, axpy_call, count_call, spin_call, transpose_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# #version 450
# layout(local_size_x = 32) in;
# layout(binding = 0) readonly buffer X { float x[]; };
# layout(binding = 1) buffer Y { float y[]; };
# layout(push_constant) uniform P { float a; int n; };
# void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] += a * x[i]; }
_AXPY = (
    "eNptlNlOwlAQhse24gKKWBQV2WxUShV3ITGaeKUX3PkEJj6AiV5o4kP5di6JiTOnX0klkhxO559//tkovhfNiExJUWZlKOmnIp4ioljB3Teju1H/6fmhf3p2"
    "aP5F8R3PfGXlTOsd6Ll/eXwVFyeypHjgtETacJ2WokU4m3puNTokb8SdYVNggYvzHeah0dK7gM/47QkN4xvmw9/Se2vsS+1OrqbuH71AYrhr6Mf/6Mc5/WRC"
    "P0E/swf0vK4n1C485/ddvD2vKKfArOxTU3uOmnyHBzJPvYZfYBfBEuJLxBt/AZ/hq6qS7cJyLef20lQ7ZFfLxFbJE5Kr6uJSLCF+lXjj1/AZXtWO6no3NGcL"
    "3Sb7aMHv0Hcb/Q7z83L6Ua6XbfQr6HZzuraHLrweGjG6PaeX5Qpkn+dKbmZn1JHZ5/S1p5blHMA5H59ppxFQn+3nUxF7D671e8G9I+lubB+X6JbBjVPjt7XC"
    "HC/peR38jZgNsHeNqfPOlME/NHOTGr6Vv+lmIw6zehrkstntkCsil/W/C36tmWwufWYVkSPjHeDLeEfsapJ3jK+k/yVmnzDHY3Id8HyldR/h/9I6s3rt/tGI"
    "oZ5fLUAsKA=="
)

# #version 450
# layout(local_size_x = 8) in;
# layout(binding = 0) readonly buffer V { int values[]; };
# layout(binding = 1) buffer C { uint counts[]; };
# layout(set = 1, binding = 2) uniform P { int n; };
# void main() { uint i = gl_GlobalInvocationID.x; if (i < n) atomicAdd(counts[values[i] & 7], 1); }
_COUNT = (
    "eNptU81OwmAQXNtaVEQsUBSBUlqJYgUxUWNiPHjCAzefwMSLB73o0YfyLXwXX8CfxMTZr1PzSSD5WHZ2Zna7X3GdtCSyJGVZkWPJP4E4QASYb+J0djMbPz3f"
    "jU9OJ1rfENfwtFYFZxnRw3m4vX8UoxPZBO4ZL4FzzjVeQMvkdHCuoa6xb8o4hb9iDvkNxMTSa9636hGizxnUr7fATzGX/D79xMr7ln/yz8/789mmf7rAP7X8"
    "B3P+A/oX+YTP38Kp4ykcU3eNXn+H4Gj/mJot5KucyTW4J2ucV/EL5mViGfXr1Cu/wppP/4D+ikXcd0BunXPU6K15g1hGbWh5N1kLDM+RHcQuPIt7ibj/iPyY"
    "/B79Y+s+VZfQK+JeE+p2yUmp03wwN9cQp0R+xppv7WQ0t6Mjvp+HyHSXE2IjnjPct8N3Qbj/TyD6zl/hu2L+D/nudd+X9K0SV07T3GG+w5CcgO+T4i/UtIi9"
    "QqM7bNNH8Q907nKGb/Db/P90OU/H9PJNrz3uJaS+6LfP2hv8NT8gNqQ2M3vI7yJk/R3b1NnGrI34nBq/0Lfor/EHmz3H+QVopCm+"
)

# #version 450
# layout(local_size_x = 4, local_size_y = 4) in;
# layout(binding = 0) buffer F { float from[]; };
# layout(binding = 1) buffer T { float to[]; };
# layout(push_constant) uniform P { layout(offset = 0) int width; layout(offset = 8) int height; };
# shared float tile[4][4];
# void main() {
#     uvec2 here = gl_LocalInvocationID.xy, at = gl_WorkGroupID.xy * 4;
#     if (at.x + here.x < width && at.y + here.y < height) tile[here.y][here.x] = from[(at.y + here.y) * width + at.x + here.x];
#     barrier();
#     if (at.y + here.x < height && at.x + here.y < width) to[(at.x + here.y) * height + at.y + here.x] = tile[here.x][here.y];
# }
_TRANSPOSE = (
    "eNptlNtO00EQxrcHCmhVKhYjloJFsSipqBwKaBOQiCYYNXgAQqJge4EXUFq4wBijCTcKL6FP4CP5EsZDYuLM9rdk0rTJZv/zzcw33+zsNhYdbHcu4k66DvfN"
    "NX4pFxXECZbw+8Li0mKhvlsujI2Pqv+0i/k49Z2RvDbZ47J2a+tb9ep2vSLfSVldfiW8L0VMnLwF+Ur6Gs5dxO7C7pX1QFj70TPIHrAIWIfPi3ksCses7Anq"
    "aPxcE4fGKxYjfl723LGvYV8ydq2Jr96Cr2749pr49uALPR/R4wVZ3aI66v0xn6/faYnRegNwnBe7HQ1R7BPYMR8X93zKr/gMdhIs2F3Y1+HvpqdzwtpD3Sx1"
    "NS4rdr/fHXjc+zpl9cM7QG+d8GZN7xo/iC9r6l4zOhQfxe6RborUz4hvSvYiOtWeln0KW7ln0D+NFrXvgPUJ1yz5WeY9S949znGOPLXnwdT/jO8i9ks4i6aH"
    "FWKCvap3MdKoWzN19V7U4Nklp05dtffARoRFZ3dEf92c04jcN539V4NPCBZFk+MO/BZE3+Bd7sYp5h/sFPN/LGzKdxYsBYee/wG10vi15lPBErzHNLEBy1BH"
    "fx/B+ojN+PNu8/O/zB3JoUdnfgX8Pec3BPZdcvQuXoVL8V/S4TB1/kq8+vKyhuk7bzSNoDNisAI6I0bnDWILRudNdI4anbfAg87bYEHnGFyK/xEtQZPuP+U0"
    "NWacftqIz9PTpOlp3M/VeUzzJ4z+ktEfsPumz9DTQ/ASs1TsEfiQiXsC3muwJfDG3BL+DTznXeTw65novX6BT+P0bSzz7krkl6S3ZeL0TEJPuv8QjhXez6rp"
    "Z61FP6/A7V163WJG6+BhRhtgYUZv4Nrg3Cvm3NVXllVBY9lo2mxxb95ybpuGfwt8iH4DV8XcgW10TBJfRsuO0aIxVVk75FeNlv0WWt6hZd/M+wP4hon7BL5m"
    "sAPwjJnjZ+aYgTPM+wu+cC8O+d/KwaPzPiRO+w/6df8niouy/gPTV4Iz"
)

# #version 450
# layout(local_size_x = 4, local_size_y = 4) in;
# layout(binding = 0) buffer F { float from[]; };
# layout(binding = 1) buffer T { float to[]; };
# layout(std140, binding = 2) uniform P { layout(offset = 0) int width; layout(offset = 8) int height; };
# shared float tile[4][4];
# void main() {
#     uvec2 here = gl_LocalInvocationID.xy, at = gl_WorkGroupID.xy * 4;
#     if (at.x + here.x < width && at.y + here.y < height) tile[here.y][here.x] = from[(at.y + here.y) * width + at.x + here.x];
#     barrier();
#     if (at.y + here.x < height && at.x + here.y < width) to[(at.x + here.y) * height + at.y + here.x] = tile[here.x][here.y];
# }
_TRANSPOSE_UNIFORM = (
    "eNptlNtO00EQxrcHCtGqVAQjlgJFaxFSUTkU0CYgEU0wavAAhETB9gIvOPRwgTFGE24UXkKfwEfyJYyHxMSZ7W+TSdMmm/3PNzPffLOz21h0pNO5iDvtutw3"
    "1/ylXFQQJ1jC78srqyuFWr1cmJyaUP9ZF/Nx6jsneR2yx2XVq1u7tf29WkW+k7K6/Up4X4qYOHnL8pX0NZy7jN2N3S/rgbAOomeEPWARsC6fF/NYFI5h2bPE"
    "B3vY+BdkT6BD+RZbaiifYjHil1r4luALdrWFr9aGr2b4Gi18DfjCmZxwBpdk9YjqqPfHfL5+90qM1huC46LYnWiIYp/Cjvm4uOdTfsXnsZNgwe7GHoO/h54u"
    "CGsfdTPU1biM2IN+d+Bx71MNg/AOmbMfIz/0rvEj+DKm7nWjQ/EJ7D7ppkj9tPhmZS+iU+052WexlXse/XNoUfsO2IBwLZCfYd4L5N1D0yJ5ai+Bqf8Z30Xs"
    "l3AWTQ/rpme1N/SuRpp1q6au3osqPHVyatRVuwE2Liw6uxP66+GcxuW+6ey/GnxasCiaHHfgtyD6Ru9yN84w/2CnmP9jYVO+82ApOPT8j6jVi19rPhUswXvt"
    "JTZgaero7yPYALFpf94dfv5XuCNZ9OjMr4K/5/xyYN8lR+/iNbgU/yUdjlLnr8SrLy9rlL7zRtM4OiMGK6AzYnTeILZgdN5E54TReQs86LwNFnROwqX4H9ES"
    "NOn+U05TY6bop4P4PD3NmJ6m/FydxzR/2ugvGf0Bu2/6DD09BC8xS8UegedM3BPwfoOtgjfnlvBv4DnvIotfz0Tv9Qt8GqdvY413VyK/JL2tEadnEnrS/Ydw"
    "rPN+Nkw/m236eQVu79LrNjPaAg8z2gYLM3oD1zbnXjHnrr6yrAoay0bTTpt785Zz2zH8u+A5+g1cFXMH9tAxQ3wZLQdGi8bsyzogf99oOWyj5R1aDs28P4Bv"
    "m7hP4JsGOwJPmzl+Zo5pOMO8v+AL9+KY/60sPDrvY+K0/6Bf93+iuCjrP0zlgzs="
)

# #version 450
# layout(local_size_x = 16) in;
# layout(binding = 0) buffer X { uint x[]; };
# layout(push_constant) uniform P { int n; };
# void main() {
#     uint value = x[gl_GlobalInvocationID.x];
#     for (int i = 0; i < n; i++) value = value * 1664525u + 1013904223u;
#     x[gl_GlobalInvocationID.x] = value;
# }
_SPIN = (
    "eNptUstOwlAUvLaliEIBEZAoRsAHUUAW8vCZsMIFOz/AjTFxQ0zwA1z4Q36b0aiJiTO306YxNrm998zMmXvOaV2nlTZmyayaZXNmwqdoHCAGmG/36exm1ls83fVO"
    "Bn3ygXGtjlwemhR2D2vx+DAP840pAPfic6i1XkAz2H3lXCN7Rfe2tE/hT8yVPou9GXNh3EjERVurMVvya/zjR8yRfiR9DasE1LF+rr2P5zI0rG9H+XUwUc3bqi1j"
    "ec/6MIfYueJswicnH/Z+pDiQbxVxXr6u/ArxXEO/gmYY5VO7pnzqS+J8xRXdHdXKvnPimqq7Ie+mZhT1sqsz9etwOUjceUj8vhbHHazbt/lF1NPxnxoH+u5RPBTf"
    "QcTeRtIM45WydXvqjfP4BMJ/a4J3ydYUzoL9X8q3LHyCqGJnGs4/EBfpNsR9wXNT3tzfTdryp9Lwvq7+JXLsbSw/cn1xrInz2tMMA91F/b7wV2g4w7Y8iH9AU5cH"
    "n2/EbcV11cXzC3J9O7+wNs7/WVhXeEdYTnWN9R2SPdLzCtOsyucHX2GM9QtSJyxK"
)

#: Compiled where glslang is installed.
_SCALE = """#version 450
layout(local_size_x = 32) in;
layout(binding = 0) buffer X { float x[]; };
void main() { x[gl_GlobalInvocationID.x] *= 3; }
"""


def _shader(packed: str, flag: int = 0) -> bytes:
    words = decompress(b64decode(packed))
    return flag.to_bytes(4, "little") + (len(words) // 4).to_bytes(8, "little") + words


def _buffers(*buffers: tuple[str, str, str]) -> list[Param]:
    return [Param(name, "buffer", dtype, access, (0, binding)) for binding, (name, dtype, access) in enumerate(buffers)]


def _linear_info() -> dict[str, FunctionInfo]:
    a, n = Param("a", "scalar", "float32", at=(0, 0)), Param("n", "scalar", "int32", at=(0, 4))
    axpy = Interface([*_buffers(("x", "float32", "r"), ("y", "float32", "rw")), a, n], [Block("push", 8)], (32, 1, 1))
    # The scalar is in a uniform buffer of another set.
    uniform = Param("n", "scalar", "int32", at=(0, 0))
    count = Interface([*_buffers(("values", "int32", "r"), ("counts", "uint32", "rw")), uniform], [Block((1, 2), 4)], (8, 1, 1))
    return {
        "axpy": FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], GRID_TAGS, (), axpy),
        "count": FunctionInfo("main", ["handle", "handle", "int32"], GRID_TAGS, (), count),
    }


def _spin_info() -> dict[str, FunctionInfo]:
    spin = Interface([*_buffers(("x", "uint32", "rw")), Param("n", "scalar", "int32", at=(0, 0))], [Block("push", 4)], (16, 1, 1))
    return {"spin": FunctionInfo("spin", ["handle", "int32"], GRID_TAGS, (), spin)}


def _scale(x: Any) -> None:
    x *= 3


class VulkanConformance(Conformance):
    """SPIR-V with an interface, and SPIR-V in TVM's form: scalars in push constants or, if the flag is set, in a uniform buffer."""

    kind = "vulkan"
    build_step = "devmod_vulkan._pipeline.Pipeline"
    driver_modules = ("vulkan",)
    samples = (
        Sample(
            {"axpy": _shader(_AXPY), "count": _shader(_COUNT)},
            "spv",
            _linear_info(),
            source={"spv": "; a listing"},
            calls=[axpy_call(), count_call()],
        ),
        Sample(
            {"transpose": _shader(_TRANSPOSE), "transpose_uniform": _shader(_TRANSPOSE_UNIFORM, 1)},
            "spv",
            {
                name: FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], GRID_TAGS)
                for name in ("transpose", "transpose_uniform")
            },
            calls=[transpose_call(), transpose_call("transpose_uniform")],
        ),
        Sample(
            {"transpose": _shader(_TRANSPOSE)},
            "spv",
            {"transpose": FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], GRID_TAGS)},
            calls=[transpose_call()],
        ),
        Sample.compiled(_SCALE, "vulkan", name="scale", calls=[Call("scale", lambda rng: [rng.random(64, "float32")], _scale, grid=2)]),
    )
    slow = Sample({"spin": _shader(_SPIN)}, "spv", _spin_info(), calls=[spin_call(grid=64)])
    bad_payloads = (
        Sample({"k": b""}, "spv", {"k": FunctionInfo("k", ["handle"])}),
        Sample({"k": b"\x00\xff"}, "spv", {"k": FunctionInfo("k", ["handle"])}),
        Sample({"k": bytes(12)}, "spv", {"k": FunctionInfo("k", ["handle"])}),
        Sample({"k": _shader(_AXPY)[:-4]}, "spv", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample({"k": _shader(_AXPY)}, "spv", {"k": FunctionInfo("other", ["handle"])}),
        Sample({"k": _shader(_AXPY)}, "spv", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample({"j": _shader(_AXPY)}, "spv", {"k": FunctionInfo("k", ["handle"])}),
    )
