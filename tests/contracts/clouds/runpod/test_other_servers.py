"""Answers that our own simulator never gives: the adapter believes no more of them than they prove."""

from typing import Any

import pytest

from tests.contracts.clouds.runpod.answers import CARD, TOKEN, a_card, a_pod, an_order, problem, reply
from tgp.adapters.clouds.runpod import catalog, wire
from tgp.adapters.clouds.runpod.paging import PodPages
from tgp.core.model.cloud_errors import CannotTell, KeyRefused, OrderRefused, OutcomeUnknown, SoldOut
from tgp.core.model.instance import InstanceState
from tgp.core.model.offer import Offer, Stock
from tgp.ports.cloud import Container
from tgp.ports.http import Reply


def offered(*cards: dict[str, Any], count: int = 1) -> tuple[Offer, ...]:
    return catalog.listing([catalog.read(reply(200, {"gpus": list(cards)}), "SECURE", count)]).offers


def listed(*rows: Any) -> tuple[Any, ...]:
    return wire.read_pods(list(rows))


# -- the catalogue -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("centres", [[], None], ids=["no centres", "null"])
def test_a_card_with_an_empty_list_of_centres_still_shows_its_price(centres):
    """The schema leaves the list out where there is none; an empty one means the same."""
    (offer,) = offered(a_card(availability="NONE", dataCenters=centres))

    assert (offer.place, offer.stock) == ("anywhere", Stock.NONE)


def test_a_card_sold_in_larger_numbers_than_we_ask_for_is_sold_in_smaller_ones_too():
    (offer,) = offered(a_card(maxCount={"secure": 72, "community": 0}))

    assert offer.gpu_count == 1
    assert catalog.read(reply(200, {"gpus": [a_card(maxCount={"secure": 72})]}), "SECURE", 1).most_gpus == 16


@pytest.mark.parametrize("level", ["SOME", "", 7, None, ["HIGH"]], ids=repr)
def test_an_unlisted_level_of_availability_is_unknown(level):
    (offer,) = offered(a_card(dataCenters=[{"id": "EU-RO-1", "availability": level}]))

    assert offer.stock is Stock.UNKNOWN


@pytest.mark.parametrize("name", ["name", "pool", "manufacturer", "availability", "dataCenters", "cudaVersions"])
def test_null_for_what_is_optional_spoils_no_offer(name):
    assert len(offered(a_card(**{name: None}))) == 1


# -- pods --------------------------------------------------------------------------------------------------------------


def test_running_with_an_empty_runtime_is_not_running():
    """The schema's own example of a new pod has an empty object there: nothing of it is up."""
    (pod,) = listed(a_pod(runtime={}))

    assert pod.state is InstanceState.STARTING
    assert pod.progress


@pytest.mark.parametrize("moment", [{}, [], True, "soon", 10**30, -(10**30), "2026-06-01 12:00:00"], ids=repr)
def test_a_moment_that_is_none_spoils_no_list(moment):
    """When a stranger's pod was made must not hide which pods are ours."""
    (pod,) = listed(a_pod(createdAt=moment))

    assert (pod.token, pod.created_at) == (TOKEN, None)


@pytest.mark.parametrize(
    "name",
    ["status", "env", "gpu", "cloud", "dataCenterId", "cost", "runtime", "createdAt", "globalNetworking", "ssh"],
)
def test_null_for_what_is_optional_spoils_no_pod(name):
    (pod,) = listed(a_pod(**{name: None}))

    assert (pod.id, pod.token) == ("7h9k2m4n6p", TOKEN)


def test_an_unlisted_status_is_unknown_and_ours():
    (pod,) = listed(a_pod(status="MIGRATING", futureField={"deep": [1]}))

    assert (pod.state, pod.said) == (InstanceState.UNKNOWN, "MIGRATING")


def test_a_pod_listed_twice_is_one():
    assert len(listed(a_pod(), a_pod())) == 1


