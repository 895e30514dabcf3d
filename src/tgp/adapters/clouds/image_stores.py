"""Image stores at providers: at present only Vultr boots from one."""

from dataclasses import dataclass, field

from tgp.adapters.clouds.auth_http import KeyedHttp
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source
from tgp.ports.http import HttpFactory
from tgp.ports.images import ImageStore


@dataclass(slots=True)
class AllImageStores:
    """Implements `ImageStores`."""

    dial: HttpFactory = field(repr=False)

    def open(self, source: Source, key: Secret | None) -> ImageStore | None:
        if source.provider != "vultr":
            return None
        from tgp.adapters.clouds.vultr.facts import FACTS
        from tgp.adapters.clouds.vultr.snapshots import VultrShelf

        plain = self.dial(source.settings.endpoint or FACTS.endpoint)
        http = KeyedHttp(plain, (("Authorization", f"Bearer {key.reveal()}"),)) if key is not None else plain
        return VultrShelf(http, key)
