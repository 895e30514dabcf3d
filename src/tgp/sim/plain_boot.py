"""The plainest way to start a pretend machine: it is told its name, and joins the cluster by itself.

For the pretend providers and machines whose image knows how to join. Nothing in it is secret.
"""

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.model.offer import BootMode, Offer
from tgp.ports.boot import Birth, BootRefused, Luggage


class PlainBoot:
    """Implements `Boot`."""

    def refuses(self, offer: Offer, node_class: GPUNodeClass) -> str:  # noqa: ARG002 - one class is like another
        return offer.no_node

    async def pack(self, birth: Birth) -> Luggage:
        plate = msgspec.json.encode({"node": birth.node_name, "providerID": birth.provider_id})
        match birth.offer.boot:
            case BootMode.POWER:
                return Luggage()
            case BootMode.CONTAINER:
                raise BootRefused("CannotBoot", birth.offer.no_node)
            case BootMode.TAKEOVER:
                return Luggage(user_data=b"#cloud-config\n# " + plate + b"\n")
            case BootMode.NATIVE:
                return Luggage(user_data=plate)

    async def discard(self, token: str) -> None:
        """Nothing was made."""
