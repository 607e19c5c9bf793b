"""The launch path: what every backend's functions share, from the arguments of a call to the backend's one enqueue."""
