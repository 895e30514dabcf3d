"""Traffic that costs next to nothing to make: run as a script on both ends, so that the tunnel is what is measured.

The sender hands pages of memory to the kernel (sendfile), the receiver lets the kernel throw them away (MSG_TRUNC).
"""

import os
import socket
import sys
import time

CHUNK = 16 << 20
WAIT_S = 10.0


def main(role: str, address: str, port: str, amount: str) -> None:
    """One of the four roles; `amount` is in seconds for pouring, and a number of rounds for throwing."""
    {"drain": drain, "pour": pour, "return": terminate, "throw": throw}[role]((address, int(port)), float(amount))


def drain(place: tuple[str, int], _amount: float) -> None:
    """Bits per second from the first byte to the last, as the receiver saw them."""
    with _accepted(place) as line:
        total, began = len(line.recv(1)), time.monotonic()
        while got := line.recv_into(_SINK, 0, socket.MSG_TRUNC):
            total += got
        print(f"{total * 8 / (time.monotonic() - began):.0f}")


def pour(place: tuple[str, int], seconds: float) -> None:
    with _connected(place) as line:
        pages = os.memfd_create("pages")
        os.truncate(pages, CHUNK)
        stop_at = time.monotonic() + seconds
        while time.monotonic() < stop_at:
            sent = 0
            while sent < CHUNK:
                sent += os.sendfile(line.fileno(), pages, sent, CHUNK - sent)


def terminate(place: tuple[str, int], _amount: float) -> None:
    with _accepted(place) as line:
        while ball := line.recv(64):
            line.sendall(ball)


def throw(place: tuple[str, int], rounds: float) -> None:
    """The median of there and back, in microseconds."""
    times = []
    with _connected(place) as line:
        for _ in range(int(rounds)):
            began = time.perf_counter()
            line.sendall(b"o")
            line.recv(64)
            times.append(time.perf_counter() - began)
    print(f"{sorted(times)[len(times) // 2] * 1e6:.1f}")


_SINK = bytearray(1 << 20)


def _accepted(place: tuple[str, int]) -> socket.socket:
    with socket.create_server(place) as server:
        server.settimeout(WAIT_S)
        line, _ = server.accept()
    line.setblocking(True)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


def _connected(place: tuple[str, int]) -> socket.socket:
    give_up_at = time.monotonic() + WAIT_S
    while True:
        try:
            line = socket.create_connection(place, timeout=1)
        except OSError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.02)
        else:
            line.setblocking(True)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return line


if __name__ == "__main__":
    main(*sys.argv[1:])
