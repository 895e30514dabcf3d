"""What the containers' own stamps say about pods, kept also of those that are gone."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from bench.budget.connection import Connection, NotReached

PODS = "/api/v1/namespaces/default/pods"
WORK = "bench.tgp.io/run"  # the label of a run's pods


@dataclass
class TrueSpan:
    start: float
    end: float | None = None
    shown: bool = True  # in the last list
    last_seen: float = 0.0  # in a list, running: it did not end before


class Truth:
    """Reads a list every so many seconds. A pod that is gone ended between the last list with it and the next."""

    def __init__(self, connection: Connection, units: float, every_s: float) -> None:
        self._connection, self._units, self.every_s = connection, units, every_s
        self._spans: dict[str, dict[str, TrueSpan]] = {}  # run → uid → span
        self._deleted: dict[str, tuple[float, float]] = {}  # by uid: between which moments we deleted it by force
        self._lists = 0
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="truth", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(60)

    def listed_again(self) -> None:
        """Wait for a list that is begun from now on."""
        after = self._lists + 2
        while self._lists < after and not self._done.wait(0.05):
            pass

    def hours(self, run: str, at: float, *, shown: bool = False, least: bool = False) -> float:
        """`shown`: of the pods that the API still shows. `least`: where an end is known within bounds, the earlier."""
        with self._lock:
            spans = [each for each in self._spans.get(run, {}).values() if each.shown or not shown]
            ran = sum(max(min(_end(each, least=least) or at, at) - each.start, 0) for each in spans)
        return ran * self._units / 3600

    def deleted(self, uid: str, before: float, after: float) -> None:
        """By force, between these moments."""
        self._deleted[uid] = before, after

    def running(self, run: str) -> list[str]:
        """The uids of those that run, the longest first."""
        with self._lock:
            spans = self._spans.get(run, {})
            return sorted((uid for uid, each in spans.items() if each.end is None), key=lambda uid: spans[uid].start)

    def ended(self, run: str) -> list[str]:
        """The uids of those that ended by themselves and are shown."""
        with self._lock:
            return [uid for uid, each in self._spans.get(run, {}).items() if each.end is not None and each.shown]

    def shown(self, run: str) -> int:
        """Pods that have started, and that the API shows."""
        with self._lock:
            return sum(each.shown for each in self._spans.get(run, {}).values())

    def _follow(self) -> None:
        while not self._done.wait(self.every_s):
            try:
                now, listed = self._connection.listed(PODS)
            except NotReached:
                continue
            with self._lock:
                self._see(listed, now)
            self._lists += 1

    def _see(self, listed: Iterable[dict[str, Any]], now: float) -> None:
        there = set()
        for pod in listed:
            uid = pod["metadata"]["uid"]
            there.add(uid)
            states = [each["state"] for each in pod.get("status", {}).get("containerStatuses", ())]
            told = (states[0].get("running") or states[0].get("terminated") or {}) if states else {}
            if "startedAt" in told:
                spans = self._spans.setdefault(pod["metadata"].get("labels", {}).get(WORK, ""), {})
                span = spans.setdefault(uid, TrueSpan(moment(told["startedAt"])))
                span.end = moment(told["finishedAt"]) if "finishedAt" in told else None
                span.last_seen = now
        for spans in self._spans.values():
            for uid, span in spans.items():
                if uid not in there and span.shown:
                    span.last_seen, gone = self._deleted.get(uid, (span.last_seen, now))
                    span.shown, span.end = False, span.end or gone


def _end(span: TrueSpan, *, least: bool) -> float | None:
    if span.end is None or not least or span.shown:
        return span.end
    return min(span.end, span.last_seen)


def moment(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
