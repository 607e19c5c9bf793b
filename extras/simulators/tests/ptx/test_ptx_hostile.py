"""Texts that ask for more than a device has, and those without an end: each is refused by its text
alone, with its line.
"""

from __future__ import annotations

import pytest

from devmod_simulators.ptx import Module, PtxError

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
KERNEL = HEAD + ".visible .entry k() {\n"

TEXTS = {
    "a comment": (HEAD + "/* * /*", "line 4: the comment has no end"),
    "a string": (HEAD + '\n.file 1 "a\\"', "line 5: the string has no end"),
    "braces": (KERNEL + "{" * 200_000, "line 5: more than 256 braces are nested"),
    "a vector": (
        KERNEL + "mov.b32 " + "{" * 50_000,
        "line 5: more than 64 brackets are nested",
    ),
    "an address": (
        KERNEL + "ld.u32 %r, " + "[" * 50_000,
        "line 5: more than 64 brackets are nested",
    ),
    "a negation": (KERNEL + "and.pred " + "!" * 50_000, "line 5: more than 64 brackets are nested"),
    "initial values": (
        HEAD + ".global .b8 g[] = " + "{" * 50_000,
        "line 4: more than 64 brackets are nested",
    ),
    "masks": (
        HEAD + ".global .b8 g[] = {" + "0xFF(" * 50_000,
        "line 4: more than 64 brackets are nested",
    ),
    "an empty mask": (
        HEAD + ".global .b8 g[] = {0x0(g)};",
        "line 4: expected an address behind the mask 0x0",
    ),
    "a mask of a number": (
        HEAD + ".global .b8 g[] = {0xFF(3)};",
        "line 4: expected an address behind the mask 0xFF",
    ),
    "a mask of nothing": (
        HEAD + ".global .b8 g[] = {0xFF({})};",
        "line 4: expected an address behind the mask 0xFF",
    ),
    "a mask that is a float": (
        HEAD + ".global .b8 g[] = {0f3F800000(g)};",
        "line 4: expected an address behind the mask 0f3F800000",
    ),
    "a global": (
        HEAD + ".global .b8 g[4000000000] = {1};",
        "the module has 4000000000 bytes of global memory; the simulated GPU has 1073741824",
    ),
    "dimensions": (
        HEAD + ".global .b8 g[1000000][1000000][10];",
        "the module has 10000000000000 bytes of global memory; the simulated GPU has 1073741824",
    ),
    "shared memory": (
        HEAD + ".shared .b8 s[99999999999];\n.visible .entry k() { mov.u32 %r, s; }",
        "kernel k has 99999999999 bytes of shared memory; the simulated GPU has 49152",
    ),
    "local memory": (
        KERNEL + ".local .b8 s[99999999999]; ret; }",
        "function k has 99999999999 bytes of local memory; the simulated GPU has 524288",
    ),
    "a parameter": (
        HEAD + ".visible .entry k(.param .b8 p[99999999999]) { ret; }",
        "kernel k has 99999999999 bytes of param memory; the simulated GPU has 32764",
    ),
    "an alignment": (
        HEAD + ".global .align 1099511627776 .b8 g[4];",
        "line 4: the alignment 1099511627776 is larger than 65536",
    ),
    "registers": (
        KERNEL + ".reg .b32 " + ", ".join(f"%r{number}_<60000>" for number in range(9)) + "; }",
        "line 5: 60000 registers are too many",
    ),
    "threads": (
        HEAD + ".visible .entry k() .maxntid 99999999999 { ret; }",
        "line 4: .maxntid 99999999999 has more than 32 bits",
    ),
    "an offset": (
        KERNEL + ".reg .b64 %r<2>; ld.u64 %r1, [%r0 + 99999999999999999999]; }",
        "line 5: expected an integer of 64 bits, got '99999999999999999999'",
    ),
    "a word": (HEAD + "k" * 1000, f"line 4: unexpected '{'k' * 188} …"),
}


@pytest.mark.volume_but("a comment", "a global")
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_without_bounds_is_invalid(name: str) -> None:
    text, expected = TEXTS[name]
    with pytest.raises(PtxError) as caught:
        Module(text).check()
    assert str(caught.value) == f"CUDA_ERROR_INVALID_PTX: {expected}"


@pytest.mark.parametrize(
    "text",
    [
        KERNEL + "{" * 200 + "}" * 200 + "ret; }",
        HEAD + "/* a * / /* b */ .visible .entry k() { ret; }",
        HEAD + ".global .b8 g[1000000000];\n.visible .entry k() { ret; }",
        HEAD + ".shared .b8 s[49152];\n.visible .entry k() { .reg .b32 %r; mov.u32 %r, s; ret; }",
        KERNEL + ".local .align 16 .b8 s[524288]; ret; }",
        KERNEL + ".reg .b32 %r<60000>; ret; }",
    ],
)
def test_a_text_within_them_is_not(text: str) -> None:
    Module(text).check()
