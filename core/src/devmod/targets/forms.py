"""The form of a payload, from its magic bytes (R31)."""

from __future__ import annotations

from devmod._util.elf import ELF_MAGIC

#: The magic bytes, and the form in `TargetSpec.compiled_as`.
_FORMS = (
    (ELF_MAGIC, "elf"),
    (b"\x03\x02\x23\x07", "spirv"),
    (b"\x07\x23\x02\x03", "spirv"),
    (b"\x50\xed\x55\xba", "fatbin"),
    (b"MTLB", "metallib"),
    (b"__CLANG_OFFLOAD_BUNDLE__", "offload_bundle"),
    (b"CCOB", "compressed_offload_bundle"),
    (b"\x10\xff\x10\xad", "offload_binary"),
    (b"poclbin\0", "pocl"),
)


def detect_form(data: bytes | memoryview) -> str:
    """Return the form of a payload: a key of `TargetSpec.compiled_as`, "text" for UTF-8 text, ""
    for other bytes.

    Zero bytes at the end of a text are allowed: NVRTC includes the final one of its PTX.
    """
    for magic, form in _FORMS:
        if bytes(data[: len(magic)]) == magic:
            return form
    if not len(data):
        return ""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError:
        return ""
    if "\0" in text.rstrip("\0"):
        return ""
    return "text"
