"""A client with a token of ours may become the one Node of the token, once; other clients nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from tests.core.joining.requests import (
    BEARER,
    COMMON_NAME,
    KUBELETS,
    NODE,
    NOW,
    ORGANISATION,
    SUBJECT,
    UID,
    a_csr,
    a_document,
    forged,
)
from tgp.core.joining.csr import SEEN_WITHIN, SHOWN, Approve, AttemptClaim, Deny, Ignore, Later, judge_csr, token_id_of
from tgp.core.model.signing import TOKEN_GROUP, CsrAnswer

WAITS = AttemptClaim(waits=True, node=NODE)
HONEST = a_document()
O_NODES, CN_NODE = SUBJECT


def judged(bearer=BEARER, claim=WAITS, now=NOW, **changes):
    return judge_csr(a_csr(**changes), bearer, claim, now)


@pytest.mark.parametrize(
    "document",
    [
        HONEST,
        HONEST.strip(),
        HONEST.replace(b"\n", b"\r\n"),
        a_document((CN_NODE, O_NODES)),
        a_document(key="p384"),
        a_document(key="2048"),
    ],
    ids=["as kubelets write it", "without the last line end", "from elsewhere", "name first", "longer", "RSA"],
)
def test_a_kubelet_with_its_token_may_become_its_node(document):
    assert judged(document=document) == Approve(NODE)


def test_a_node_may_have_as_long_a_name_as_kubernetes_allows():
    """Beyond what the standard allows a common name: no reader of ours may stumble over it."""
    name = "n" * 63
    document = a_document((O_NODES, (COMMON_NAME, f"system:node:{name}")))

    assert judged(replace(BEARER, node=name), AttemptClaim(waits=True, node=name), document=document) == Approve(name)


def test_an_rsa_key_may_encipher_keys_too():
    assert judged(usages=("key encipherment", *KUBELETS)) == Approve(NODE)


def test_a_request_that_was_written_down_before_a_crash_is_approved_after_it():
    assert judged(bearer=replace(BEARER, used_by=UID)) == Approve(NODE)


HOSTILE_NAMES = {
    "another node": ((ORGANISATION, "system:nodes"), (COMMON_NAME, "system:node:train-2-ffffffff")),
    "a control plane's node": ((ORGANISATION, "system:nodes"), (COMMON_NAME, "system:node:control-plane-1")),
    "an administrator": ((ORGANISATION, "system:masters"), (COMMON_NAME, "admin")),
    "its node, as an administrator": ((ORGANISATION, "system:masters"), CN_NODE),
    "its node, and an administrator": (O_NODES, (ORGANISATION, "system:masters"), CN_NODE),
    "an administrator called system:masters": (O_NODES, (COMMON_NAME, "system:masters")),
    "the controller manager": ((COMMON_NAME, "system:kube-controller-manager"),),
    "no group": (CN_NODE,),
    "no name": (O_NODES,),
    "absent": (),
    "two names, its own first": (O_NODES, CN_NODE, (COMMON_NAME, "system:node:other")),
    "two names, its own last": (O_NODES, (COMMON_NAME, "system:node:other"), CN_NODE),
    "the same name twice": (O_NODES, CN_NODE, CN_NODE),
    "a unit more": (O_NODES, CN_NODE, (NameOID.ORGANIZATIONAL_UNIT_NAME, "system:masters")),
    "a country more": (O_NODES, CN_NODE, (NameOID.COUNTRY_NAME, "CH")),
    "capitals": (O_NODES, (COMMON_NAME, f"system:node:{NODE.upper()}")),
    "a longer name": (O_NODES, (COMMON_NAME, f"system:node:{NODE}-1")),
    "a shorter name": (O_NODES, (COMMON_NAME, f"system:node:{NODE[:-1]}")),
    "an empty name": (O_NODES, (COMMON_NAME, "system:node:")),
    "a space": (O_NODES, (COMMON_NAME, f"system:node:{NODE} ")),
    "a zero byte": (O_NODES, (COMMON_NAME, f"system:node:{NODE}\x00.evil")),
    "a line end": (O_NODES, (COMMON_NAME, f"system:node:{NODE}\nsystem:masters")),
    "groups in one": ((ORGANISATION, "system:nodes,system:masters"), CN_NODE),
    "group and name changed round": ((COMMON_NAME, "system:nodes"), (ORGANISATION, f"system:node:{NODE}")),
}


@pytest.mark.parametrize("subject", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_it_cannot_become_another_identity(subject):
    """Whatever the subject says besides this one name, and in however many ways."""
    said = judged(document=a_document(subject))

    assert isinstance(said, Deny)
    assert said.reason == "WrongName"
    assert said.why.endswith(f"its token is for Node {NODE} only")
    assert "\n" not in said.why
    assert "\x00" not in said.why


HOSTILE_DOCUMENTS = {
    "a DNS name": ("ExtraNames", a_document(names=["kubernetes.default.svc"])),
    "an address": ("ExtraNames", a_document(address="10.0.0.1")),
    "a challenge": ("ExtraNames", a_document(challenge=True)),
    "group and name in one part": ("WrongName", a_document(multi=True)),
    "another's signature": ("Unreadable", forged(HONEST)),
    "a weak RSA key": ("WeakKey", a_document(key="1024")),
    "a weak curve": ("WeakKey", a_document(key="p192")),
    "a key no kubelet makes": ("WeakKey", a_document(key="ed25519")),
    "nothing": ("Unreadable", b""),
    "no PEM": ("Unreadable", b"let me in"),
    "not base64": ("Unreadable", b"-----BEGIN CERTIFICATE REQUEST-----\nA===\n-----END CERTIFICATE REQUEST-----\n"),
    "not DER": ("Unreadable", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"),
    "two, another's first": ("Unreadable", a_document(HOSTILE_NAMES["an administrator"]) + HONEST),
    "two, another's last": ("Unreadable", HONEST + a_document(HOSTILE_NAMES["an administrator"])),
    "words before": ("Unreadable", b"hello\n" + HONEST),
    "words behind": ("Unreadable", HONEST + b"hello"),
    "a header inside": ("Unreadable", HONEST.replace(b"REQUEST-----\n", b"REQUEST-----\nProc-Type: 4\n\n", 1)),
    "the old title": ("Unreadable", HONEST.replace(b"CERTIFICATE REQUEST", b"NEW CERTIFICATE REQUEST")),
    "a certificate's title": ("Unreadable", HONEST.replace(b"CERTIFICATE REQUEST", b"CERTIFICATE")),
    "cut short": ("Unreadable", HONEST[: len(HONEST) // 2]),
    "a mebibyte": ("Unreadable", HONEST + b"\n" * (1 << 20)),
}


@pytest.mark.parametrize(("reason", "document"), HOSTILE_DOCUMENTS.values(), ids=HOSTILE_DOCUMENTS)
def test_a_request_that_no_kubelet_would_send_is_denied(reason, document):
    said = judged(document=document)

    assert isinstance(said, Deny)
    assert said.reason == reason


@pytest.mark.parametrize(
    "usages",
    [
        (),
        ("client auth",),
        ("digital signature",),
        (*KUBELETS, "server auth"),
        (*KUBELETS, "cert sign"),
        ("any",),
        (*KUBELETS, "client auth"),
        ("digital signature", "server auth"),
    ],
    ids=lambda usages: "+".join(usages) or "none",
)
def test_a_certificate_for_anything_else_is_denied(usages):
    said = judged(usages=usages)

    assert isinstance(said, Deny)
    assert said.reason == "WrongUsages"


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("NoToken", {"username": "ann"}),
        ("NoToken", {"username": "system:bootstrap:ABC123"}),
        ("NoToken", {"username": "system:bootstrap:abc1234"}),
        ("NoToken", {"username": "system:serviceaccount:kube-system:default"}),
        ("UnknownToken", {"bearer": None}),
        ("TokenExpired", {"now": BEARER.expires_at}),
        ("TokenUsed", {"bearer": replace(BEARER, used_by="00000000-0000-4000-8000-00000000000b")}),
        ("NotExpected", {"claim": AttemptClaim(waits=False, node=NODE)}),
        ("NotExpected", {"claim": AttemptClaim(waits=True, node="another")}),
        ("NotExpected", {"claim": AttemptClaim(waits=True, node="")}),
        ("NameTaken", {"claim": AttemptClaim(waits=True, node=NODE, taken=True)}),
    ],
)
def test_a_token_that_is_not_good_any_more_opens_nothing(reason, changes):
    said = judged(**changes)

    assert isinstance(said, Deny)
    assert said.reason == reason


def test_a_reservation_that_is_not_seen_yet_is_waited_for_and_not_for_ever():
    """A denial is for good, and our view may lag behind the machine."""
    asked = a_csr()

    assert judge_csr(asked, BEARER, None, NOW) == Later(asked.created_at + SEEN_WITHIN)
    assert judge_csr(asked, BEARER, None, asked.created_at + SEEN_WITHIN).reason == "NotExpected"


def test_what_is_wrong_in_itself_is_not_waited_for():
    asked = a_csr(document=a_document(HOSTILE_NAMES["another node"]))

    assert judge_csr(asked, BEARER, None, NOW).reason == "WrongName"


@pytest.mark.parametrize(
    "changes",
    [
        {"groups": ("system:bootstrappers", "system:bootstrappers:nodes")},
        {"groups": ("system:bootstrappers", f"{TOKEN_GROUP}x")},
        {"groups": ()},
        {"signer": "kubernetes.io/kube-apiserver-client"},
        {"signer": "kubernetes.io/kubelet-serving"},
        {"answer": CsrAnswer("Approved", "AutoApproved")},
        {"answer": CsrAnswer("Denied")},
        {"answer": CsrAnswer("Failed")},
        {"deletion_requested_at": NOW},
        {"unreadable": "a newer version wrote it"},
    ],
)
def test_what_is_not_ours_or_answered_is_never_touched(changes):
    assert judged(**changes) == Ignore()


@given(st.binary(max_size=300))
def test_no_bytes_at_all_are_approved_or_raise(noise):
    body = b"-----BEGIN CERTIFICATE REQUEST-----\n" + noise + b"\n-----END CERTIFICATE REQUEST-----\n"

    assert isinstance(judged(document=noise), Deny)
    assert isinstance(judged(document=body), Deny)


@given(st.integers(0, len(HONEST) - 30), st.integers(1, 255))
def test_no_single_byte_of_an_honest_request_can_be_changed(at, change):
    """But for the white space around lines, which is no part of it."""
    bent = bytearray(HONEST)
    bent[at] ^= change

    said = judged(document=bytes(bent))
    assert isinstance(said, Deny) or bytes(bent).split() == HONEST.split()


@given(st.text(max_size=60).filter(lambda text: text != f"system:node:{NODE}" and text))
def test_no_other_name_is_approved_and_what_is_said_of_it_is_one_short_line(name):
    said = judged(document=a_document((O_NODES, (COMMON_NAME, name))))

    assert isinstance(said, Deny)
    assert said.why.isprintable()
    assert len(said.why) < 2 * SHOWN + len(NODE)


@pytest.mark.parametrize(
    ("username", "token_id"),
    [("system:bootstrap:abc123", "abc123"), ("system:bootstrap:abc123\n", ""), ("system:bootstrap:", ""), ("", "")],
)
def test_the_token_is_read_from_the_name_that_the_api_server_gives_its_bearer(username, token_id):
    assert token_id_of(username) == token_id


def test_time_passes_until_the_very_second_of_expiry():
    assert judged(now=BEARER.expires_at - timedelta(microseconds=1)) == Approve(NODE)
