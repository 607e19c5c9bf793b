"""Whole models as programs: `devmod onnx`, and functions of tinygrad's Tensors
(`devmod.interop.tinygrad`).

docs/design/models.md has the reasons.
"""
