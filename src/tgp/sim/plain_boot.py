"""The simplest boot of a simulated machine: it gets its name, and joins the cluster by itself.

For the simulated providers and machines whose image knows how to join. Nothing in it is secret.
"""

import msgspec

from tgp.core.model.offer import BootMode
from tgp.ports.boot import BootPayload, BootRefused, BootRequest


class PlainBoot:
    """Implements `Boot`."""

    async def pack(self, boot_request: BootRequest) -> BootPayload:
        plate = msgspec.json.encode({"node": boot_request.node_name, "providerID": boot_request.provider_id})
        match boot_request.offer.boot:
            case BootMode.POWER:
                return BootPayload()
            case BootMode.CONTAINER:
                raise BootRefused("CannotBoot", boot_request.offer.no_node)
            case BootMode.TAKEOVER:
                return BootPayload(user_data=b"#cloud-config\n# " + plate + b"\n")
            case BootMode.NATIVE:
                return BootPayload(user_data=plate)

    async def discard(self, token: str) -> None:
        """Nothing was made."""
