"""Sends a call to a provider once, and says what a silence means."""

from dataclasses import replace
from datetime import timedelta

from tgp.core.model.cloud_errors import CloudBusy, OutcomeUnknown
from tgp.ports.http import Call, Http, NeverLeft, NoAnswer, Reply, TooLarge

LOOK_BYTES = 4 << 20  # an ordinary answer
OFFERS_BYTES = 16 << 20  # a whole market
UNREACHABLE_PAUSE = timedelta(seconds=10)
QUIET_PAUSE = timedelta(seconds=5)


class Sender:
    """One provider's wire. The texts of its errors name provider, method and path."""

    def __init__(self, http: Http, title: str) -> None:
        self._http = http
        self._title = title

    async def look(self, call: Call, *, max_bytes: int = LOOK_BYTES) -> Reply:
        """A call that changes nothing, whatever its method: some providers search by POST."""
        try:
            return await self._http.send(replace(call, max_bytes=max_bytes))
        except NeverLeft as error:
            raise CloudBusy(f"{self._title} cannot be reached: {error}", UNREACHABLE_PAUSE) from error
        except TooLarge as error:
            raise CloudBusy(f"{self._title} answered {call.method} {call.path} with too much to read") from error
        except NoAnswer as error:
            raise CloudBusy(f"{self._title} did not answer {call.method} {call.path}", QUIET_PAUSE) from error

    async def change(self, call: Call) -> Reply:
        """A call that changes something: sent once. Silence is `OutcomeUnknown`."""
        try:
            return await self._http.send(replace(call, max_bytes=LOOK_BYTES))
        except NeverLeft as error:  # no connection was made: nothing can have happened over there
            raise CloudBusy(f"{self._title} cannot be reached: {error}", UNREACHABLE_PAUSE) from error
        except NoAnswer as error:
            raise OutcomeUnknown(f"{self._title} did not answer {call.method} {call.path}") from error
