"""The commands of this wheel: `devmod conformance` and `devmod new-backend`."""
