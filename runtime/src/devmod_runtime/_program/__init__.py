"""Programs: functions whose body is a list of launches (`devmod.program`)."""
