"""What the checks of the simulated GPU find in the kernels of sanitized_kernels.txt, in a language:
a JSON map of the title to the reports, on standard output.

A case begins with `@ check fault / innocent | grid and block | lengths of the arrays and n | arrays
in local memory | parts of a report`. Lines that only the fault has end with "//wrong", those that
only the innocent has with "//right". A report is at a line with "!". The kernels have `i` and `j`,
the thread in its block, `at`, that in the grid, the arrays y and x of floats, z of integers, and n.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple


class Language(NamedTuple):
    """The target and the suffix, what the words of a case stand for, what a file begins with, what
    precedes the lines of a kernel, and a declaration of an array in local memory. `is_local`
    is whether it is in the kernel.
    """

    target: str
    suffix: str
    words: dict[str, str]
    head: str
    kernel: str
    array: str
    is_local: bool = False
    has_one_kernel: bool = False
    lacks: frozenset[str] = frozenset()


#: Two elements. These languages have no pointers.
_STORE2 = {r"STORE2\((\w+), (.*)\);": r"\1[\2] = 1; \1[\2 + 1] = 1;"}
_NO_POINTERS = frozenset({"a vector between its multiples"})
_COMMON_HLSL = {
    r"BARRIER\b": "GroupMemoryBarrierWithGroupSync()",
    "BARRIER_GLOBAL": "AllMemoryBarrierWithGroupSync()",
    r"FLOAT\b": "float",
    r"ATOMIC_ADD\((\w+), (.*), (.*)\)": r"InterlockedAdd(\1[\2], \3)",
}
_HLSL = _COMMON_HLSL | _STORE2
_SLANG = _COMMON_HLSL | {r"STORE2\((\w+), (.*)\);": r"*(float2*)(&\1[\2]) = float2(1, 1);"}
FORMS = {
    "OpenCL C": Language(
        "opencl",
        "cl",
        {
            r"BARRIER\b": "barrier(CLK_LOCAL_MEM_FENCE)",
            "BARRIER_GLOBAL": "barrier(CLK_GLOBAL_MEM_FENCE)",
            r"FLOAT\b": "(float)",
            r"ATOMIC_ADD\((\w+), (.*), (.*)\)": r"atomic_add(&\1[\2], \3)",
            r"STORE2\((\w+), (.*)\);": r"*(global float2 *)(\1 + \2) = 1;",
        },
        "",
        "kernel __attribute__((reqd_work_group_size({x}, {y}, 1))) void {name}(global float *y, global const float *x, "
        "global int *z, int n) {{ {arrays} int i = get_local_id(0), j = get_local_id(1), at = get_global_id(0);\n",
        "local {type} {name}[{length}];",
        is_local=True,
    ),
    "HLSL": Language(
        "vulkan",
        "hlsl",
        _HLSL,
        "RWStructuredBuffer<float> y : register(u0);\nStructuredBuffer<float> x : register(t1);\n"
        "RWStructuredBuffer<int> z : register(u2);\ncbuffer Values : register(b3) { int n; };\n",
        "{arrays} [numthreads({x}, {y}, 1)] void {name}(uint3 local_id : SV_GroupThreadID, uint3 id : SV_DispatchThreadID) "
        "{{ int i = local_id.x, j = local_id.y, at = id.x;\n",
        "groupshared {type} {name}[{length}];",
        lacks=_NO_POINTERS,
    ),
    "Slang": Language(
        "webgpu",
        "slang",
        _SLANG,
        "",
        '{arrays} [shader("compute")] [numthreads({x}, {y}, 1)] void {name}(RWStructuredBuffer<float> y, StructuredBuffer<float> x, '
        "RWStructuredBuffer<int> z, uniform int n, int3 local_id : SV_GroupThreadID, int3 id : SV_DispatchThreadID) "
        "{{ int i = local_id.x, j = local_id.y, at = id.x;\n",
        "groupshared {type} {name}[{length}];",
    ),
    "GLSL": Language(
        "vulkan",
        "comp",
        {
            r"BARRIER\b": "barrier()",
            "BARRIER_GLOBAL": "memoryBarrierBuffer(); barrier()",
            r"FLOAT\b": "float",
            r"ATOMIC_ADD\((\w+), (.*), (.*)\)": r"atomicAdd(\1[\2], \3)",
            **_STORE2,
        },
        "#version 450\n"
        "layout(std430, binding = 0) buffer Y {{ float y[]; }};\nlayout(std430, binding = 1) readonly buffer X {{ float x[]; }};\n"
        "layout(std430, binding = 2) buffer Z {{ int z[]; }};\nlayout(push_constant) uniform Values {{ int n; }};\n",
        "layout(local_size_x = {x}, local_size_y = {y}) in; {arrays} void main() {{ int i = int(gl_LocalInvocationID.x), "
        "j = int(gl_LocalInvocationID.y), at = int(gl_GlobalInvocationID.x);\n",
        "shared {type} {name}[{length}];",
        has_one_kernel=True,
        lacks=_NO_POINTERS,
    ),
    "WGSL": Language(
        "webgpu",
        "wgsl",
        {
            r"BARRIER\b": "workgroupBarrier()",
            "BARRIER_GLOBAL": "storageBarrier()",
            r"FLOAT\b": "f32",
            r"ATOMIC_ADD\((\w+), (.*), (.*)\)": r"atomicAdd(&\1[\2], \3)",
            **_STORE2,
            r"\bfloat (\w+) =": r"var \1: f32 =",
            r"\bint (\w+) =": r"var \1: i32 =",
        },
        "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n@group(0) @binding(1) var<storage, read> x: array<f32>;\n"
        "@group(0) @binding(2) var<storage, read_write> z: array<NUMBER>;\n@group(0) @binding(3) var<uniform> n: i32;\n",
        "{arrays} @compute @workgroup_size({x}, {y}) fn main(@builtin(local_invocation_id) local_id: vec3u, "
        "@builtin(global_invocation_id) id: vec3u) {{ let i = i32(local_id.x); let j = i32(local_id.y); let at = i32(id.x);\n",
        "var<workgroup> {name}: array<{type}, {length}>;",
        has_one_kernel=True,
        # All accesses to an atomic are atomic, and memory of a workgroup begins as zeros.
        lacks=_NO_POINTERS
        | frozenset(
            {
                "an atomic against a plain read",
                "a result that is stored",
                "a sum over the tail of a tile",
                "a counter in shared memory",
                "a branch",
            }
        ),
    ),
}


class Case(NamedTuple):
    """A kernel: its title and its name, the check, the threads of the grid and of a block, the
    lengths of its arrays and n, its arrays in local memory, its lines, and the parts of a report.
    """

    title: str
    name: str
    check: str
    threads: tuple[int, ...]
    block: tuple[int, ...]
    values: dict[str, int]
    arrays: list[tuple[str, str, str]]
    lines: list[str]
    parts: list[str]

    @property
    def is_fault(self) -> bool:
        return bool(self.parts)


def cases() -> list[Case]:
    """Return the faults and the innocents."""
    text = Path(__file__).with_name("sanitized_kernels.txt").read_text()
    result = []
    for number, part in enumerate(re.split(r"^@ ", text, flags=re.MULTILINE)[1:]):
        head, *lines = part.splitlines()
        fields = [each.strip() for each in head.split("|")]
        titles, shape, values, arrays, report = [*fields, "", ""][:5]
        fault, _, innocent = titles.partition("/")
        check, _, fault = fault.partition(" ")
        grid, block = ([*map(int, each.split(","))] for each in shape.split())
        for title, other, name in (
            (fault.strip(), "//right", f"fault{number}"),
            (innocent.strip(), "//wrong", f"innocent{number}"),
        ):
            if not title:
                continue
            is_fault = other == "//right"
            declared = arrays.split(" / ")[0 if is_fault else -1]
            result.append(
                Case(
                    title,
                    name,
                    check,
                    (grid[0] * block[0], *block[1:]),
                    (*block, 1)[:2],
                    {
                        key: int(value)
                        for key, value in (each.split("=") for each in values.split())
                    },
                    re.findall(r"(\w+) (\w+)\[(\d+)\]", declared),
                    ["" if other in line else line for line in lines],
                    report.split(" ; ") if is_fault else [],
                )
            )
    return result


def array_name(case: Case, language: Language, array: str) -> str:
    """Return the name of an array in local memory, which is that of a file in some languages."""
    if language.is_local:
        return array
    return f"{array}_{case.name}"


def expected_parts(case: Case, language: Language) -> list[str]:
    """Return the parts of a report, with the names of arrays in local memory."""
    parts = []
    for part in case.parts:
        for _, array, _ in case.arrays:
            part = re.sub(rf"^{array}\[", array_name(case, language, array) + "[", part)
        parts.append(part)
    return parts


def with_atomics(body: str, names: set[str]) -> str:
    """Return lines of WGSL, in which an atomic has no plain accesses."""
    for name in names:
        element = rf"(?<!&)\b{name}(\[[^\]]*\])"
        body = re.sub(
            rf"^( *){element} = (.*);", rf"\1atomicStore(&{name}\2, \3);", body, flags=re.M
        )
        body = re.sub(element, rf"atomicLoad(&{name}\1)", body)
    return body


def head_of(case: Case, language: Language) -> str:
    """Return what a file with a kernel begins with."""
    is_atomic = any(re.search(r"ATOMIC_ADD\(z,", line) for line in case.lines)
    head = language.head.replace("{{", "{").replace("}}", "}")
    return head.replace("NUMBER", "atomic<i32>" if is_atomic else "i32")


def text_of(case: Case, language: Language) -> str:
    """Return a kernel. Its arrays in local memory have names of their own in the file."""
    body = "\n".join(re.sub(r" *//(wrong|right)?.*", "", line) for line in case.lines)
    for word, text in language.words.items():
        body = re.sub(word, text, body)
    types = {"float": "float", "int": "int"}
    atomics: set[str] = set()
    if language.suffix == "wgsl":
        types = {"float": "f32", "int": "i32"}
        atomics = set(re.findall(r"atomicAdd\(&(\w+)", body))
        body = with_atomics(body, atomics)
    arrays = []
    for kind, array, length in case.arrays:
        type_ = types[kind]
        if array in atomics:
            type_ = f"atomic<{type_}>"
        name = array_name(case, language, array)
        body = re.sub(rf"\b{array}\b(?=\[|,)", name, body)
        arrays.append(language.array.format(type=type_, name=name, length=length))
    x, y = case.block
    name = case.name
    start = language.kernel.format(x=x, y=y, name=name, arrays=" ".join(arrays))
    return f"{start}{body}\n}}\n"


def expected_lines(case: Case, start: int) -> set[int]:
    """Return the lines at which a report may be. `start` is the number of lines before the
    kernel's.
    """
    return {start + number for number, line in enumerate(case.lines, 1) if re.search("//.*!", line)}


def files(language: Language) -> list[tuple[str, list[tuple[Case, int]]]]:
    """Return the texts of the files, each with its cases and the number of lines before theirs."""
    result = []
    text = ""
    inside: list[tuple[Case, int]] = []
    for case in cases():
        if not text:
            text = head_of(case, language)
        inside.append((case, text.count("\n") + 1))
        text += text_of(case, language)
        if language.has_one_kernel:
            result.append((text, inside))
            text = ""
            inside = []
    if inside:
        result.append((text, inside))
    return result


def main(name: str) -> None:
    """Print what is found in all kernels of a language."""
    import numpy as np

    import devmod
    from devmod_simulators import SanitizeError, sanitize
    from devmod_targets.simulated import compile_for_checks

    language = FORMS[name]
    found: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        for number, (text, inside) in enumerate(files(language)):
            path = Path(folder, f"k{number}.{language.suffix}")
            path.write_text(text)
            with sanitize():
                module = compile_for_checks(path, language.target)
            for case, start in inside:
                function = module[case.name if not language.has_one_kernel else path.stem]
                values = {"n": case.values.get("n", 1)}
                for array, dtype in (("y", "float32"), ("x", "float32"), ("z", "int32")):
                    values[array] = np.arange(case.values.get(array, 1)).astype(dtype)
                # In HLSL a function takes what it uses.
                taken = [each.name for each in function.info.interface.params]
                given = {array: values[array] for array in taken}
                reports = []
                try:
                    with sanitize():
                        function.on(devmod.device("cuda"))(**given, threads=case.threads)
                except SanitizeError as error:
                    reports = error.reports
                lines = [f"{path.name}:{line} " for line in expected_lines(case, start)]
                found[f"{case.check} {case.title}"] = {
                    "reports": reports,
                    "at a line": any(
                        re.search(rf"(^|/){re.escape(line)}", each["source"])
                        for each in reports
                        for line in lines
                    ),
                }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
