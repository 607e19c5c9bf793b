"""Commands of devmod-targets: one file for each."""
