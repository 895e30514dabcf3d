"""Loopback ports that are free now."""

import random
import socket
from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
NEXT_PORTS = 200  # how far to look beyond a busy one
OUT_OF_THE_WAY = range(20_000, 32_000)  # the kernel gives none of these to outgoing connections, which would take it


def free_port(preferred: int = 0) -> int:
    """`preferred` or the next free one after it; 0: any."""
    for port in _candidates(preferred):
        with socket.socket() as probe:
            # Servers set it too; without it a port with connections in TIME_WAIT would count as busy.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            chosen: int = probe.getsockname()[1]
            return chosen
    raise OSError(f"no free port on {LOOPBACK}")


def _candidates(preferred: int) -> Iterator[int]:
    if preferred:
        yield from range(preferred, min(preferred + NEXT_PORTS, 65536))
    yield from random.sample(OUT_OF_THE_WAY, NEXT_PORTS)
    yield 0
