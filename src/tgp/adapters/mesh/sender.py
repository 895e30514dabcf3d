"""Sends a call to a mesh's control server once, and maps a missing answer to an error. A lost call can be
repeated: an unused key expires, and a removal is idempotent.
"""

from dataclasses import replace

from tgp.ports.http import Call, Http, HttpError, NeverLeft, Reply, TooLarge
from tgp.ports.mesh import MeshBusy

ANSWER_BYTES = 1 << 20  # an ordinary answer
LIST_BYTES = 8 << 20  # a whole tailnet: ten thousand devices of 800 bytes


class MeshSender:
    """Sends to one control server. Error texts name the server, method and path."""

    def __init__(self, http: Http, title: str) -> None:
        self._http = http
        self._title = title

    async def send(self, call: Call, *, max_bytes: int = ANSWER_BYTES) -> Reply:
        try:
            return await self._http.send(replace(call, max_bytes=max_bytes))
        except NeverLeft as error:
            raise MeshBusy(f"{self._title} cannot be reached: {error}") from error
        except TooLarge as error:
            raise MeshBusy(f"{self._title} answered {call.method} {call.path} with too many bytes") from error
        except HttpError as error:
            raise MeshBusy(f"{self._title} did not answer {call.method} {call.path}") from error
