"""Sends a call to a provider once, and maps a missing answer to an error."""

from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qsl, urljoin, urlsplit

from tgp.core.model.cloud_errors import CloudBusy, OutcomeUnknown
from tgp.ports.http import Call, Http, NeverLeft, NoAnswer, Reply, TooLarge

LOOK_BYTES = 4 << 20  # an ordinary answer
OFFERS_BYTES = 16 << 20  # a whole list of offers
UNREACHABLE_PAUSE = timedelta(seconds=10)
QUIET_PAUSE = timedelta(seconds=5)
REDIRECTS = (301, 302, 303, 307, 308)


def redirected(call: Call, reply: Reply, base_url: str) -> Call | None:
    """The call that follows a redirect; None: not a GET, no redirect, or a redirect to another server."""
    if call.method != "GET" or reply.status not in REDIRECTS or not (told := reply.header("Location").strip()):
        return None
    base = base_url.rstrip("/")
    try:
        parts = urlsplit(urljoin(f"{base}{call.path}", told))
    except ValueError:
        return None
    here = urlsplit(base)
    if (parts.scheme, parts.netloc) != (here.scheme, here.netloc) or not parts.path.startswith(f"{here.path}/"):
        return None
    query = tuple(parse_qsl(parts.query, keep_blank_values=True))
    return replace(call, path=parts.path.removeprefix(here.path), query=query)


class Sender:
    """Sends to one provider. Error texts name provider, method and path."""

    def __init__(self, http: Http, title: str, base_url: str = "") -> None:
        self._http = http
        self._title = title
        self._base_url = base_url  # the base URL of `http`; empty: no redirect is followed

    async def look(self, call: Call, *, max_bytes: int = LOOK_BYTES, follow: bool = False) -> Reply:
        """A call that changes nothing, whatever its method: some providers search by POST.

        `follow`: where the same host redirects a GET, it is sent once more to the new address; no other call is.
        """
        reply = await self._look(call, max_bytes)
        again = redirected(call, reply, self._base_url) if follow and self._base_url else None
        return reply if again is None else await self._look(again, max_bytes)

    async def _look(self, call: Call, max_bytes: int) -> Reply:
        try:
            return await self._http.send(replace(call, max_bytes=max_bytes))
        except NeverLeft as error:
            raise CloudBusy(f"{self._title} cannot be reached: {error}", UNREACHABLE_PAUSE) from error
        except TooLarge as error:
            raise CloudBusy(
                f"{self._title} answered {call.method} {call.path} with a reply that is too large"
            ) from error
        except NoAnswer as error:
            raise CloudBusy(f"{self._title} did not answer {call.method} {call.path}", QUIET_PAUSE) from error

    async def change(self, call: Call) -> Reply:
        """A call that changes something: sent once. No answer is `OutcomeUnknown`."""
        try:
            return await self._http.send(replace(call, max_bytes=LOOK_BYTES))
        except NeverLeft as error:  # no connection was made: nothing can have happened at the provider
            raise CloudBusy(f"{self._title} cannot be reached: {error}", UNREACHABLE_PAUSE) from error
        except NoAnswer as error:
            raise OutcomeUnknown(f"{self._title} did not answer {call.method} {call.path}") from error
