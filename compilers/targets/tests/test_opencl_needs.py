"""What the compiler of OpenCL C finds out of a program beside its arguments: images, needs, and the
size of subgroups.
"""

from __future__ import annotations

from typing import Any

import pytest

import devmod

pytestmark = pytest.mark.once  # what libclang reads in a source

READ = "read_imagef(i, (int2)(0)).x"
SAMPLER = (
    "constant sampler_t S = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;\n"
)


def interfaces(source: str, **options: Any) -> dict[str, devmod.Interface]:
    found = {
        name: info.interface
        for name, info in devmod.compile(source, "opencl", **options).functions.items()
    }
    return {name: interface for name, interface in found.items() if interface is not None}


def images(source: str, **options: Any) -> list[tuple[str, str, str]]:
    """Return the type, the access and the sample of each image of the kernel `k`."""
    params = interfaces(source, **options)["k"].params
    return [(param.type, param.access, param.sample) for param in params if param.kind == "image"]


def needs(source: str, *options: str) -> dict[str, tuple[str, ...]]:
    return {
        name: interface.needs
        for name, interface in interfaces(source, options=list(options)).items()
    }


# -- images


def test_the_types_and_accesses_of_images() -> None:
    types = {
        "1d": "1d",
        "2d": "2d",
        "3d": "3d",
        "1d_array": "1d_array",
        "2d_array": "2d_array",
        "1d_buffer": "1d_buffer",
    }
    types |= {
        "2d_depth": "",
        "2d_array_depth": "",
    }  # devmod has no such images; the runtime compares OpenCL's own type
    arguments = ", ".join(
        f"read_only image{name}_t a{number}, image{name}_t b{number}"
        for number, name in enumerate(types)
    )
    expected = [(type_, "r", "") for type_ in types.values() for _ in range(2)]
    assert images(f"kernel void k({arguments}) {{}}") == expected
    assert images(
        "kernel void k(write_only image2d_t a, __read_write image3d_t b) {}",
        options=["-cl-std=CL2.0"],
    ) == [
        ("2d", "w", ""),
        ("3d", "rw", ""),
    ]


@pytest.mark.filterwarnings("ignore:clang has warnings")
def test_a_typedef_of_an_image_is_an_image() -> None:
    assert images("typedef image2d_t picture;\nkernel void k(read_only picture a) {}") == [
        ("2d", "r", "")
    ]


@pytest.mark.filterwarnings("ignore:clang has warnings")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "read_imagef(a, S, (int2)(0)); write_imageui(b, (int2)(0), (uint4)(0));",
            ["float", "uint"],
        ),
        (
            "read_imagei((a), S, (float2)(0)); write_imagei(((b)), (int2)(0), (int4)(0));",
            ["int", "int"],
        ),
        ("float4 x = first(a, 0); second(b);", ["float", "int"]),
        ("GET(a); PUT(b);", ["uint", "float"]),
        (
            "if (get_global_id(0)) read_imagef(a, S, (int2)(0)); else read_imagei(a, S, (int2)(0));",
            ["", ""],
        ),
        ("int w = get_image_width(a);", ["", ""]),
    ],
)
def test_the_sample_of_an_image_follows_from_the_calls_that_get_it(
    body: str, expected: list[str]
) -> None:
    macros = "".join(
        f"#define {line}\n"
        for line in (
            "GET(t) read_imageui(t, S, (int2)(0))",
            "PUT(t) write_imagef(t, (int2)(0), (float4)(0))",
        )
        if line[:3] in body
    )
    helpers = (
        "float4 read(read_only image2d_t t) { return read_imagef(t, S, (int2)(0)); }\n"
        "float4 first(read_only image2d_t t, int n) { return read(t); }\n"
        "void second(write_only image2d_t t) { write_imagei(t, (int2)(0), (int4)(0)); }\n"
    )
    source = f"{SAMPLER}{macros}{helpers if 'first' in body else ''}kernel void k(read_only image2d_t a, write_only image2d_t b) {{ {body} }}"
    assert [sample for _, _, sample in images(source)] == expected


