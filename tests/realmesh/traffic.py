"""TCP from one computer to another: does it get there whole?"""

import random
import socket
import threading
import time
from hashlib import sha256

from tools.lan import Host

PORT = 8080
MEBIBYTES = 4  # more than every buffer on the way: acknowledgements, full segments and retransmission are all in it
BOUND_S = 20.0
SILENCE_S = 3.0  # after which there is no answer; an answer within a namespace takes milliseconds
CARGO = random.Random(1).randbytes(MEBIBYTES << 20)


def carried(sender: Host, receiver: Host, address: str, port: int = PORT) -> bool:
    """Everything that was sent arrived, and the answer came back. Raises OSError where nothing does."""
    near, far = _connected(sender, receiver, address, port, SILENCE_S)
    with near, far:
        digests: list[bytes] = []
        answering = threading.Thread(target=_answer, args=(far, digests), daemon=True)
        answering.start()
        near.sendall(CARGO)
        near.shutdown(socket.SHUT_WR)
        answer = near.recv(64)
        answering.join(BOUND_S)
    return digests == [sha256(CARGO).digest()] and answer == digests[0]


def silent(sender: Host, address: str, port: int = PORT) -> bool:
    """There is no answer, not even a refusal."""
    with sender.inside():
        try:
            socket.create_connection((address, port), timeout=SILENCE_S).close()
        except TimeoutError:
            return True
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # no route: the interface or the key is gone
    return False


def soon_carried(sender: Host, receiver: Host, address: str, within_s: float = BOUND_S) -> bool:
    """The same, while the way is being made: a first handshake may be lost."""
    give_up_at = time.monotonic() + within_s
    while True:
        try:
            return carried(sender, receiver, address)
        except OSError:
            if time.monotonic() > give_up_at:
                raise


class Line:
    """A connection that is kept open: is it still alive?"""

    def __init__(self, sender: Host, receiver: Host, address: str, port: int = PORT + 1) -> None:
        self._near, self._far = _connected(sender, receiver, address, port, BOUND_S)
        for end in (self._near, self._far):
            end.settimeout(SILENCE_S)

    def alive(self) -> bool:
        try:
            self._near.sendall(b"are you there?")
            return self._far.recv(64) == b"are you there?"
        except OSError:
            return False

    def close(self) -> None:
        self._near.close()
        self._far.close()


def _connected(
    sender: Host, receiver: Host, address: str, port: int, patience_s: float
) -> tuple[socket.socket, socket.socket]:
    with receiver.inside():
        server = socket.create_server((address, port), family=_family(address))
    with server:
        with sender.inside():
            near = socket.create_connection((address, port), timeout=patience_s)
        server.settimeout(BOUND_S)
        far, _ = server.accept()
    for end in (near, far):
        end.settimeout(BOUND_S)
    return near, far


def _answer(line: socket.socket, digests: list[bytes]) -> None:
    digest = sha256()
    while piece := line.recv(1 << 16):
        digest.update(piece)
    digests.append(digest.digest())
    line.sendall(digest.digest())


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
