"""Which class serves a request, and what is said where none does."""

from typing import Any

import pytest

from tests.core.market.offers import NOW
from tgp.api.common import Condition, LabelSelector, NodeClassRef
from tgp.api.nodeclass import GPUNodeClass, GPUNodeClassSpec, GPUNodeClassStatus, ProviderConfig
from tgp.api.request import GPURequest, GPURequestSpec, GPURequestStatus
from tgp.core.classes.default_class import (
    DEFAULT_ANNOTATION,
    IMPLICIT,
    IMPLICIT_LIMITS,
    Chosen,
    Why,
    class_for,
    implicit_class,
    implicit_record,
)
from tgp.core.market.sources import sources_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey

READY = Condition(type="Ready", status="True", reason="Valid", observed_generation=1)


def a_class(
    name: str, *, default: bool = False, ready: Condition | None = READY, **more: Any
) -> KubeObject[GPUNodeClass]:
    deleting = more.pop("deletion_requested_at", None)
    spec = GPUNodeClassSpec(providers=(ProviderConfig(name="simulated"),), **more)
    status = GPUNodeClassStatus(conditions=(ready,) if ready is not None else ())
    return KubeObject(
        key=ObjectKey("", name),
        generation=1,
        annotations={DEFAULT_ANNOTATION: "true"} if default else {},
        deletion_requested_at=deleting,
        value=GPUNodeClass(spec=spec, status=status),
    )


def a_request(name: str | None = None, pinned: str | None = None) -> GPURequest:
    ref = NodeClassRef(name=name) if name is not None else None
    return GPURequest(
        spec=GPURequestSpec(gpu_type="A10", node_class_ref=ref), status=GPURequestStatus(node_class=pinned)
    )


def chosen(
    request: GPURequest, *classes: KubeObject[GPUNodeClass], labels: Any = (), required: bool = False
) -> str | Why:
    found = class_for(request, classes, namespace_labels=dict(labels), allowed_namespaces_required=required)
    return found.name if isinstance(found, Chosen) else found


def reason(request: GPURequest, *classes: KubeObject[GPUNodeClass], **more: Any) -> str:
    found = chosen(request, *classes, **more)
    assert isinstance(found, Why), found
    return found.reason


def the_implicit(*keys: str) -> KubeObject[GPUNodeClass]:
    made = implicit_class(keys, "")
    assert made is not None
    return implicit_record(made, 3)


def test_the_class_it_names_is_taken_whatever_the_default_is():
    assert chosen(a_request("b"), a_class("a", default=True), a_class("b")) == "b"


def test_without_a_name_the_annotated_class_is_taken():
    assert chosen(a_request(), a_class("a"), a_class("b", default=True), a_class("c")) == "b"


def test_without_a_name_the_only_class_is_taken():
    assert chosen(a_request(), a_class("a"), the_implicit("VAST_API_KEY")) == "a"


def test_two_defaults_are_refused_and_both_are_named():
    found = chosen(a_request(), a_class("b", default=True), a_class("a", default=True), a_class("c"))

    assert isinstance(found, Why)
    assert found.reason == "SeveralDefaultClasses"
    assert "a, b" in found.message


def test_several_classes_and_no_default_is_no_reason_to_guess():
    found = chosen(a_request(), a_class("a"), a_class("b"), the_implicit("VAST_API_KEY"))

    assert isinstance(found, Why)
    assert found.reason == "NodeClassNotFound"
    assert "kubectl annotate gpunodeclass a tgp.io/is-default-class" in found.message


def test_without_any_class_the_keys_of_the_operator_make_one():
    assert chosen(a_request(), the_implicit("VAST_API_KEY")) == IMPLICIT


def test_without_any_class_and_key_it_is_said_what_to_do():
    found = chosen(a_request())

    assert isinstance(found, Why)
    assert found.reason == "NodeClassNotFound"
    assert "tgp-operator-secret" in found.message
    assert "VAST_API_KEY" in found.message


