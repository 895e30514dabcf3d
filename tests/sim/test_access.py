"""The HTTPS side of the whole operator: its certificate through trouble and time, and who may read what."""

import base64
import itertools
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.an_operator import NAMESPACE_NAME, a_class, create, furnish, open_market, settle
from tests.sim.test_leadership_status import Replica
from tgp.adapters.http.issue import issue
from tgp.adapters.kube.reviews import SUBJECT_REVIEW, TOKEN_REVIEW
from tgp.api.resource import CLUSTER_ROLE, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, Resource
from tgp.app.settings import Settings
from tgp.core.access.certificate import (
    AUTHORITY,
    AUTHORITY_CONFIG_MAP,
    AUTHORITY_KEY,
    CERTIFICATE,
    MANAGED_BY,
    MANAGED_LABEL,
    OUR_SECRET,
    Issue,
    service_names,
)
from tgp.core.access.token import AUDIENCE, TOKEN_HEADER
from tgp.interfaces.web.api_pages import ENTRIES
from tgp.interfaces.web.gate import PER_ADDRESS
from tgp.interfaces.web.offers_page import PARAMETERS
from tgp.ports.http import Call, Reply
from tgp.services.documents.market import read_offer_list
from tgp.sim.world import KUBERNETES, World

HTTPS = Settings(https_listen="127.0.0.1:8443")
BINDING = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)

ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)


def begun(world: World, said: Settings = HTTPS) -> Replica:
    furnish(world)
    replica = Replica(world, "one", said)
    settle(world)
    return replica


def stored(world: World) -> dict[str, Any]:
    found = world.api.local_api.get(SECRET, NAMESPACE_NAME, OUR_SECRET)
    assert found is not None
    return found


def leaf(world: World) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(stored(world)["data"][CERTIFICATE]))


def published(world: World) -> str:
    found = world.api.local_api.get(CONFIG_MAP, NAMESPACE_NAME, AUTHORITY_CONFIG_MAP)
    return (found or {}).get("data", {}).get(AUTHORITY, "")


def lines(caplog, name: str) -> list[Any]:
    return [line for line in caplog.records if line.message == name]


def ask(world: World, replica: Replica, token: str = "", path: str = "/metrics", **headers: str) -> Reply:
    assert replica.operator is not None
    assert replica.operator.https is not None
    said = (("Authorization", f"Bearer {token}"),) if token else ()
    return world.until(
        replica.operator.https.gate.handle(Call("GET", path, headers=(*said, *headers.items()), peer="10.0.0.1"))
    )


def a_token(world: World, *, audiences: tuple[str, ...] = (), name: str = "prometheus", minutes: int = 10) -> str:
    if world.api.local_api.get(SERVICE_ACCOUNT, "default", name) is None:
        create(world, SERVICE_ACCOUNT, name, "default")
    account = world.api.local_api.get(SERVICE_ACCOUNT, "default", name)
    assert account is not None
    return world.api.authentication.issue(account, timedelta(minutes=minutes), audiences)[0]


def allow(world: World, name: str, rule: dict[str, Any], account: str = "prometheus") -> None:
    create(world, CLUSTER_ROLE, name, rules=[rule])
    create(
        world,
        BINDING,
        name,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    )


METRICS_RULE = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


def reviews_of(world: World) -> list[str]:
    """The kinds of the reviews from now on, in order."""
    heard: list[str] = []
    original = world.api.handle

    async def overheard(call: Call):
        heard.extend(each.kind for each in (TOKEN_REVIEW, SUBJECT_REVIEW) if call.path == each.path())
        return await original(call)

    world.network.mount(KUBERNETES, overheard)
    return heard


# -- the certificate -------------------------------------------------------------------------------------------------


def test_the_leader_makes_one_for_all_replicas_and_publishes_its_authority():
    with World("certificate") as world:
        first = begun(world)
        second = Replica(world, "two", HTTPS)
        settle(world)
        serving = [replica.operator.https.keeper.not_after for replica in (first, second)]

        assert stored(world)["type"] == "kubernetes.io/tls"
        assert serving == [leaf(world).not_valid_after_utc] * 2
        assert published(world).encode() == base64.b64decode(stored(world)["data"][AUTHORITY])
        shown = first.operator.metrics.registry.get_sample_value("tgp_certificate_expiry_timestamp_seconds")
        assert shown == serving[0].timestamp()


