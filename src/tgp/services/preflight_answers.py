"""What `tgp check` reports about the API keys and the cluster."""

from dataclasses import dataclass

from tgp.services.market_answers import CheckRow


@dataclass(frozen=True, slots=True)
class ClusterFinding:
    """One result about the cluster: whether a device plugin would run on a new node, for example."""

    title: str
    good: bool | None  # None: unknown
    words: str
    command: str = ""  # closes the gap; empty: no gap, or `words` says what to do


@dataclass(frozen=True, slots=True)
class CheckReport:
    rows: tuple[CheckRow, ...]
    findings: tuple[ClusterFinding, ...] = ()  # about the cluster; empty: no cluster can be reached