def test_a_request_stays_with_the_class_it_is_pinned_to():
    classes = a_class("a", default=True), a_class("b"), the_implicit("VAST_API_KEY")

    assert chosen(a_request("a", pinned="b"), *classes) == "b"
    assert chosen(a_request(pinned=IMPLICIT), classes[2]) == IMPLICIT
    assert reason(a_request(pinned="gone"), *classes) == "NodeClassNotFound"
    assert reason(a_request(pinned=IMPLICIT), *classes[:2]) == "NodeClassNotFound"


def test_the_implicit_class_cannot_be_named_where_there_are_others():
    """Or a tenant could choose it to get round the administrator's limits."""
    assert not IMPLICIT.replace("-", "").isalnum(), "no object can have this name, and what is called so is no object"
    assert reason(a_request(IMPLICIT), a_class("a"), the_implicit("VAST_API_KEY")) == "NodeClassNotFound"
    assert reason(a_request(pinned=IMPLICIT), a_class("a"), the_implicit("VAST_API_KEY")) == "NodeClassNotFound", (
        "a status is a tenant's to write, too"
    )


@pytest.mark.parametrize(
    ("keys", "providers"),
    [
        (("VAST_API_KEY",), ["vast"]),
        (("VULTR_API_KEY", "RUNPOD_API_KEY", "SOMETHING_ELSE"), ["runpod", "vultr"]),
        (("GCP_SERVICE_ACCOUNT_JSON", "client-id", "client-secret"), ["gcp"]),
    ],
)
def test_the_implicit_class_buys_from_whom_there_is_a_key_within_modest_limits(keys, providers):
    made = implicit_class(keys, "")

    assert made is not None
    assert [source.provider for source in sources_of(made).values()] == providers
    assert made.spec.limits == IMPLICIT_LIMITS
    assert made.spec.limits.max_nodes == 4
    assert made.spec.networking is not None
    assert made.spec.networking.backend == ("tailscale" if "client-id" in keys else "none")


def test_no_key_is_no_implicit_class():
    assert implicit_class(("client-id", "client-secret", "OTHER"), "tailscale") is None


def test_the_implicit_class_joins_the_operators_own_mesh():
    made = implicit_class(("VAST_API_KEY",), "kubespan")

    assert made is not None
    assert made.spec.networking is not None
    assert made.spec.networking.backend == "kubespan"


def test_a_class_says_why_it_buys_nothing_in_its_own_words():
    broken = Condition(
        type="Ready", status="False", reason="SecretMissing", message="Secret x does not exist", observed_generation=1
    )
    late = Condition(type="Ready", status="True", reason="Valid", observed_generation=0)
    request = a_request("a")

    found = chosen(request, a_class("a", ready=broken))
    assert found == Why("NodeClassNotReady", "GPUNodeClass a is not ready (SecretMissing): Secret x does not exist")
    assert reason(request, a_class("a", ready=None)) == "NodeClassNotSeen"
    assert reason(request, a_class("a", ready=late)) == "NodeClassNotSeen", "its spec changed since it was judged"
    assert reason(request, a_class("a", suspend=True)) == "Suspended"
    assert reason(request, a_class("b")) == "NodeClassNotFound"


def test_a_class_that_is_being_deleted_buys_nothing_more():
    assert reason(a_request("a"), a_class("a", deletion_requested_at=NOW)) == "NodeClassDeleting"


def test_a_class_of_a_newer_version_is_not_guessed_at():
    unreadable = KubeObject(key=ObjectKey("", "a"), value=None, unreadable="from the future")

    assert reason(a_request("a"), unreadable) == "NodeClassUnreadable"


def test_only_namespaces_that_a_class_allows_may_use_it():
    team = a_class("a", allowed_namespaces=LabelSelector(match_labels={"team": "ml"}))

    assert chosen(a_request("a"), team, labels={"team": "ml"}) == "a"
    assert reason(a_request("a"), team, labels={"team": "web"}) == "NamespaceNotAllowed"
    assert reason(a_request("a"), a_class("a"), required=True) == "NamespaceNotAllowed"
    assert reason(a_request(), the_implicit("VAST_API_KEY"), required=True) == "NamespaceNotAllowed"