def test_without_https_nothing_is_written():
    with World("no certificate") as world:
        begun(world, Settings())

        assert world.api.local_api.get(SECRET, NAMESPACE_NAME, OUR_SECRET) is None


def test_a_leaf_that_cannot_be_read_is_made_again_under_the_same_authority(caplog):
    caplog.set_level(logging.INFO)
    with World("unreadable") as world:
        begun(world)
        before, authority = leaf(world), published(world)
        world.api.local_api.merge_patch(SECRET, NAMESPACE_NAME, OUR_SECRET, {"data": {CERTIFICATE: "bm9uc2Vuc2U="}})
        settle(world)

        assert leaf(world) != before
        assert published(world) == authority
        assert len(lines(caplog, "CertificateIssued")) == 2


def test_a_secret_of_yours_that_is_missing_or_wrong_is_said_once_and_the_operator_goes_on(caplog):
    with World("yours") as world:
        replica = begun(world, Settings(https_listen="127.0.0.1:8443", https_secret="mine"))
        (told,) = lines(caplog, "CertificateUnusable")

        assert "Secret tgp-system/mine does not exist" in told.why
        assert "kubectl -n tgp-system create secret tls mine" in told.why
        assert world.api.local_api.get(SECRET, NAMESPACE_NAME, "mine") is None
        assert replica.operator.leads
        assert replica.troubles(world) == []

        create(world, SECRET, "mine", NAMESPACE_NAME, stringData={"tls.crt": "x", "tls.key": "y"})
        settle(world)
        assert "tls.crt is not a certificate" in lines(caplog, "CertificateUnusable")[-1].why
        assert len(lines(caplog, "CertificateUnusable")) == 2


def test_one_that_only_reads_makes_none_and_says_so(caplog):
    with World("observer") as world:
        begun(world, Settings(https_listen="127.0.0.1:8443", observe=True))
        (told,) = lines(caplog, "CertificateUnusable")

        assert "does not exist" in told.why
        assert world.api.local_api.get(SECRET, NAMESPACE_NAME, OUR_SECRET) is None


def test_a_config_map_that_refuses_is_said_and_what_is_in_it_stays(caplog):
    with World("full") as world:
        furnish(world)
        create(world, CONFIG_MAP, AUTHORITY_CONFIG_MAP, NAMESPACE_NAME, data={"mine": "kept"}, immutable=True)
        replica = Replica(world, "one", HTTPS)
        settle(world)
        found = world.api.local_api.get(CONFIG_MAP, NAMESPACE_NAME, AUTHORITY_CONFIG_MAP)

        assert len(lines(caplog, "AuthorityNotPublished")) == 1
        assert found is not None
        assert found["data"] == {"mine": "kept"}
        assert replica.operator.https.keeper.not_after is not None, "it is served all the same"


@pytest.mark.parametrize("age", [timedelta(days=61), timedelta(days=100), timedelta(days=-365)])
def test_one_of_old_or_of_a_clock_that_was_a_year_ahead_is_replaced_and_the_authority_keeps_its_key(age):
    with World(f"renewal {age}") as world:
        furnish(world)
        old = issue(Issue.EVERYTHING, {}, service_names(NAMESPACE_NAME), world.clock.now() - age, Tokens())
        data = {key: base64.b64encode(value).decode() for key, value in old.items()}
        world.api.local_api.create(
            SECRET,
            {
                "metadata": {"namespace": NAMESPACE_NAME, "name": OUR_SECRET, "labels": {MANAGED_LABEL: MANAGED_BY}},
                "type": "kubernetes.io/tls",
                "data": data,
            },
        )
        replica = Replica(world, "one", HTTPS)
        settle(world)

        assert leaf(world).not_valid_before_utc <= world.clock.now() < leaf(world).not_valid_after_utc
        assert stored(world)["data"][AUTHORITY_KEY] == data[AUTHORITY_KEY]
        assert replica.operator.https.keeper.not_after == leaf(world).not_valid_after_utc


class Tokens:
    """Entropy for one certificate."""

    def token(self, size: int) -> bytes:
        return bytes(range(1, size + 1))

    def jitter(self) -> float:
        return 0.0


