"""`tgp why`: what a request waits for, since when, what would change it, who holds what, and what it costs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from tests.cli.sample_requests import (
    BOUGHT,
    FAILED,
    FINISHED,
    GOING,
    JOINING,
    NEW,
    READY,
    WAITING,
    a_request,
    after,
    become,
    condition,
    document,
    drawn,
    furnish,
    send,
)
from tests.contracts.kubectl.mounted import Mounted
from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.app.main import tgp
from tgp.core.classes.nodeclass import Gap
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.purchase import NoPurchase
from tgp.core.requests.purchase_stops import NEEDS_USER
from tgp.interfaces.cli.why_view import AWAITED, render, timeline_of
from tgp.services.documents.requests import request_reason
from tgp.services.request_advice import advice, next_command, obstacles
from tgp.services.request_answers import Enquiry, Holder, RentPlan
from tools.reasons import REQUEST, given

CLASS = {
    "apiVersion": "tgp.io/v1",
    "kind": "GPUNodeClass",
    "metadata": {"name": "standard"},
    "spec": {
        "providers": [{"name": "vultr"}],
        "networking": {"backend": "none"},
        "limits": {"maxNodes": 2, "maxHourlyCost": "4.0"},
    },
}
STANDARD = decode(GPUNodeClass, CLASS)
SUSPENDED = decode(GPUNodeClass, {**CLASS, "spec": {**CLASS["spec"], "suspend": True}})
NO_ROOM = condition("Launched", "False", "LimitReached", "class standard: limits.maxNodes is 2, and 2 are in use", at=1)
LIMITED = a_request(phase="Pending", conditions=(NO_ROOM,))
HOLDERS = (Holder(ObjectKey("ml", "big"), "Ready", 2_400_000), Holder(ObjectKey("web", "small"), "Booting", 340_000))


def asked(request, now: float = 730, **more) -> Enquiry:
    return Enquiry(request, after(now), **{"class_name": "standard", "node_class": STANDARD, "holders": (), **more})


def told(request, now: float = 730, width: int = 110, **more) -> str:
    return drawn(render(asked(request, now, **more), width), width)


def test_a_request_that_waits_says_for_what_since_when_and_what_was_nearest():
    screen = told(WAITING)

    assert "request ml/train: Pending (NoOfferFits)   1x L40S up to $1.50/h" in screen
    assert "waits for   none of 9 offers fits: 9 too expensive" in screen
    assert "            1x L40S at $1.67/h from vultr: 17 cents above maxHourlyPrice" in screen
    assert "since       14:02:11Z, 12m ago" in screen
    assert "until       an offer fits; waiting costs nothing" in screen
    assert "a higher price" in screen
    assert "cost        $0.00 an hour now; $0.00 so far" in screen


@pytest.mark.parametrize(
    ("reason", "until"),
    [
        ("NodeClassNotReady", "until       the class is ready; waiting costs nothing"),
        ("NodeClassNotFound", "until       the cause is corrected; waiting costs nothing"),
    ],
)
def test_a_request_that_no_offer_can_help_does_not_wait_for_one(reason, until):
    assert until in told(waiting_for(reason))


@pytest.mark.parametrize(
    ("spec", "until"),
    [
        ({}, "it is terminated, after 24h or after 30m without a pod"),
        ({"maxLifetime": "Never"}, "it is terminated, after 30m without a pod"),
        ({"maxLifetime": "Never", "idleTimeout": "Never"}, "you delete it; no lifetime or idle limit is set"),
    ],
)
def test_a_machine_names_only_the_ends_that_it_has(spec, until):
    written = document(phase="Provisioning", conditions=(condition("Launched", "True", "Launched", ""),))
    written["spec"] = {key: value for key, value in written["spec"].items() if key != "maxLifetime"} | spec
    assert f"until       {until}" in told(decode(GPURequest, written))

    written["metadata"]["ownerReferences"] = [
        {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "name": "jobs", "uid": "u-1", "controller": True}
    ]
    assert "until       GPUNodePool jobs deletes it" in told(decode(GPURequest, written))


def test_a_limit_names_who_holds_it_the_dearest_first():
    screen = told(LIMITED, holders=HOLDERS)

    assert "class       standard, 2 of 2 machines, $2.74 of $4.00 an hour" in screen
    assert "kubectl edit gpunodeclass standard" in " ".join(screen.split())
    assert "next: kubectl get gpurequests -A" in screen
    assert screen.index("ml/big") < screen.index("web/small")


def test_who_may_not_list_requests_sees_what_the_class_says_of_itself():
    assert "standard, 0 of 2 machines" in told(LIMITED, holders=None)


def test_a_hold_and_a_suspended_class_say_how_they_are_released():
    words = obstacles(asked(WAITING, held=True, hold="rebuilding; since 2026-11-16T13:00:00Z", node_class=SUSPENDED))

    assert "rebuilding" in words[0]
    assert words[0].endswith("tgp release")
    assert words[1].endswith("tgp release class/standard")
    assert next_command(timeline_of(WAITING, after(9)), asked(WAITING, held=True)) == "tgp release"


def test_a_provider_that_cannot_be_asked_and_a_restored_copy_are_obstacles():
    silent = a_request(
        conditions=(
            condition("ProviderReachable", "False", "CredentialsMissing", "Secret gone; it still costs $1.20/h"),
            condition("Restored", message="its uid is another's"),
        )
    )
    words = " ".join(obstacles(asked(silent)))

    assert "CredentialsMissing" in words
    assert "does not buy: its uid is another's" in words


def waiting_for(reason: str, message: str = "", **spec):
    written = document(phase="Pending", conditions=(condition("Launched", "False", reason, message),))
    written["spec"] |= spec
    return decode(GPURequest, written)


@pytest.mark.parametrize(
    ("reason", "helps", "then"),
    [
        ("PurchasesPaused", "tgp release", "tgp offers --gpu L40S"),
        ("Suspended", "tgp release class/standard", "tgp offers --gpu L40S"),
        ("InvalidSpec", "create it again", "kubectl delete gpurequest train -n ml"),
        ("NodeClassNotFound", "tgp rent --class NAME", "kubectl get gpunodeclasses"),
        ("NodeClassNotReady", "its conditions name the problem", "kubectl describe gpunodeclass standard"),
        ("NodeClassNotSeen", "nothing to do", "tgp offers --gpu L40S"),
        ("NamespaceNotAllowed", "allowedNamespaces", "kubectl describe gpunodeclass standard"),
        ("SpotNotAllowed", "without --spot", "tgp offers --gpu L40S"),
        ("NotInClass", "instanceRequirements.gpuTypes", "kubectl get gpunodeclasses"),
        ("ProviderUnavailable", "key, balance or answer", "kubectl describe gpunodeclass standard"),
        ("DevicePluginMissing", "tolerates the node's taints", "kubectl get daemonsets -A"),
        ("LaunchOutcomePending", "nothing to do", "tgp offers --gpu L40S"),
    ],
)
def test_every_way_of_waiting_has_its_own_way_out(reason, helps, then):
    request = waiting_for(reason)
    found = advice(timeline_of(request, after(9)), asked(request))

    assert len(found) == 1
    assert helps in found[0]
    assert "an offer that fits" not in found[0]
    assert next_command(timeline_of(request, after(9)), asked(request)) == then


@pytest.mark.parametrize("reason", ["InvalidSpec", "NodeClassNotFound", "SpotNotAllowed", "DevicePluginMissing"])
def test_what_only_a_user_can_correct_does_not_wait_for_an_offer(reason):
    assert "until       the cause is corrected; waiting costs nothing" in told(waiting_for(reason))
    assert "until       an offer fits" in told(waiting_for("NoOfferFits"))


def test_what_is_asked_for_in_vain_is_said():
    inert = condition("MeshConfigIgnored", "True", "AnotherMesh", "spec.talosConfig.wireGuardConfig has no effect: so")
    request = decode(GPURequest, document(phase="Pending", conditions=(inert,)))

    assert "no effect   spec.talosConfig.wireGuardConfig has no effect: so" in told(request)
    assert "no effect" not in told(waiting_for("NoOfferFits"))


def test_an_unknown_gpu_is_not_looked_for_on_the_market():
    request = waiting_for("NoOfferFits", gpuType="RTX9999")

    assert "tgp offers" not in told(request)


def test_a_provider_that_the_class_does_not_have_is_said_rather_than_the_offers_of_others():
    screen = told(waiting_for("NoOfferFits", "none of 9 offers fits", provider="vastai", spot=True, region="us-west"))

    assert "1x L40S spot up to $1.50/h from vastai in us-west" in screen
    assert "stopped by  class standard does not have provider vast (enabled: vultr)" in screen
    assert "kubectl edit gpunodeclass standard" in screen
    assert "does not have provider" not in told(waiting_for("NoOfferFits", provider="vultr"))


def test_untrusted_hosts_are_allowed_by_a_line_to_copy():
    message = "none of 3 offers fits; to allow marketplace hosts, label the namespace tgp.io/allow-untrusted=true"

    screen = told(waiting_for("NoOfferFits", message), width=200)

    assert "kubectl label namespace ml tgp.io/allow-untrusted=true" in screen


def test_what_stands_in_brackets_stays_on_one_line():
    message = "every purchase is stopped (the invoice; since 2026-11-15T13:14:59Z); to go on: tgp release"
    screen = told(waiting_for("PurchasesPaused", message))

    assert "waits for   every purchase is stopped (the invoice; since 2026-11-15T13:14:59Z)" in screen
    assert "            to go on: tgp release" in screen


def test_a_machine_on_its_way_says_by_when_and_what_it_costs():
    screen = told(JOINING, now=1810)

    assert "waits for   no Node yet, at the latest at 14:27:20Z" in screen
    assert "cost        $1.20 an hour now; about $0.60 so far" in screen
    assert "1x L40S at $1.20/h from vultr in us-east" in screen
    assert "next: tgp watch ml/train" in screen


def test_a_machine_that_runs_says_until_when():
    assert "until       18:02:10Z, in 179m: then the machine is terminated" in told(READY, now=3610)


def test_a_machine_that_ends_says_whom_it_waits_for():
    screen = told(GOING, now=5460)

    assert "Terminating (Idle)" in screen
    assert "No pod has used the GPUs" in screen
    assert "would help  the end of the pods on the machine: waits for 2 pods until 16:32:10Z" in screen


STUCK = (
    "No pod has used the GPUs since 15:00:00Z. Termination was requested 9 times; last error: w1 answered 500 to off"
)
OF_A_POOL = {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "name": "w-work", "uid": "u-1", "controller": True}


def stuck(instance_id: str = "i-7", **offer) -> GPURequest:
    bought = {**BOUGHT, "instanceId": instance_id, "offer": {**BOUGHT["offer"], **offer}}
    conditions = (condition("Terminating", reason="Idle", message=STUCK, at=5400),)
    return a_request(
        phase="Terminating",
        attempts=[bought],
        conditions=conditions,
        meta={"ownerReferences": [OF_A_POOL]},
        terminationScheduledAt="2026-11-16T14:00:00Z",
    )


def test_a_termination_that_fails_waits_for_the_provider_and_not_for_its_pool():
    screen = told(stuck(), now=5460)

    gone = "provider vultr confirms that machine i-7 is gone"
    assert f"until       {gone}; termination is requested at least every 5m" in screen
    assert "GPUNodePool" not in screen
    assert "scaleDownEndpoint" not in screen
    assert f"until       its pods have ended, and {gone}" in told(GOING, now=5460)


def test_a_machine_you_own_that_does_not_go_off_can_be_switched_off_by_hand():
    owned = {"provider": "webhook", "bootMode": "power"}
    screen = " ".join(told(stuck("w1", **owned), now=5460).split())

    assert "until machine w1 is off; the request to its scaleDownEndpoint is repeated at least every 5m" in screen
    assert "would help powering machine w1 off by hand, or a correct scaleDownEndpoint: " in screen
    assert "kubectl edit gpunodeclass standard" in screen


def test_what_is_over_tells_what_it_cost_and_that_it_stays():
    screen = told(FINISHED, now=9000)

    assert "is over     No pod has used the GPUs" in screen
    assert "cost        $1.83 in total" in screen
    assert "stays as a cost record" in screen
    assert advice(timeline_of(FINISHED, after(9000)), asked(FINISHED)) == ()
    assert obstacles(asked(FINISHED, held=True)) == ()


def test_attempts_are_a_table_with_what_was_said():
    screen = told(FAILED)

    assert "TooManyFailures" in screen
    assert "Refused" in screen
    assert "no 2" in screen


def test_a_request_without_status_asks_whether_the_operator_runs():
    assert "does it run?" in told(NEW)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("request_", [NEW, WAITING, LIMITED, JOINING, READY, GOING, FINISHED, FAILED])
def test_no_line_is_longer_than_the_terminal(request_, width):
    lines = drawn(render(asked(request_, holders=HOLDERS), width), 400).splitlines()
    words = [line for line in lines if len(line) > width]

    assert all(line.startswith(("request ", "next: ")) for line in words)


def test_programs_read_the_same_answer():
    found = request_reason(asked(LIMITED, holders=HOLDERS, held=True, hold="why not"))

    assert found["kind"] == "RequestReason"
    assert found["reason"] == "LimitReached"
    assert found["purchasesPaused"] is True
    assert [row["usdPerHour"] for row in found["holders"]] == [2.4, 0.34]
    json.dumps(found)


def test_every_reason_to_wait_says_what_ends_it():
    reasons = {each.reason for each in given() if (each.chapter, each.topic) == (REQUEST, "Launched")} - {"Launched"}

    assert reasons - NEEDS_USER - AWAITED.keys() == set()
    assert not NEEDS_USER & AWAITED.keys()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PurchasesPaused", "purchases are resumed (tgp release); waiting costs nothing"),
        ("Restored", "the request is deleted: a restored copy never buys; waiting costs nothing"),
        ("LaunchOutcomePending", "until then a machine may be billed"),
        ("NoOfferFits", "an offer fits; waiting costs nothing"),
        ("OfANewerVersion", "the cause is gone; waiting costs nothing"),
    ],
)
def test_it_says_until_when(reason, words):
    waits = a_request(phase="Pending", conditions=(condition("Launched", "False", reason, "because"),))

    assert words in told(waits, width=200)


# -- against an API server -------------------------------------------------------------------------------------------


def why(server: Mounted, *words: str):
    return CliRunner().invoke(tgp, ["why", *words, "--kubeconfig", str(server.kubeconfig)], env={"TGP_WORLD": ""})


def test_everything_it_needs_is_read_from_the_cluster(tmp_path: Path):
    with Mounted(tmp_path) as server:
        address = furnish(server)
        classes = f"{server.url}/apis/tgp.io/v1/gpunodeclasses"
        send(classes, "POST", CLASS)
        held = {"name": "tgp-system", "annotations": {"tgp.io/hold": "moving the rack"}}
        send(f"{server.url}/api/v1/namespaces", "POST", {"metadata": held})
        other = {**document("other"), "metadata": {"name": "other", "namespace": "ml"}}
        send(address.rpartition("/")[0], "POST", other)
        become(
            address.replace("/train", "/other"),
            json.dumps({"phase": "Ready", "nodeClass": "standard", "attempts": [BOUGHT], "conditions": []}),
        )
        become(address, json.dumps(document(phase="Pending", conditions=(NO_ROOM,))["status"]))
        text, as_json = why(server, "ml/train"), why(server, "train", "-n", "ml", "-o", "json")
        as_yaml = why(server, "request/ml/train", "-o", "yaml")
        lost, other = why(server, "ml/tra"), why(server, "class/x")

    assert text.exit_code == 0, text.output
    assert "moving the rack" in text.output
    assert "1 of 2 machines, $1.20 of $4.00 an hour" in text.output
    assert "ml/other" in text.output
    assert json.loads(as_json.output)["holders"] == [
        {"namespace": "ml", "name": "other", "phase": "Ready", "usdPerHour": 1.2}
    ]
    assert YAML(typ="safe", pure=True).load(as_yaml.output)["reason"] == "LimitReached"
    assert (lost.exit_code, other.exit_code) == (1, 2)
    assert "did you mean train?" in lost.output
    assert "kubectl describe gpunodeclass x" in other.output


@pytest.mark.parametrize("backend", ["", "kubespan"])
def test_a_class_without_a_mesh_has_the_one_of_the_charts_value(tmp_path: Path, backend: str):
    with Mounted(tmp_path) as server:
        address = furnish(server)
        spec = {"providers": [{"name": "vultr"}]}
        send(f"{server.url}/apis/tgp.io/v1/gpunodeclasses", "POST", {**CLASS, "spec": spec})
        send(f"{server.url}/api/v1/namespaces", "POST", {"metadata": {"name": "tgp-system"}})
        data = {"settings.yaml": json.dumps({"networking": {"backend": backend}})}
        settings = {"metadata": {"name": "tgp-operator-settings"}, "data": data}
        send(f"{server.url}/api/v1/namespaces/tgp-system/configmaps", "POST", settings)
        become(address, json.dumps(document(phase="Pending", conditions=(NO_ROOM,))["status"]))
        said = why(server, "ml/train", "-o", "json").output

    assert ("networking.backend" in said) is (backend == "")


def test_a_cluster_without_our_kinds_is_an_error_without_a_traceback(tmp_path: Path):
    with Mounted(tmp_path) as server:
        answer = why(server, "ml/train")

    assert answer.exit_code == 1
    assert "tgp crds apply" in answer.output
    assert "Traceback" not in answer.output


def test_a_cluster_that_is_not_there_is_an_error_without_a_traceback(tmp_path: Path):
    with Mounted(tmp_path) as server:
        pass  # its port is closed by now
    answer = why(server, "ml/train")

    assert answer.exit_code == 1
    assert isinstance(answer.exception, SystemExit)


UNLISTED = a_request(
    phase="Pending", conditions=(condition("Launched", "False", "OffersNotSeen", "vultr was not listed yet", at=1),)
)
NO_KEY = Gap("CredentialsMissing", "there is no Secret tgp-operator-secret", "kubectl create secret generic …")


def test_nothing_goes_on_by_itself_while_a_key_is_missing():
    assert "nothing to do" in " ".join(told(UNLISTED).split())

    screen = " ".join(told(UNLISTED, gaps=(NO_KEY,)).split())

    assert "nothing to do" not in screen
    assert "class standard: there is no Secret tgp-operator-secret. Try: kubectl create secret generic" in screen


def test_what_is_reserved_is_told_apart_from_what_costs():
    reserved = a_request(phase="Provisioning", attempts=({"number": 1, "token": "t", "offer": {**BOUGHT["offer"]}},))

    assert "is reserved; no bill is known yet" in told(reserved)
    assert "nothing is billed yet" not in told(READY)


def test_the_market_of_this_moment_is_told_where_the_status_is_older():
    stay = RentPlan(WAITING, after(0), NoPurchase("NoOfferFits", "none of 3 offers fits: 3 sold out"))

    assert "market now  none of 3 offers fits: 3 sold out" in told(WAITING, plan=stay)
    assert "market now" not in told(WAITING)
