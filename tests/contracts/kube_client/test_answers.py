"""What each answer of the API server means for the caller."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.kube_client.scripted import a_status, json_reply
from tgp.adapters.kube.errors import MAX_MESSAGE, error_for, read_status
from tgp.ports.cluster import (
    AlreadyExists,
    Blocked,
    ClusterBusy,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Refused,
    Unauthenticated,
    WriteUnknown,
)
from tgp.ports.http import Reply

RBAC = 'pods is forbidden: User "system:serviceaccount:a:b" cannot list resource "pods" in API group ""'
TERMINATING = "unable to create new content in namespace x because it is being terminated"
HTML = Reply(502, b"<html>Bad Gateway</html>", (("Content-Type", "text/html"),))


@pytest.mark.parametrize(
    ("reply", "reading", "changing"),
    [
        (a_status(401, "Unauthorized"), Unauthenticated, Unauthenticated),
        (a_status(403, "Forbidden", RBAC), Forbidden, Forbidden),
        (a_status(403, "Forbidden", 'admission webhook "x" denied the request: no'), Refused, Refused),
        (a_status(403, "Forbidden", "exceeded quota: team"), Refused, Refused),
        (a_status(403, "Forbidden", TERMINATING, causes=[{"reason": "NamespaceTerminating"}]), Refused, Refused),
        (Reply(403, b"<html>"), Forbidden, Forbidden),
        (a_status(404, "NotFound"), NotFound, NotFound),
        (Reply(404, b"404 page not found\n"), NotFound, NotFound),
        (a_status(405, "MethodNotAllowed"), Refused, Refused),
        (a_status(409, "AlreadyExists"), AlreadyExists, AlreadyExists),
        (a_status(409, "Conflict"), Conflict, Conflict),
        (a_status(410, "Expired"), Expired, Expired),
        (a_status(410, "Gone"), Expired, Expired),
        (a_status(413, "RequestEntityTooLarge"), Refused, Refused),
        (a_status(415, "UnsupportedMediaType"), Refused, Refused),
        (a_status(400, "BadRequest"), Refused, Refused),
        (a_status(422, "Invalid", "spec.x: Invalid value"), Refused, Refused),
        (a_status(422, "Invalid", "", causes=[{"field": "metadata.uid"}]), Refused, Conflict),
        (a_status(429, "TooManyRequests"), ClusterBusy, ClusterBusy),
        (Reply(429, b"Too many requests, please try again later.\n"), ClusterBusy, ClusterBusy),
        (a_status(500, "InternalError", "etcdserver: request timed out"), ClusterBusy, WriteUnknown),
        (a_status(500, "InternalError", 'failed calling webhook "x": refused'), ClusterBusy, ClusterBusy),
        (a_status(503, "ServiceUnavailable"), ClusterBusy, WriteUnknown),
        (a_status(504, "Timeout"), ClusterBusy, WriteUnknown),
        (HTML, ClusterBusy, WriteUnknown),
        (Reply(502), ClusterBusy, WriteUnknown),
        (Reply(302, b"", (("Location", "https://login.example"),)), ClusterBusy, ClusterBusy),
        (Reply(408), ClusterBusy, WriteUnknown),
        (Reply(599, b"\xff"), ClusterBusy, WriteUnknown),
    ],
)
def test_every_refusal_is_named_by_what_to_do_next(reply: Reply, reading: type, changing: type):
    assert type(error_for(reply, "reading Pod a/b", changes=False)) is reading
    assert type(error_for(reply, "patching Pod a/b", changes=True)) is changing


def test_an_eviction_held_back_by_a_budget_is_blocked():
    reply = a_status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}], retryAfterSeconds=7)

    error = error_for(reply, "evicting Pod a/b", changes=True)

    assert isinstance(error, Blocked)
    assert error.retry_after == timedelta(seconds=7)


def test_the_header_says_when_to_come_back():
    reply = json_reply(429, {"kind": "Status", "details": {"retryAfterSeconds": 1}}, ("Retry-After", "3"))

    error = error_for(reply, "x", changes=False)

    assert isinstance(error, ClusterBusy)
    assert error.retry_after == timedelta(seconds=3)


def test_two_budgets_on_one_pod_are_a_mistake_of_the_user():
    """The API server answers 500; asking again would never help."""
    said = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

    assert isinstance(error_for(a_status(500, "InternalError", said), "evicting", changes=True), Refused)


def test_the_text_says_what_was_tried_and_what_was_answered():
    error = error_for(a_status(422, "Invalid", "spec.nodes: must be positive"), "creating Pool a/b", changes=True)

    assert str(error) == "creating Pool a/b: 422 Invalid: spec.nodes: must be positive"


def test_a_proxys_page_is_told_as_such_and_not_quoted():
    error = error_for(HTML, "reading Pod a/b", changes=False)

    assert str(error) == "reading Pod a/b: 502: expected JSON, got 24 bytes of text/html"


def test_a_message_is_bounded():
    error = error_for(a_status(422, "Invalid", "x" * 100_000), "creating", changes=True)

    assert len(str(error)) < MAX_MESSAGE + 100


@given(status=st.integers(300, 599), content=st.binary(max_size=60))
def test_no_answer_is_too_strange_to_read(status: int, content: bytes):
    assert error_for(Reply(status, content), "reading", changes=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["reason", "causes", "x"]), inner),
    max_leaves=8,
)


@given(details=JSON, message=JSON, reason=JSON, code=JSON)
def test_no_status_is_too_strange_to_read(details: object, message: object, reason: object, code: object):
    body = {"kind": "Status", "details": details, "message": message, "reason": reason, "code": code}

    assert read_status(json_reply(500, body)).code == 500