# -- who may read ----------------------------------------------------------------------------------------------------


def test_401_without_a_valid_token_403_without_the_right_and_200_with_it():
    with World("gate") as world:
        replica = begun(world)
        token = a_token(world)

        assert ask(world, replica).status == 401
        assert ask(world, replica).header("WWW-Authenticate") == "Bearer"
        assert ask(world, replica, "nonsense").status == 401
        refused = ask(world, replica, token)
        assert refused.status == 403
        assert "system:serviceaccount:default:prometheus may not get /metrics" in refused.text("message")

        allow(world, "reads-metrics", METRICS_RULE)
        world.run(seconds=11)
        reply = ask(world, replica, token)
        assert (reply.status, reply.content[:6]) == (200, b"# HELP")
        assert ask(world, replica, token, "/nowhere").status == 404
        assert ask(world, replica, path="/nowhere").status == 401, "who is unknown learns of no path"


@pytest.mark.parametrize(("audiences", "status"), [((), 200), ((AUDIENCE,), 200), (("vault",), 401)])
def test_a_token_is_for_us_or_for_the_api_server_and_for_no_other(audiences, status):
    with World(f"audience {audiences}") as world:
        replica = begun(world)
        allow(world, "reads-metrics", METRICS_RULE)
        token = a_token(world, audiences=audiences)

        assert ask(world, replica, token).status == status
        assert ask(world, replica, **{TOKEN_HEADER: token}).status == status


def test_a_token_with_bytes_that_no_token_has_is_refused_without_a_review():
    """As aiohttp hands on bytes that are not UTF-8: JSON has no form for them, so they cannot be reviewed."""
    with World("odd tokens") as world:
        replica = begun(world)
        heard = reviews_of(world)

        assert ask(world, replica, "\udcff\udcfe").status == 401
        assert ask(world, replica, **{TOKEN_HEADER: "d\udce4d"}).status == 401
        assert ask(world, replica, "täglich").status == 401
        assert heard == []


def test_one_review_of_each_kind_in_ten_seconds_however_often_it_is_asked():
    with World("reviews") as world:
        replica = begun(world)
        allow(world, "reads-metrics", METRICS_RULE)
        token, heard = a_token(world), reviews_of(world)
        for _ in range(9):
            assert ask(world, replica, token).status == 200
            world.run(seconds=1)
        assert heard == ["TokenReview", "SubjectAccessReview"]

        for _ in range(5):
            ask(world, replica, "wrong")
        assert heard == ["TokenReview", "SubjectAccessReview", "TokenReview"]


def test_a_token_that_expired_and_a_right_that_was_taken_away_end_within_ten_seconds():
    with World("expiry") as world:
        replica = begun(world)
        allow(world, "reads-metrics", METRICS_RULE)
        short, long = a_token(world, minutes=10), a_token(world, minutes=60)
        assert ask(world, replica, short).status == ask(world, replica, long).status == 200

        world.run(minutes=10, seconds=10)
        assert ask(world, replica, short).status == 401
        assert ask(world, replica, long).status == 200
        world.api.local_api.delete(BINDING, "", "reads-metrics")
        world.run(seconds=10)
        assert ask(world, replica, long).status == 403


def test_an_address_that_asks_too_often_is_refused_before_any_review():
    with World("flood") as world:
        replica = begun(world)
        heard = reviews_of(world)
        began = world.loop.time()
        statuses = [ask(world, replica, f"guess-{number}").status for number in range(200)]
        most = PER_ADDRESS.burst + PER_ADDRESS.per_second * (world.loop.time() - began)

        assert set(statuses) == {401, 429}
        assert len(heard) == statuses.count(401) <= most


def test_a_replica_that_does_not_lead_answers_too_and_a_silent_api_server_is_503():
    with World("follower") as world:
        begun(world)
        second = Replica(world, "two", HTTPS)
        settle(world)
        allow(world, "reads-metrics", METRICS_RULE)
        token = a_token(world)
        assert not second.operator.leads
        assert ask(world, second, token).status == 200

        second.http.bars, second.http._path = True, "reviews"
        assert ask(world, second, a_token(world, name="other")).status == 503


# -- the HTTP API ----------------------------------------------------------------------------------------------------

OFFERS = "/api/v1/offers"
OFFERS_RULE = {"apiGroups": ["tgp.io"], "resources": ["offers"], "verbs": ["list"]}


