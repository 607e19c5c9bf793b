"""The value types: function infos, dtypes, targets, origins. Of devmod they import errors and
`_util` alone.

docs/design/modules.md has the reasons.
"""
