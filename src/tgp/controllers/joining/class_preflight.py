"""Whether machines of a class could boot and join, checked before money is spent: its template, its image, the join
values, the mesh's credentials.
"""

from collections.abc import Awaitable, Iterable
from datetime import timedelta
from functools import lru_cache
from typing import TypeVar

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.talos import TalosConfig
from tgp.controllers.joining.images import ImageResolver
from tgp.controllers.joining.inputs import BootInputLoader
from tgp.controllers.joining.meshes import MeshOpener
from tgp.core.classes.nodeclass import ClassPreflight, Gap
from tgp.core.joining.mesh.endpoint_reach import unreachable
from tgp.core.joining.mesh.selection import mesh_of
from tgp.core.joining.talos.render import inspect
from tgp.core.joining.talos.settings import talos_of
from tgp.core.joining.talos.template import foreign_actions
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

T = TypeVar("T")

CHECKED_FOR = timedelta(minutes=15)  # the same credentials of a mesh are not checked more often
FACTORY_LEFT_FOR = timedelta(minutes=5)  # after it gave no answer
NEVER_ASKED = float("-inf")
REMEMBERED = 128  # inspections of templates
SHOWN = 64  # conversions that a condition lists; the rest is counted
ERRORS_SHOWN = 8  # errors of a template in one gap
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
        """Each check by itself: one that fails hides no other. Raises ClusterError if the API server is silent."""
        conversions: dict[Conversion, None] = {}
        unchecked: dict[ConfigFinding, None] = {}
        gaps: dict[Gap, None] = {}

        async def of(check: Awaitable[T]) -> T | None:
            try:
                return await check
            except BootRefused as error:
                gaps[Gap(error.reason, str(error))] = None
                return None

        for provider in self._booted(node_class):
            settings = mesh_of(node_class, provider, None, self._default_backend)
            config = talos_of(node_class, provider)
            version = await of(self._version(config))
            await of(self._reach(settings))
            if version is not None:
                kubelet = await of(self._boot_inputs.kubelet(config, version)) or ""
                converted, findings = await of(self._template(config, version, kubelet, settings)) or ((), ())
                conversions |= dict.fromkeys(converted)
                unchecked |= dict.fromkeys(each for each in findings if each.severity is Severity.UNCHECKED)
                await of(self._image(node_class, config, version, settings))
            await of(self._mesh(settings))
        return ClassPreflight(tuple(gaps), _converted(conversions), _unchecked(unchecked))

    def _booted(self, node_class: GPUNodeClass) -> Iterable[str]:
        """Its providers whose machines are booted by tgp, not switched on."""
        for entry in node_class.spec.providers:
            name = canonical_provider(entry.name)
            if entry.enabled and name in PROVIDERS and set(self._clouds.facts(name).boot) != {BootMode.POWER}:
                yield name

    async def _version(self, config: TalosConfig) -> TalosVersion:
        return self._boot_inputs.version(config)

    async def _reach(self, settings: MeshSettings) -> None:
        """Otherwise every machine would be billed until its join timeout."""
        join = await self._boot_inputs.join()
        if why := unreachable(join.endpoint, settings):
            raise BootRefused("EndpointUnreachable", f"Secret {JOIN_SECRET}, {why}")

    async def _template(
        self, config: TalosConfig, version: TalosVersion, kubelet_image: str, settings: MeshSettings
    ) -> tuple[tuple[Conversion, ...], tuple[ConfigFinding, ...]]:
        """With placeholders for all values: it is judged before there is a join Secret."""
        template = await self._boot_inputs.template(config)
        conversions, findings = _inspected(template, version, settings.backend, kubelet_image)
        errors = [str(finding) for finding in findings if finding.severity is Severity.ERROR]
        if errors and config.machine_config_template is not None and foreign_actions(config.machine_config_template):
            return (), ()  # its unknown variables alone: the check of the spec names them
        if errors:
            words = f"the machine config template: {_listed(errors, ERRORS_SHOWN)}; see tgp talos check"
            raise BootRefused("TemplateRefused", words)
        return conversions, findings

    async def _image(
        self, node_class: GPUNodeClass, config: TalosConfig, version: TalosVersion, settings: MeshSettings
    ) -> None:
        """Of its first GPU model: a version or an extension that does not exist is refused for every model."""
        now = self._clock.boottime()
        if self._images is None or now - self._factory_silent_at < FACTORY_LEFT_FOR.total_seconds():
            return
        model = next(iter(node_class.spec.instance_requirements.gpu_types), "")
        try:
            await self._images.checked_schematic(version, config, settings.backend, model, 1)
        except FactoryRefused as error:
            raise BootRefused("ImageRefused", f"talosConfig.image {version}: {error}") from error
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
    words = f"Machine config template was converted: {_listed(listed)}."
    return ConditionUpdate("TemplateConverted", True, "OldTemplate", words, longest=LONGEST)


def _unchecked(findings: Iterable[ConfigFinding]) -> ConditionUpdate | None:
    listed = [str(each) for each in findings]
    if not listed:
        return None
    words = (
        f"Machine config template has parts that tgp passes through, because it cannot check them: {_listed(listed)}."
    )
    return ConditionUpdate("TemplateUnchecked", True, "PassedThrough", words, longest=LONGEST)


def _listed(items: list[str], shown: int = SHOWN) -> str:
    rest = f"; and {len(items) - shown} more: tgp talos check shows all" if items[shown:] else ""
    return "; ".join(items[:shown]) + rest
