"""Which values of which Secrets must not pass the logs: those of the join Secret that messages name may."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.core.model.join import JOIN_SECRET, NEEDED, OPTIONAL

TOLD_TO_PEOPLE = {"endpoint", "cluster-name", "machine-ca.crt", "cluster-ca.crt", *OPTIONAL}


class OneSecret:
    async def read(self, *_: Any) -> dict[str, Any]:
        return {"data": {key: b64encode(f"value of {key}".encode()).decode() for key in (*NEEDED, *OPTIONAL)}}


@pytest.mark.parametrize(
    ("name", "kept"),
    [(JOIN_SECRET, {*NEEDED, *OPTIONAL} - TOLD_TO_PEOPLE), ("another", {*NEEDED, *OPTIONAL})],
)
def test_the_endpoint_of_the_cluster_is_no_secret(name: str, kept: set[str]) -> None:
    """Masked, a message about an endpoint that cannot be reached would not say which."""
    learned: list[str] = []
    secret_reader = KubeSecretReader(OneSecret(), "tgp-system", lambda secret: learned.append(secret.reveal()))  # type: ignore[arg-type]

    asyncio.run(secret_reader.read(name))

    assert set(learned) == {f"value of {key}" for key in kept}
