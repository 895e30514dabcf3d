"""How long something has been left undone, by leaders who had the time to do it.

A new leader begins with nothing: it lists the objects again, sees a machine twice half a minute apart and asks the API
server once more, all before it may end anything. Who is gone within a minute can have ended nothing, however good the
protocol; with faults that cause ten such leaders in a row, the time they took says nothing about it. Leaders who stay
are held to all of their time, the first minute and the wait for them included.
"""

from dataclasses import dataclass

BRIEF = 60.0  # seconds: lists, a look, half a minute, a look within 15 s, and a fresh list of requests


@dataclass(slots=True)
class CountedWait:
    """Of one thing: the seconds that count."""

    before: float = 0.0  # under leaders who stayed
    present: float = 0.0  # under this one, and until the next has come
    term: int = 0


class LeaderTerms:
    def __init__(self, brief: float = BRIEF) -> None:
        self._brief = brief
        self._holder = ""
        self._began = self._renewed = 0.0
        self._stayed = [True]  # by term; the first has no leader: where no election runs, all time counts

    def held(self, holder: str, now: float) -> None:
        """The Lease was written in this name; empty: it was released, and the term lasts until the next begins."""
        if not holder:
            return
        if holder != self._holder:
            self._holder, self._began = holder, now
            self._stayed.append(False)
        self._renewed = now
        self._stayed[-1] = self._stayed[-1] or self._renewed - self._began >= self._brief

    def passed(self, wait: CountedWait, seconds: float) -> float:
        """Let time pass for it; gives what counts so far. Of a leader who has not stayed yet nothing does."""
        this = len(self._stayed) - 1
        if wait.term != this:
            wait.before += wait.present if self._stayed[wait.term] else 0.0
            wait.present, wait.term = 0.0, this
        wait.present += seconds
        return wait.before + (wait.present if self._stayed[this] else 0.0)