def test_functions_of_one_name_have_samples_of_their_own() -> None:
    source = (
        f"{SAMPLER}"
        "float4 __attribute__((overloadable)) get(read_only image2d_t t) { return read_imagef(t, S, (int2)(0)); }\n"
        "float4 __attribute__((overloadable)) get(read_only image3d_t t) { return convert_float4(read_imagei(t, S, (int4)(0))); }\n"
        "kernel void k(read_only image2d_t a, read_only image3d_t b) { get(a); get(b); }"
    )
    assert images(source) == [("2d", "r", "float"), ("3d", "r", "int")]


@pytest.mark.filterwarnings("ignore:clang has warnings")
def test_a_branch_that_is_not_compiled_may_have_another_sample() -> None:
    source = (
        f"{SAMPLER}kernel void k(read_only image2d_t a) {{\n#ifdef INTEGERS\n  read_imagei(a, S, (int2)(0));\n#else\n"
        "  read_imagef(a, S, (int2)(0));\n#endif\n}"
    )
    assert images(source) == [("2d", "r", "")]
    assert images(source.replace("read_imagei", "read_imageh")) == [("2d", "r", "float")]


# -- needs


@pytest.mark.filterwarnings("ignore:clang has warnings")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "kernel void k(global half *x, global float *y) { y[0] = vload_half(0, x); vstore_half(y[0], 1, x); }",
            "",
        ),
        ("kernel void k(global half *x) { x[0] += 1; }", "fp16"),
        ("kernel void k(global half4 *x) { half4 y = *x; }", "fp16"),
        ("kernel void k(global float *x) { x[0] = 1.0h; }", "fp16"),
        (
            "typedef half real;\nreal f(real x) { return x; }\nkernel void k(global float *x) {}",
            "fp16",
        ),
        (
            "kernel void k(global float *x) { x[0] = x[0] * 2.0 + M_PI; }",
            "",
        ),  # one of float without double
        ("kernel void k(global double *x) {}", "fp64"),
        ("kernel void k(global float *x) { x[0] = (float)((double)x[0] / 3); }", "fp64"),
        ("kernel void k(global float *x) { x[0] = convert_float(convert_double(x[0])); }", "fp64"),
        ("kernel void k(global double2 *x) {}", "fp64"),
        ('// double\nkernel void k(global float *x) { printf("double half"); }', ""),
        ("kernel void k(global int *x) { atom_add(x, 1); atomic_add(x, 1); }", ""),
        ("kernel void k(global ulong *x) { atom_add(x, 1ul); }", "int64_atomics"),
        ("kernel void k(volatile local long *x) { atom_max(x, 1l); }", "int64_atomics"),
        ("kernel void k(global long *x) { atom_add(x, 1); }", "int64_atomics"),
        ("kernel void k(global long *x) { atom_inc(x); }", "int64_atomics"),
        ("kernel void k(global int *x, global float *y) { x = y; atom_add(x, 1); }", ""),
        ("kernel void k(global int *x) { x[0] = get_sub_group_local_id(); }", "subgroups"),
        ("kernel void k(read_only image3d_t x) {}", "images"),
        ("kernel void k(sampler_t x) {}", "images"),
        ("kernel void k(write_only image3d_t x) {}", "image_writes_3d images"),
    ],
)
def test_a_kernel_needs_what_its_program_does_not_compile_without(
    source: str, expected: str
) -> None:
    assert needs(source) == {"k": tuple(expected.split())}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("kernel void k(global atomic_long *x) { atomic_fetch_add(x, 1); }", "int64_atomics"),
        ("kernel void k(global atomic_int *x) { atomic_fetch_add(x, 1); }", ""),
        ("kernel void k(global int *x) { x[0] = sub_group_reduce_add(x[0]); }", "subgroups"),
        (
            "#ifdef cl_khr_subgroups\n#define SUM sub_group_reduce_add\n#else\n#define SUM\n#endif\nkernel void k(global int *x) { SUM(x[0]); }",
            "",
        ),
        (
            "#ifdef __opencl_c_subgroups\n#define SUM sub_group_reduce_add\n#else\n#define SUM\n#endif\nkernel void k(global int *x) { SUM(x[0]); }",
            "",
        ),
    ],
)
@pytest.mark.parametrize("standard", ["CL2.0", "CL3.0"])
def test_the_needs_of_newer_versions(source: str, expected: str, standard: str) -> None:
    assert needs(source, f"-cl-std={standard}") == {"k": tuple(expected.split())}


