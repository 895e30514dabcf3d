"""What the cluster and a class say about a machine's config: version, kubelet, template, join values. Only read."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.talos import TalosConfig
from tgp.core.joining.talos.join_values import read_join
from tgp.core.joining.talos.releases import USUAL, kubelet_for, running
from tgp.core.joining.talos.settings import talos_of
from tgp.core.model.join import JOIN_SECRET, NEEDED, JoinValues
from tgp.core.model.node import Node
from tgp.core.model.secret import Secret
from tgp.core.model.talos import TalosVersion, read_version
from tgp.ports.boot import BootRefused
from tgp.ports.cluster import Cluster, Forbidden
from tgp.ports.secret_reader import SecretReader

MAKE_JOIN_SECRET = "create it with: tgp talos join-secret"  # noqa: S105 - a command, not a secret


@dataclass(frozen=True, slots=True)
class BootInput:
    config: TalosConfig
    version: TalosVersion
    kubelet_image: str
    server: str  # the API server's version, as it reports it
    template: str | None = field(repr=False)  # None: one is generated
    join: JoinValues


VERSION_KEPT_S = 60.0


class BootInputLoader:
    """Raises BootRefused with the reason of a condition, and ClusterError if the API server does not answer."""

    def __init__(
        self,
        secret_reader: SecretReader,
        cluster: Cluster,
        nodes: Callable[[], Iterable[Node]],
        *,
        talos_version: str = "",
    ) -> None:
        self._secret_reader = secret_reader
        self._cluster = cluster
        self._nodes = nodes
        self._talos_version = talos_version  # the operator's own; empty: not set
        self._server: tuple[str, float] | None = None  # the API server's version, and when it was read (loop time)

    async def load(self, node_class: GPUNodeClass, provider: str, request: GPURequest | None = None) -> BootInput:
        config = talos_of(node_class, provider)
        version = self.version(config, request)
        kubelet = await self.kubelet(config, version)
        server = await self._server_version()
        return BootInput(config, version, kubelet, server, await self.template(config), await self.join())

    async def kubelet(self, config: TalosConfig, version: TalosVersion) -> str:
        image, why = kubelet_for(config.kubelet_image, await self._server_version(), version)
        if why:
            raise BootRefused("KubeletUnsupported", why)
        return image

    async def _server_version(self) -> str:
        """Read again after a minute: an upgrade takes longer, and a burst of machines asks for it again and again."""
        now = asyncio.get_running_loop().time()
        if self._server is None or now - self._server[1] > VERSION_KEPT_S:
            self._server = await self._cluster.version(), now
        return self._server[0]

    def version(self, config: TalosConfig, request: GPURequest | None = None) -> TalosVersion:
        talos = request.spec.talos_config if request is not None else None
        said = (talos.image if talos is not None else None) or config.image
        found = read_version(said) if said else running(self._nodes()) or read_version(self._talos_version or USUAL)
        if found is None or not found.supported:
            raise BootRefused(
                "TalosVersionUnsupported",
                f"{said or self._talos_version} is not a supported Talos version (v1.10 to v1.14)",
            )
        return found

    async def template(self, config: TalosConfig) -> str | None:
        ref = config.machine_config_secret_ref
        if ref is None:
            return config.machine_config_template
        values = await self._read(ref.name)
        value = values.get(ref.key)
        if value is None:
            raise BootRefused("TemplateMissing", f"Secret {ref.name} has no key {ref.key}, the machine config template")
        return value.reveal()

    async def join(self) -> JoinValues:
        values = await self._read(JOIN_SECRET)
        read = read_join(values)
        if isinstance(read, JoinValues):
            return read
        raise BootRefused("JoinSecretMissing", f"Secret {JOIN_SECRET}: {'; '.join(read)}; {MAKE_JOIN_SECRET}")

    async def _read(self, name: str) -> Mapping[str, Secret]:
        try:
            values = await self._secret_reader.read(name)
        except Forbidden:
            why = f"the operator may not read Secret {name}: add get on that Secret to the operator's Role"
            raise BootRefused("SecretForbidden", why) from None
        if values is not None:
            return values
        if name == JOIN_SECRET:
            keys = ", ".join(NEEDED)
            raise BootRefused("JoinSecretMissing", f"Secret {name} (keys {keys}) does not exist; {MAKE_JOIN_SECRET}")
        raise BootRefused("TemplateMissing", f"Secret {name} with the machine config template does not exist")
