"""Whether machines of a class could boot and join, looked at before money is spent: its template, the join values, the
mesh's credentials.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.controllers.boot.mesh_desk import MeshDesk
from tgp.controllers.boot.papers import BootPapers, PaperDesk
from tgp.core.model.conditions import Verdict
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.machine_config import Conversion, Finding, Severity
from tgp.core.model.mesh import Backend, MeshReport, MeshSettings
from tgp.core.model.offer import BootMode
from tgp.core.model.talos import TalosVersion
from tgp.core.rules.mesh.choice import mesh_of
from tgp.core.rules.mesh.reach import unreachable
from tgp.core.rules.nodeclass import Gap
from tgp.core.rules.talos.render import inspect
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.mesh import MeshError, MeshRefused

CHECKED_FOR = timedelta(minutes=15)  # a mesh is not asked about the same credentials more often
NEVER_ASKED = float("-inf")
REMEMBERED = 128  # inspections of templates
SHOWN = 64  # conversions that a condition lists; the rest is counted
LONGEST = 16_384  # characters of that list


@dataclass(frozen=True, slots=True)
class Inspection:
    gaps: tuple[Gap, ...] = ()  # why it is not ready; empty: nothing was found
    converted: Verdict | None = None  # what became of an old template; None: nothing had to
    unchecked: Verdict | None = None  # what only Talos can tell, once a machine is there; None: all was checked


class ClassInspector:
    def __init__(self, papers: PaperDesk, meshes: MeshDesk, clouds: Clouds, clock: Clock, default_backend: str) -> None:
        self._papers = papers
        self._meshes = meshes
        self._clouds = clouds
        self._clock = clock
        self._default_backend = default_backend
        self._reports: dict[MeshSettings, tuple[float, MeshReport]] = {}

    async def inspect(self, node_class: GPUNodeClass) -> Inspection:
        """Raises ClusterError where the API server does not say."""
        conversions: dict[Conversion, None] = {}
        unchecked: dict[Finding, None] = {}
        gaps: dict[Gap, None] = {}
        for provider in self._booted(node_class):
            settings = mesh_of(node_class, provider, None, self._default_backend)
            try:
                papers = await self._papers.papers(node_class, provider)
                converted, findings = self._template(papers, settings)
                conversions |= dict.fromkeys(converted)
                unchecked |= dict.fromkeys(each for each in findings if each.severity is Severity.UNCHECKED)
                _reach(papers, settings)
            except BootRefused as error:
                gaps[Gap(error.reason, str(error))] = None
            try:
                await self._mesh(settings)
            except BootRefused as error:
                gaps[Gap(error.reason, str(error))] = None
        return Inspection(tuple(gaps), _converted(conversions), _unchecked(unchecked))

    def _booted(self, node_class: GPUNodeClass) -> Iterable[str]:
        """Its providers whose machines are booted, rather than switched on."""
        for entry in node_class.spec.providers:
            name = canonical_provider(entry.name)
            if entry.enabled and name in PROVIDERS and set(self._clouds.facts(name).boot) != {BootMode.POWER}:
                yield name

    def _template(
        self, papers: BootPapers, settings: MeshSettings
    ) -> tuple[tuple[Conversion, ...], tuple[Finding, ...]]:
        conversions, findings = _inspected(papers.template, papers.version, settings.backend, papers.kubelet_image)
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if errors:
            more = f"; and {len(errors) - 1} more" if errors[1:] else ""
            raise BootRefused("TemplateRefused", f"the machine config template: {errors[0]}{more}; see tgp talos check")
        return conversions, findings

    async def _mesh(self, settings: MeshSettings) -> None:
        now = self._clock.boottime()
        found = self._reports.get(settings)
        if found is None or now - found[0] > CHECKED_FOR.total_seconds():
            try:
                report = await (await self._meshes.open(settings)).check()
            except MeshRefused as error:
                raise BootRefused("MeshRefused", str(error)) from error
            except MeshError:
                if found is None:
                    return  # it does not answer just now: nothing is known, so nothing is said
                report = found[1]  # what it said last stands
            asked = now if report.usable else NEVER_ASKED  # somebody mends it: asked again at the next look
            found = self._reports[settings] = asked, report
        if not found[1].usable:
            raise BootRefused("MeshRefused", "; ".join(found[1].problems) or "the mesh refuses the credentials")


def _reach(papers: BootPapers, settings: MeshSettings) -> None:
    """Every machine would be paid for until its join deadline."""
    if why := unreachable(papers.join.endpoint, settings):
        raise BootRefused("EndpointUnreachable", f"Secret {JOIN_SECRET}, {why}")


@lru_cache(REMEMBERED)
def _inspected(
    template: str | None, version: TalosVersion, backend: Backend, kubelet_image: str
) -> tuple[tuple[Conversion, ...], tuple[Finding, ...]]:
    """Of what does not change between two looks."""
    return inspect(template, version, backend=backend, kubelet_image=kubelet_image)


def _converted(conversions: Iterable[Conversion]) -> Verdict | None:
    listed = [str(each) for each in conversions]
    if not listed:
        return None
    return Verdict("TemplateConverted", True, "OldTemplate", _listed(listed), longest=LONGEST)


def _unchecked(findings: Iterable[Finding]) -> Verdict | None:
    listed = [str(each) for each in findings]
    if not listed:
        return None
    words = f"documents passed through unchecked: {_listed(listed)}"
    return Verdict("TemplateUnchecked", True, "PassedThrough", words, longest=LONGEST)


def _listed(items: list[str]) -> str:
    rest = f"; and {len(items) - SHOWN} more: tgp talos check shows all" if items[SHOWN:] else ""
    return "; ".join(items[:SHOWN]) + rest