@pytest.mark.parametrize(
    "answer",
    [
        reply(404, {"detail": "Not Found"}),  # as other frameworks word a path they do not know
        reply(404, {"title": "Not Found"}),
        reply(404, {"title": "Not Found", "detail": "no route", "status": "404"}),
        reply(404, {"title": "Not Found", "detail": "no route", "status": None}),
        reply(404, {"status": 404}),
    ],
)
def test_only_a_whole_problem_document_says_that_a_pod_is_gone(answer):
    """A gateway that does not know the path has not looked for the pod."""
    with pytest.raises(CannotTell):
        wire.read_pod(answer, "7h9k2m4n6p")
    assert isinstance(wire.read_terminate(answer, "7h9k2m4n6p"), OutcomeUnknown)


# -- the order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 402, 403, 422, 429])
def test_a_pod_named_in_a_list_is_a_pod(status):
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(problem(status, "out of stock", pods=[{"name": "x"}, {"id": "7h9k2m4n6p"}]), an_order())

    assert caught.value.instance_id == "7h9k2m4n6p"


@pytest.mark.parametrize(
    "body",
    [
        {"name": TOKEN, "template": {"id": "9x4m2p7v"}},
        {"name": TOKEN, "cpu": {"id": "cpu5c"}},
        {"name": TOKEN, "id": None, "registry": {"id": "reg1"}},
    ],
    ids=["template", "cpu", "registry"],
)
def test_the_id_of_something_else_is_not_taken_for_the_pods(body):
    """A success that does not name its pod: looked for by the token, not believed under a template's id."""
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(reply(201, body), an_order())

    assert caught.value.instance_id == ""


@pytest.mark.parametrize("wrapper", ["pod", "data"])
def test_a_success_that_wraps_its_pod_names_it(wrapper):
    made = wire.read_launch(reply(201, {wrapper: a_pod()}), an_order())

    assert made.id == "7h9k2m4n6p"


@pytest.mark.parametrize(
    "detail",
    [
        "request could not be processed",
        "this GPU and data center combination is unavailable right now",
        "No machines match the request",
    ],
)
def test_a_400_that_names_no_broken_rule_is_followed_by_the_next_candidate(detail):
    """Capacity has no code of its own. The vendor's advice for 400: try your next candidate."""
    with pytest.raises(SoldOut):
        wire.read_launch(problem(400, detail), an_order())


@pytest.mark.parametrize(
    "detail",
    [
        "exactly one of gpu or cpu must be set",
        "gpu type RTX 4090 does not exist",
        "gpu.count exceeds the maximum for NVIDIA L4",
        "allowedCudaVersions and minCudaVersion are mutually exclusive",
        "mounts.persistent is invalid for CPU pods",
        "request body is not valid JSON",
    ],
)
def test_a_400_that_names_a_broken_rule_is_told_to_the_owner(detail):
    with pytest.raises(OrderRefused):
        wire.read_launch(problem(400, detail), an_order())


def test_what_the_schema_has_against_an_order_is_passed_on():
    """`Request validation failed.` does not help; the list beside it does."""
    answer = problem(
        422,
        "Request validation failed.",
        errors=[
            "$.disk: expected integer >= 1",
            "$.env: hf_very_secret is no text",
            7,
            {"location": "body.disk", "message": "in an old format"},
        ],
    )
    order = an_order(container=Container("ubuntu", env=(("HF_TOKEN", "hf_very_secret"),)))

    with pytest.raises(OrderRefused) as caught:
        wire.read_launch(answer, order)

    assert "$.disk: expected integer >= 1" in str(caught.value)
    assert "hf_very_secret" not in str(caught.value)


def test_a_403_that_may_be_the_keys_fault_says_so():
    """The schema's example is the same for a weak key and for a pool the account lacks."""
    with pytest.raises(SoldOut, match="key"):
        wire.read_launch(problem(403, "access denied"), an_order())
    with pytest.raises(KeyRefused):
        PodPages().take(problem(403, "access denied"))


def test_a_bill_above_the_quote_is_seen_by_the_caller():
    made = wire.read_launch(reply(201, a_pod(status="PROVISIONING", cost=9.99)), an_order())

    assert made.hourly_microusd == 9_990_000


def test_an_answer_without_a_content_type_is_read():
    made = wire.read_launch(Reply(201, reply(201, a_pod()).content), an_order())

    assert (made.id, made.sku) == ("7h9k2m4n6p", f"{CARD}:2:SECURE")
