"""Vast's limits: a least interval per endpoint and caller, ten searches a minute, and a quota of searches a day."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.vast.answers import answer, too_frequent

INTERVALS = {  # seconds
    CloudVerb.LAUNCH: 4.5,
    CloudVerb.TERMINATE: 3.0,
    CloudVerb.STATUS: 2.0,
    CloudVerb.LIST: 1.0,
    CloudVerb.OTHER: 1.0,
}
SEARCHES, SEARCHES_PER = 10, timedelta(minutes=1)


@dataclass(slots=True)
class VastRateLimit:
    on: bool = False
    searches_left: int | None = None  # today; None: unlimited
    _last: dict[tuple[str, CloudVerb], datetime] = field(default_factory=dict)
    _searches: deque[datetime] = field(default_factory=lambda: deque(maxlen=SEARCHES))

    def refusal(self, verb: CloudVerb, key: str, now: datetime) -> Reply | None:
        """None: go ahead; this call is counted."""
        if verb is CloudVerb.OFFERS:
            return self._searching(now)
        interval = INTERVALS.get(verb)
        if not self.on or interval is None:
            return None
        last = self._last.get((key, verb))
        if last is not None and (now - last).total_seconds() < interval:
            return too_frequent(interval)
        self._last[key, verb] = now
        return None

    def _searching(self, now: datetime) -> Reply | None:
        if self.searches_left is not None:
            if self.searches_left <= 0:
                return _quota(now)
            self.searches_left -= 1
        if self.on and len(self._searches) == SEARCHES and now - self._searches[0] < SEARCHES_PER:
            return too_frequent(SEARCHES_PER.total_seconds() / SEARCHES)
        self._searches.append(now)
        return None


def _quota(now: datetime) -> Reply:
    reset = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    body = {"success": False, "error": "search_quota_exceeded", "msg": "Daily search quota exceeded"}
    return answer(body, 429, ("X-RateLimit-Reset", str(int(reset.timestamp()))))
