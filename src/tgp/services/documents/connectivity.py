"""What `tgp doctor KIND/NAME` examined, link by link: the examination and its document."""

from dataclasses import dataclass
from typing import Literal, TypedDict

from tgp.core.model.text import plain
from tgp.core.reports.path_check import PathLink
from tgp.services.documents import API_VERSION, ApiVersion


class LinkItem(TypedDict):
    name: str
    kind: str
    message: str
    fix: str | None


class ConnectivityReportDocument(TypedDict):
    """What `tgp doctor KIND/NAME` examined, link by link."""

    apiVersion: ApiVersion
    kind: Literal["ConnectivityReport"]
    cluster: str
    about: str
    links: list[LinkItem]
    summary: str
    exitCode: int


ALL_WELL, BROKEN, UNKNOWN = 0, 1, 2


KINDS = {True: "ok", False: "broken", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Examination:
    title: str  # of the cluster
    name: str  # node/x
    links: tuple[PathLink, ...]
    following: str = ""  # the next command


def exit_code(examination: Examination) -> int:
    """A broken link is certain, so it comes before an unknown one."""
    if any(link.ok is False for link in examination.links):
        return BROKEN
    return UNKNOWN if any(link.ok is None for link in examination.links) else ALL_WELL


def summary(examination: Examination) -> str:
    broken = next((link for link in examination.links if link.ok is False), None)
    if broken is not None:
        return f"Broken at the {broken.name}: {broken.words}."
    unknown = [link.name for link in examination.links if link.ok is None]
    if unknown:
        return f"Everything that could be checked works; unknown: {', '.join(unknown)}."
    if len(examination.links) == 1:  # there is no machine to examine
        return f"No problems: {examination.links[0].words}."
    return "No problems, from the request to the kubelet."


def connectivity_report(examination: Examination) -> ConnectivityReportDocument:
    return ConnectivityReportDocument(
        apiVersion=API_VERSION,
        kind="ConnectivityReport",
        cluster=examination.title,
        about=examination.name,
        links=[
            {"name": link.name, "kind": KINDS[link.ok], "message": plain(link.words), "fix": link.fix or None}
            for link in examination.links
        ],
        summary=plain(summary(examination)),
        exitCode=exit_code(examination),
    )
