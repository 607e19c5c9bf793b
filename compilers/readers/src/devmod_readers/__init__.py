"""The readers of devmod: what a build and a runtime read from binaries and from the text of
sources. They need no toolchain and no driver.

- `devmod_readers.spirv` reads SPIR-V.
- `devmod_readers.nvidia` reads PTX, cubins and fatbins, `devmod_readers.amdgpu` code objects.
- `devmod_readers.elf` reads ELF files.
- `devmod_readers.offload` takes containers of device code apart.
- `devmod_readers.tvm` reads and writes the bytes of Apache TVM's modules, for `devmod.interop.tvm`.
- `devmod_readers.sources` reads the text of source payloads, so that it reads no file of its
  receiver.
- `devmod_readers.options` has the options that the source of a payload may have.
- `devmod_readers.reflection` has the types that the readers return.

docs/design/readers.md has the reasons.
"""
