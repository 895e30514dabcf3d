"""What an error answer means: each provider has a table of the answers that are known, and all else is unknown.

A row counts only where the answer is in the provider's own format (`Said`): a proxy may have written any other. And an
answer that names a machine is never a refusal of its order, whatever else it says. After a refused termination the
machine is still billed, so it is requested again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.ports.http import Reply

NOT_NOW_PAUSE = timedelta(minutes=1)  # of a machine that is locked, or too young to be terminated
ABOUT_ORDERS = (OrderRefused, SoldOut, AccountExhausted)  # these say that nothing was launched, and something was
STRANGE = "not in the provider's error format"


@dataclass(frozen=True, slots=True)
class Said:
    """An error in the provider's own format."""

    words: str  # safe to show; empty: it gives no reason
    code: str = ""
    text: str = ""  # in which the rows' texts are looked for, lower case


@dataclass(frozen=True, slots=True)
class Row:
    """An answer that is known: all that is set must fit."""

    error: type[CloudError]
    statuses: tuple[int, ...] = ()  # empty: any
    codes: tuple[str, ...] = ()  # empty: any
    texts: tuple[str, ...] = ()  # one of them is in the text; empty: any text
    without: tuple[str, ...] = ()  # none of them is in the text
    advice: str = ""  # what it means, where the provider's words do not say; empty: they do

    def fits(self, status: int, said: Said) -> bool:
        return (
            (not self.statuses or status in self.statuses)
            and (not self.codes or said.code in self.codes)
            and (not self.texts or any(part in said.text for part in self.texts))
            and not any(part in said.text for part in self.without)
        )

    def words(self, said: Said) -> str:
        return f"{self.advice} ({said.words})" if self.advice and said.words else self.advice or said.words


def first_fitting(rows: Iterable[Row], status: int, said: Said) -> Row | None:
    """None: the answer is not known."""
    return next((row for row in rows if row.fits(status, said)), None)


def _asked_pause(reply: Reply) -> timedelta | None:
    return reply.retry_after


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """What is known of one provider's error answers. `said` is None where an answer is not in its format."""

    title: str
    orders: tuple[Row, ...]  # nothing was made
    looks: tuple[Row, ...]  # of a read: mostly about key and account
    ends: tuple[Row, ...] = ()  # nothing was terminated; empty: as of orders
    busy: tuple[int, ...] = ()  # of a read: temporary, besides 429 and 5xx
    pause: Callable[[Reply], timedelta | None] = _asked_pause  # after 429; None: the caller decides
    trouble_pause: timedelta | None = None  # after 5xx, where the provider asks for none; None: the caller decides

    def after_order(self, reply: Reply, said: Said | None, what: str, machine: str = "") -> CloudError:
        """`machine`: the id that the answer names, if it names one."""
        if machine:
            words = f"{self.title} answered {reply.status} to {what} and named machine {machine}"
            return OutcomeUnknown(words, machine)
        return self._known(self.orders, reply, said, what) or self.unknown(reply, said, what)

    def after_end(self, reply: Reply, said: Said | None, what: str) -> CloudError:
        known = self._known(self.ends or self.orders, reply, said, what)
        return not_ended(known) if known is not None else self.unknown(reply, said, what)

    def after_look(self, reply: Reply, said: Said | None, what: str) -> CloudError:
        """Never means "absent"."""
        known = self._known(self.looks, reply, said, what)
        if known is not None:
            return known
        words = self._words(reply, said.words if said is not None else STRANGE, what)
        if reply.status >= 500 or reply.status in self.busy:
            return CloudBusy(words, reply.retry_after or self.trouble_pause)
        return CannotTell(words)

    def unknown(self, reply: Reply, said: Said | None, what: str) -> OutcomeUnknown:
        return OutcomeUnknown(self._words(reply, said.words if said is not None else STRANGE, what))

    def _known(self, rows: tuple[Row, ...], reply: Reply, said: Said | None, what: str) -> CloudError | None:
        row = first_fitting(rows, reply.status, said) if said is not None else None
        if row is not None and said is not None:
            words = self._words(reply, row.words(said), what)
            return (
                CloudBusy(words, reply.retry_after or self.trouble_pause)
                if row.error is CloudBusy
                else row.error(words)
            )
        if reply.status == 429:
            return CloudBusy(self._words(reply, "too many calls", what), self.pause(reply))
        return None

    def _words(self, reply: Reply, why: str, what: str) -> str:
        return f"{self.title} answered {reply.status} to {what}" + (f": {why}" if why else "")


def not_ended(error: CloudError) -> CloudError:
    """The same text as a retryable error; errors that are not about an order stay as they are."""
    return CloudBusy(str(error), NOT_NOW_PAUSE) if isinstance(error, ABOUT_ORDERS) else error
