"""The import accesses the network."""

import socket

from devmod_toy import create as create

ROWS = ("R39",)
REASON = "the look-up of devmod.create does socket.getaddrinfo(127.0.0.1, …"
socket.getaddrinfo("127.0.0.1", 80)
