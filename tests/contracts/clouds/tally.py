"""Counts which promises were played and kept, for the table at the end of a run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.suite import Area, Promise


@dataclass
class Tally:
    played: dict[str, list[Promise]] = field(default_factory=dict)  # by adapter
    done: dict[str, list[Promise]] = field(default_factory=dict)

    def began(self, adapter: str, promise: Promise) -> None:
        self.played.setdefault(adapter, []).append(promise)

    def kept(self, adapter: str, promise: Promise) -> None:
        self.done.setdefault(adapter, []).append(promise)


TALLY = Tally()


def table(tally: Tally) -> Iterator[str]:
    """One line per area, one column per adapter: how many promises were kept, of how many played."""
    adapters = list(tally.played)
    width = max((len(name) for name in adapters), default=0) + 2
    yield "adapter \N{MULTIPLICATION SIGN} promise, executed:"
    yield f"  {'':12}" + "".join(f"{name:>{width}}" for name in adapters)
    for area in Area:
        counts = [_count(tally, name, area) for name in adapters]
        yield f"  {area:12}" + "".join(f"{count:>{width}}" for count in counts)
    yield from _rows_of_pages(tally, adapters, width)
    yield f"  {'all':12}" + "".join(f"{_count(tally, name, None):>{width}}" for name in adapters)


def _rows_of_pages(tally: Tally, adapters: list[str], width: int) -> Iterator[str]:
    """One line per case of lists in pages: of all promises these cost most where they are not kept."""
    cases = {one.name: one for name in adapters for one in tally.played[name] if one.area is Area.PAGES}
    for one in cases.values():
        marks = [_mark(tally, name, one) for name in adapters]
        yield f"  {'':12}" + "".join(f"{mark:>{width}}" for mark in marks) + f"  {one.name}"


def _mark(tally: Tally, adapter: str, one: Promise) -> str:
    if one not in tally.played.get(adapter, ()):
        return "n/a"
    return "kept" if one in tally.done.get(adapter, ()) else "BROKEN"


def excuses(providers: Iterable[Provider], promises: Iterable[Promise], tally: Tally) -> Iterator[str]:
    """What does not apply, with its reason; one line per reason."""
    promised = list(promises)
    for provider in providers:
        if provider.name not in tally.played:
            continue
        reasons: dict[str, list[str]] = {}
        for one in promised:
            if reason := one.excuse(provider):
                reasons.setdefault(reason, []).append(one.name)
        if provider.off_sockets:
            reasons.setdefault(provider.off_sockets, []).append("real sockets")
        for reason, names in reasons.items():
            yield f"  n/a {provider.name}: {reason}"
            yield from (f"      {name}" for name in names)


def _count(tally: Tally, adapter: str, area: Area | None) -> str:
    played = sum(area in (None, one.area) for one in tally.played.get(adapter, ()))
    kept = sum(area in (None, one.area) for one in tally.done.get(adapter, ()))
    return str(kept) if kept == played else f"{kept}/{played}"
