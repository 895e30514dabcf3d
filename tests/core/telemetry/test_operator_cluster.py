"""What is written where people read: no secret passes, nothing else is touched; and nothing at all with --observe."""

import asyncio
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.adapters.kube.store import Store
from tgp.adapters.telemetry.redaction import LINES_MOST, MOST, SHORTEST, Redactor
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, SECRET
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret

STATUS = {
    "providers": {"runpod": {"credentialsValid": False, "offers": 3, "error": "said: default-password"}},
    "conditions": [{"type": "CredentialsValid", "status": "False", "message": "a default-password, twice"}],
}


class Paper:
    """A `Cluster` that keeps what it is given."""

    def __init__(self) -> None:
        self.written: Any = None

    async def write_status(self, *_: Any, status: Any, **__: Any) -> None:
        self.written = status

    async def create(self, _resource: Any, manifest: Any) -> None:
        self.written = manifest

    async def approve(self, *_: Any, reason: Any, message: Any, **__: Any) -> None:
        self.written = (reason, message)


def written_with(*secrets: str) -> Any:
    redactor, paper = Redactor(), Paper()
    for secret in secrets:
        redactor.learn(Secret(secret))
    cluster = OperatorCluster(paper, {}, redact=redactor)  # type: ignore[arg-type] # the two verbs that are used here
    asyncio.run(cluster.write_status(GPU_NODE_CLASS, ObjectKey("", "a"), uid="", seen={}, status=STATUS))
    return paper.written


def test_a_secret_is_masked_in_every_text_and_nowhere_else():
    written = written_with("default-password")

    assert written["providers"]["runpod"] == {"credentialsValid": False, "offers": 3, "error": "said: ***"}
    assert written["conditions"][0]["message"] == "a ***, twice"


@pytest.mark.parametrize(
    "word",
    ["conditions", "providers", "runpod", "credentialsValid", "CredentialsValid", '":false,"offers":3', 'rs":{"'],
)
def test_a_secret_that_is_an_ordinary_word_or_a_piece_of_json_leaves_the_fields_alone(word):
    """A value of `runpod` in some Secret must not turn a status into one that the API server refuses."""
    written = written_with(word)

    assert written == STATUS


def test_a_secret_of_ours_keeps_its_values():
    redactor, paper = Redactor(), Paper()
    redactor.learn(Secret("default-password"))
    manifest = {"stringData": {"key": "default-password"}}
    asyncio.run(OperatorCluster(paper, {}, redact=redactor).create(SECRET, manifest))  # type: ignore[arg-type] # one verb

    assert paper.written == manifest


def test_a_secret_of_a_megabyte_does_not_stop_the_house():
    """It is learned on the event loop, and every log line is searched for it."""
    lines = [f"{number:032d}" for number in range(30_000)]
    redactor = Redactor()
    started = process_time()
    redactor.learn(Secret("\n".join(lines)))
    assert redactor("an ordinary line " * 20) == "an ordinary line " * 20
    took = process_time() - started

    assert took < 1.0, "nine seconds once: longer than a Lease is renewed"
    assert redactor(f"x {lines[LINES_MOST - 1]} y") == "x *** y"
    assert redactor("\n".join(lines)).replace("*", "") == "", "the whole of it is caught whole"


def test_a_spelling_that_two_secrets_share_is_caught_for_as_long_as_one_is_known():
    redactor = Redactor()
    for secret in (
        "shared-line-of-both\nfirst",
        "shared-line-of-both\nsecond",
        *(f"other-{n}" for n in range(MOST - 1)),
    ):
        redactor.learn(Secret(secret))

    assert redactor("x shared-line-of-both y") == "x *** y", "the first was forgotten, the second was not"


@given(
    secrets=st.lists(st.text("abc/=\n", min_size=SHORTEST, max_size=12), max_size=5),
    before=st.text("abc/=", max_size=12),
    after=st.text("abc/=", max_size=12),
)
def test_no_secret_is_left_in_any_text(secrets, before, after):
    redactor = Redactor()
    for secret in secrets:
        redactor.learn(Secret(secret))
    for secret in secrets:
        assert secret not in redactor(f"{before}{secret}{after}")
    if not secrets:
        assert redactor(before) == before


def test_a_verdict_on_a_certificate_request_is_read_by_people_too():
    redactor, paper = Redactor(), Paper()
    redactor.learn(Secret("default-password"))
    cluster = OperatorCluster(paper, {}, redact=redactor)  # type: ignore[arg-type] # the verbs that are used here

    asyncio.run(
        cluster.approve(
            "csr", uid="u", resource_version="1", approved=False, reason="WrongName", message="a default-password"
        )
    )

    assert paper.written == ("WrongName", "a ***")


def observing(*, shown: dict[Any, Any]) -> OperatorCluster:
    return OperatorCluster(object(), {}, shown=shown)  # type: ignore[arg-type] # it has no verb: nothing can be sent


def test_with_observe_no_verb_sends_anything_and_each_is_counted():
    async def scenario() -> int:
        cluster, key = observing(shown={}), ObjectKey("team", "a")
        await cluster.create(GPU_REQUEST, {"metadata": {"name": "a"}})
        await cluster.patch(GPU_REQUEST, key, {}, resource_version="1", uid="u")
        await cluster.apply(GPU_REQUEST, {"metadata": {"name": "a"}})
        await cluster.write_status(GPU_REQUEST, key, uid="u", seen={}, status={"phase": "Ready"})
        await cluster.delete(GPU_REQUEST, key, uid="u")
        await cluster.evict(key, uid="u")
        await cluster.approve("csr", uid="u", resource_version="1", approved=True, reason="Ours", message="")
        return cluster.dropped

    assert asyncio.run(scenario()) == 7


def test_with_observe_the_cache_shows_the_status_and_waits_for_no_write():
    key = ObjectKey("", "a")
    classes: Store[KubeObject[Any]] = Store(GPU_NODE_CLASS)
    classes.put(KubeObject(key=key, uid="u", resource_version=5))
    cluster = OperatorCluster(object(), {GPU_NODE_CLASS: (classes,)}, shown={GPU_NODE_CLASS: classes})  # type: ignore[arg-type]

    asyncio.run(cluster.write_status(GPU_NODE_CLASS, key, uid="u", seen={}, status={"a": 1}))

    held = classes.get(key)
    assert held is not None
    assert held.status_document == b'{"a":1}'
    assert not classes.behind(key)
