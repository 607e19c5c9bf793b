"""The compiler of the Metal shading language. docs/design/metal.md has the reasons."""
