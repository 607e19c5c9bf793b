"""The form of a payload, from its magic bytes (R31)."""

from __future__ import annotations

from devmod._util.elf import ELF_MAGIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._values.code import Binary

#: The magic bytes, the form in `TargetSpec.compiled_as`, and the form's name in messages.
_FORMS = (
    (ELF_MAGIC, "elf", "an ELF file"),
    (b"\x03\x02\x23\x07", "spirv", "SPIR-V"),
    (b"\x07\x23\x02\x03", "spirv", "SPIR-V"),
    (b"\x50\xed\x55\xba", "fatbin", "a CUDA fatbin"),
    (b"MTLB", "metallib", "a metallib"),
    (b"__CLANG_OFFLOAD_BUNDLE__", "offload_bundle", "a clang offload bundle"),
    (b"CCOB", "compressed_offload_bundle", "a compressed clang offload bundle"),
    (b"\x10\xff\x10\xad", "offload_binary", "an LLVM OffloadBinary"),
    (b"poclbin\0", "pocl", "a program binary of PoCL"),
)
_NAMES = {form: name for _, form, name in _FORMS} | {"text": "text", "": "bytes that are neither text nor of a known magic"}


def detect_form(data: Binary) -> str:
    """Return the form of a payload: a key of `TargetSpec.compiled_as`, "text" for UTF-8 text, "" for other bytes.

    Zero bytes at the end of a text are allowed: NVRTC includes the final one of its PTX.
    """
    for magic, form, _ in _FORMS:
        if bytes(data[: len(magic)]) == magic:
            return form
    if not len(data):
        return ""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text.rstrip("\0") else "text"


def form_title(form: str) -> str:
    """Return the title of a form for messages, such as "a CUDA fatbin"."""
    return _NAMES[form]
