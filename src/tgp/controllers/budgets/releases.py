"""Changes that hold or release a pod or a Job: one that the API server refuses keeps no other waiting."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from tgp.api.resource import Resource
from tgp.core.model.facts import BudgetNoted, FactSubject
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.workload import Job
from tgp.ports.cluster import Cluster, Conflict, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal

ASKED_AGAIN = timedelta(minutes=1)
FORGOTTEN = timedelta(minutes=10)  # after the last refusal: it is gone, or no longer to be changed
HOLD, RELEASE = "HoldBlocked", "ReleaseBlocked"  # reasons of Events


class Outcome(Enum):
    DONE = "done"
    GONE = "gone"
    OUTDATED = "outdated"  # it has changed since it was seen: look again
    REFUSED = "refused"  # by a role or an admission policy; asked for again in a minute


class Releases:
    def __init__(self, cluster: Cluster, journal: Journal) -> None:
        self._cluster = cluster
        self._journal = journal
        self._refused: dict[str, datetime] = {}  # by uid; when

    async def change(
        self, resource: Resource, thing: Pod | Job, change: Mapping[str, Any], now: datetime, *, reason: str = RELEASE
    ) -> Outcome:
        uid = uid_text(thing.uid)
        self._refused = {each: at for each, at in self._refused.items() if now < at + FORGOTTEN}
        known = self._refused.get(uid)
        if known is not None and now < known + ASKED_AGAIN:
            return Outcome.REFUSED
        try:
            await self._cluster.patch(
                resource, thing.key, change, resource_version=str(thing.resource_version), uid=uid
            )
        except NotFound:
            return Outcome.GONE
        except Conflict:
            return Outcome.OUTDATED
        except (Refused, Forbidden) as error:
            if known is None:
                self._tell(FactSubject(resource, thing.key, uid), reason, error)
            self._refused[uid] = now
            return Outcome.REFUSED
        self._refused.pop(uid, None)
        return Outcome.DONE

    def _tell(self, about: FactSubject, reason: str, error: Exception) -> None:
        what = "hold it until it is counted" if reason == HOLD else "release it"
        message = f"The budget operator cannot {what}: {error}. It is tried again every minute"
        self._journal.note(BudgetNoted(about, reason, message, warning=True))
