"""Whether machines of a class could boot and join, checked before money is spent: its template, its image, the join
values, the mesh's credentials.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.controllers.joining.images import ImageResolver
from tgp.controllers.joining.inputs import BootInput, BootInputLoader
from tgp.controllers.joining.meshes import MeshOpener
from tgp.core.classes.nodeclass import ClassPreflight, Gap
from tgp.core.joining.mesh.endpoint_reach import unreachable
from tgp.core.joining.mesh.selection import mesh_of
from tgp.core.joining.talos.render import inspect
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.machine_config import ConfigFinding, Conversion, Severity
from tgp.core.model.mesh import Backend, MeshReport, MeshSettings
from tgp.core.model.offer import BootMode
from tgp.core.model.talos import TalosVersion
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.image_factory import FactoryError, FactoryRefused
from tgp.ports.mesh import MeshError, MeshRefused

CHECKED_FOR = timedelta(minutes=15)  # the same credentials of a mesh are not checked more often
FACTORY_LEFT_FOR = timedelta(minutes=5)  # after it gave no answer
NEVER_ASKED = float("-inf")
REMEMBERED = 128  # inspections of templates
SHOWN = 64  # conversions that a condition lists; the rest is counted
LONGEST = 16_384  # characters of that list


class ClassPreflightChecker:
    def __init__(
        self,
        boot_input: BootInputLoader,
        meshes: MeshOpener,
        clouds: Clouds,
        clock: Clock,
        default_backend: str,
        *,
        images: ImageResolver | None = None,  # None: the image factory is not asked
    ) -> None:
        self._boot_inputs = boot_input
        self._meshes = meshes
        self._clouds = clouds
        self._clock = clock
        self._default_backend = default_backend
        self._images = images
        self._factory_silent_at = NEVER_ASKED  # when it last gave no answer
        self._reports: dict[MeshSettings, tuple[float, MeshReport]] = {}

    async def inspect(self, node_class: GPUNodeClass) -> ClassPreflight:
        """Raises ClusterError if the API server does not answer."""
        conversions: dict[Conversion, None] = {}
        unchecked: dict[ConfigFinding, None] = {}
        gaps: dict[Gap, None] = {}
        for provider in self._booted(node_class):
            settings = mesh_of(node_class, provider, None, self._default_backend)
            try:
                boot_input = await self._boot_inputs.load(node_class, provider)
                converted, findings = self._template(boot_input, settings)
                conversions |= dict.fromkeys(converted)
                unchecked |= dict.fromkeys(each for each in findings if each.severity is Severity.UNCHECKED)
                _reach(boot_input, settings)
                await self._image(node_class, boot_input, settings)
            except BootRefused as error:
                gaps[Gap(error.reason, str(error))] = None
            try:
                await self._mesh(settings)
            except BootRefused as error:
                gaps[Gap(error.reason, str(error))] = None
        return ClassPreflight(tuple(gaps), _converted(conversions), _unchecked(unchecked))

    def _booted(self, node_class: GPUNodeClass) -> Iterable[str]:
        """Its providers whose machines are booted by tgp, not switched on."""
        for entry in node_class.spec.providers:
            name = canonical_provider(entry.name)
            if entry.enabled and name in PROVIDERS and set(self._clouds.facts(name).boot) != {BootMode.POWER}:
                yield name

    def _template(
        self, boot_input: BootInput, settings: MeshSettings
    ) -> tuple[tuple[Conversion, ...], tuple[ConfigFinding, ...]]:
        conversions, findings = _inspected(
            boot_input.template, boot_input.version, settings.backend, boot_input.kubelet_image
        )
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if errors:
            more = f"; and {len(errors) - 1} more" if errors[1:] else ""
            raise BootRefused("TemplateRefused", f"the machine config template: {errors[0]}{more}; see tgp talos check")
        return conversions, findings

    async def _image(self, node_class: GPUNodeClass, boot_input: BootInput, settings: MeshSettings) -> None:
        """Of its first GPU model: a version or an extension that does not exist is refused for every model."""
        now = self._clock.boottime()
        if self._images is None or now - self._factory_silent_at < FACTORY_LEFT_FOR.total_seconds():
            return
        model = next(iter(node_class.spec.instance_requirements.gpu_types), "")
        try:
            await self._images.checked_schematic(boot_input.version, boot_input.config, settings.backend, model, 1)
        except FactoryRefused as error:
            raise BootRefused("ImageRefused", f"talosConfig.image {boot_input.version}: {error}") from error
        except FactoryError:
            self._factory_silent_at = now  # no result, no condition

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
                    return  # the mesh does not answer now: no result, no condition
                report = found[1]  # the last result stands
            # an administrator may fix it: checked again at the next reconcile
            asked = now if report.usable else NEVER_ASKED
            found = self._reports[settings] = asked, report
        if not found[1].usable:
            raise BootRefused("MeshRefused", "; ".join(found[1].problems) or "the mesh refused the credentials")


def _reach(boot_input: BootInput, settings: MeshSettings) -> None:
    """Otherwise every machine would be billed until its join timeout."""
    if why := unreachable(boot_input.join.endpoint, settings):
        raise BootRefused("EndpointUnreachable", f"Secret {JOIN_SECRET}, {why}")


@lru_cache(REMEMBERED)
def _inspected(
    template: str | None, version: TalosVersion, backend: Backend, kubelet_image: str
) -> tuple[tuple[Conversion, ...], tuple[ConfigFinding, ...]]:
    """Cached for inputs that did not change."""
    return inspect(template, version, backend=backend, kubelet_image=kubelet_image)


def _converted(conversions: Iterable[Conversion]) -> ConditionUpdate | None:
    listed = [str(each) for each in conversions]
    if not listed:
        return None
    return ConditionUpdate("TemplateConverted", True, "OldTemplate", _listed(listed), longest=LONGEST)


def _unchecked(findings: Iterable[ConfigFinding]) -> ConditionUpdate | None:
    listed = [str(each) for each in findings]
    if not listed:
        return None
    words = f"Passed through unchecked, because tgp cannot check them: {_listed(listed)}"
    return ConditionUpdate("TemplateUnchecked", True, "PassedThrough", words, longest=LONGEST)


def _listed(items: list[str]) -> str:
    rest = f"; and {len(items) - SHOWN} more: tgp talos check shows all" if items[SHOWN:] else ""
    return "; ".join(items[:SHOWN]) + rest
