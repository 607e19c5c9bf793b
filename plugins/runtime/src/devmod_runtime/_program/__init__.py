"""Programs: functions whose body is a list of launches (`devmod.program`).

docs/design/programs.md has the reasons.
"""
