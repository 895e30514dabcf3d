"""Machines that any cluster's operator bought, by the API keys of this terminal alone: for when the cluster is gone."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tgp.api.common import OWNED_PROVIDER
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.instance import Instance
from tgp.core.model.token import read_token
from tgp.ports.clouds import Clouds
from tgp.ports.http import HttpError
from tgp.services.credentials import ProviderAccess

ASK_WITHIN = 60.0  # seconds for one provider
MARK = "tgp-"  # every token of every cluster begins with it


@dataclass(frozen=True, slots=True)
class MarkedMachine:
    cluster: str  # the id of the cluster that bought it
    provider: str
    instance: Instance


@dataclass(frozen=True, slots=True)
class MarkedMachines:
    machines: tuple[MarkedMachine, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()  # providers that could not be asked, each with the cause
    keyless: tuple[tuple[str, str], ...] = ()  # providers without an API key here, each with the variable for it

    def bought_by(self, cluster: str) -> "MarkedMachines":
        return replace(self, machines=tuple(one for one in self.machines if one.cluster == cluster))


async def marked_machines(accesses: Iterable[ProviderAccess], clouds: Clouds) -> MarkedMachines:
    rented = [each for each in accesses if each.source.provider != OWNED_PROVIDER]
    asked = [each for each in rented if not each.keyless]
    answers = await asyncio.gather(*(_ask(each, clouds) for each in asked))
    found = [one for answer in answers if not isinstance(answer, str) for one in answer]
    return MarkedMachines(
        tuple(sorted(found, key=lambda one: (one.cluster, one.provider, one.instance.id))),
        tuple((each.source.provider, why) for each, why in zip(asked, answers, strict=True) if isinstance(why, str)),
        tuple((each.source.provider, each.facts.key_variable) for each in rented if each.keyless),
    )


async def _ask(access: ProviderAccess, clouds: Clouds) -> list[MarkedMachine] | str:
    try:
        async with asyncio.timeout(ASK_WITHIN):
            listed = await clouds.open(access.source, access.key, {}).owned(MARK)
    except TimeoutError:
        return f"no answer within {ASK_WITHIN:.0f} s"
    except (CloudError, HttpError) as error:
        return str(error)
    tokens = ((one, read_token(one.token)) for one in listed)
    return [MarkedMachine(token.cluster, access.source.provider, one) for one, token in tokens if token is not None]
