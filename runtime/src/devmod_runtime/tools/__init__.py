"""The commands of devmod-runtime and what they share: nothing that a call uses imports this folder."""