@pytest.mark.parametrize("standard", ["CL1.1", "CL1.2", "CL2.0", "CL3.0"])
def test_words_alone_are_no_needs(standard: str) -> None:
    words = "half double cl_khr_fp16 cl_khr_fp64 atom_add cl_khr_int64_base_atomics image3d_t sub_group cl_intel_subgroups cl_khr_subgroups"
    source = f"// {words}\nkernel void k(global float *x, read_only image3d_t i) {{ x[0] += 2.0 + get_image_width(i); }}"
    assert needs(source, f"-cl-std={standard}") == {"k": ("images",)}


def test_a_driver_builds_the_whole_program() -> None:
    source = "kernel void a(global half *x) { x[0] += 1; }\nkernel void b(global float *x, sampler_t s) {}"
    assert needs(source) == {"a": ("fp16",), "b": ("fp16", "images")}


def test_code_for_devices_with_a_feature_needs_nothing_but_for_its_kernels() -> None:
    source = (
        "#ifdef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\ntypedef half real;\n"
        "kernel void only(global half *x) { x[0] += 1.0h; }\n#else\ntypedef float real;\n#endif\n"
        "kernel void both(global float *x) { real y = x[0]; x[0] = y * 2; }\n"
    )
    assert needs(source) == {"only": ("fp16",), "both": ()}


def test_an_error_for_devices_without_a_feature_is_a_need() -> None:
    source = (
        "#if defined(cl_khr_fp64)\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#elif defined(cl_amd_fp64)\n"
        "#pragma OPENCL EXTENSION cl_amd_fp64 : enable\n#else\n#error no double\n#endif\nkernel void k(global float *x) {}"
    )
    assert needs(source) == {"k": ("fp64",)}


def test_a_define_and_an_option_may_name_the_type() -> None:
    source = "kernel void k(global REAL *x) { x[0] *= 2; }"
    for name, expected in (("half", ("fp16",)), ("double", ("fp64",)), ("float", ())):
        assert needs(source, f"-DREAL={name}") == {"k": expected}
        assert interfaces(source, defines={"REAL": name})["k"].needs == expected


def test_a_vendors_functions_of_subgroups() -> None:
    source = (
        "kernel void k(global int *x) { x[0] = intel_sub_group_shuffle(x[0], 1u) + amd_add(x[0]); }"
    )
    with pytest.warns(UserWarning, match="undeclared function 'intel_sub_group_shuffle'"):
        assert needs(source) == {"k": ("subgroups",)}
    with pytest.warns(UserWarning, match="undeclared function 'amd_add'"):
        assert needs("kernel void k(global double *x) { x[0] = amd_add(x[0]); }") == {
            "k": ("fp64",)
        }
    with pytest.warns(UserWarning, match="undeclared function 'amd_add'"):
        assert needs("kernel void k(global float *x) { /* double */ x[0] = amd_add(x[0]); }") == {
            "k": ()
        }


def test_the_required_size_of_subgroups() -> None:
    source = (
        "#define WIDTH (8 * 2)\n__attribute__((intel_reqd_sub_group_size(WIDTH))) kernel void a(global int *x);\n"
        "kernel void a(global int *x) {}\nkernel void b(global int *x) {}\n"
        "__attribute__((reqd_work_group_size(32, 1, 1))) __attribute__((intel_reqd_sub_group_size(32))) kernel void c(global int *x) {}"
    )
    found = interfaces(source)
    assert {name: (each.subgroup, each.needs) for name, each in found.items()} == {
        "a": (16, ("subgroup_size",)),
        "b": (None, ()),
        "c": (32, ("subgroup_size",)),
    }
    assert found["c"].block == (32, 1, 1)


def test_a_declared_function_keeps_what_was_read() -> None:
    source = "kernel void k(read_only image2d_t x, global half *y) { y[0] += 1; }"
    declared = devmod.FunctionInfo("k", ["handle", "handle"])
    interface = devmod.compile(source, "opencl", fmap={"k": declared}).functions["k"].interface
    assert interface is not None
    assert interface.needs == ("fp16", "images")
