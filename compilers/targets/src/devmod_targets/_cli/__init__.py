"""Commands of devmod-targets: one file for each. docs/design/command-line.md has the reasons."""