def with_offers(world: World) -> Replica:
    furnish(world)
    open_market(world, "simulated")
    a_class(world, "rented", providers=[{"name": "simulated"}])
    replica = Replica(world, "one", HTTPS)
    settle(world)
    return replica


def asks(world: World, replica: Replica, token: str, query: Sequence[tuple[str, str]], peer: str = "10.0.0.1") -> Reply:
    headers = ((TOKEN_HEADER, token),) if token else ()
    call = Call("GET", OFFERS, query=tuple(query), headers=headers, peer=peer)
    return world.until(replica.operator.https.gate.handle(call))


def test_the_operators_own_book_is_read_with_its_ages():
    with World("offers") as world:
        replica = with_offers(world)
        allow(world, "reads-offers", OFFERS_RULE)
        token = a_token(world, audiences=(AUDIENCE,))
        answer = read_offer_list(asks(world, replica, token, ()).json())
        narrow = read_offer_list(asks(world, replica, token, [("gpu", "A100"), ("limit", "1")]).json())

        known = len(replica.operator.stores.market.book)
        assert len(answer.rows) + sum(answer.notes.rejected.values()) == known > 1
        assert all(0 <= row.age_seconds < 300 for row in answer.rows)
        assert [row.gpu[:4] for row in narrow.rows] == ["A100"]
        assert narrow.notes.rejected
        wrong = asks(world, replica, token, [("gpu", "A10O")])
        assert (wrong.status, "did you mean" in wrong.text("message")) == (400, True)


def test_all_namespaces_is_one_question_and_who_may_not_names_one():
    with World("namespaces") as world:
        replica = with_offers(world)
        create(world, CLUSTER_ROLE, "reads-offers", rules=[OFFERS_RULE])
        subjects = [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-offers"}
        create(world, ROLE_BINDING, "reads-offers", "default", roleRef=role, subjects=subjects)
        token = a_token(world)
        heard = reviews_of(world)
        refused = asks(world, replica, token, ())

        assert refused.status == 403
        assert "may not list offers.tgp.io in all namespaces; name a namespace of yours" in refused.text("message")
        assert asks(world, replica, token, [("namespace", "default")]).status == 200
        assert asks(world, replica, token, [("namespace", "kube-system")]).status == 403
        assert heard == ["TokenReview", *["SubjectAccessReview"] * 3]


def test_the_document_describes_every_page_and_is_not_for_everyone():
    with World("openapi") as world:
        replica = begun(world)
        token = a_token(world)
        assert ask(world, replica, path="/openapi.json").status == 401
        assert ask(world, replica, token, "/openapi.json").status == 403
        allow(world, "reads-it", {"nonResourceURLs": ["/openapi.json"], "verbs": ["get"]})
        world.run(seconds=11)
        document = ask(world, replica, token, "/openapi.json").json()

        assert set(document["paths"]) == {"/metrics", OFFERS, "/openapi.json", *(each.about.path for each in ENTRIES)}
        told = document["paths"][OFFERS]["get"]["parameters"]
        assert {each["name"] for each in told} == set(PARAMETERS)


TEXTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from(["", "0", "1", "64", "true", "false", "A100", "vultr", "us", "1e999", "NaN", "-1", "٣", "\x00"]),
)
QUERIES = st.lists(st.tuples(st.sampled_from([*PARAMETERS, "other", ""]), TEXTS), max_size=6)


def test_no_question_without_a_token_is_answered_and_none_makes_it_fail():
    """What is asked is drawn from the names of the OpenAPI document, what is given is anything."""
    with World("fuzz") as world:
        replica = with_offers(world)
        allow(world, "reads-offers", OFFERS_RULE)
        token = a_token(world)
        statuses: set[int] = set()
        addresses = itertools.count()

        @settings(max_examples=300, deadline=None, database=None, derandomize=True)
        @given(QUERIES, st.booleans())
        def ask_anything(query: list[tuple[str, str]], known: bool) -> None:
            reply = asks(world, replica, token if known else "", query, peer=f"10.0.{next(addresses)}.1")
            statuses.add(reply.status)
            assert (reply.status == 401) is not known
            assert reply.status < 500

        ask_anything()
        assert statuses >= {200, 400, 401}
