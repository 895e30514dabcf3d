"""Every form of a selector, and the 400 of what is none."""

import pytest

from tgp.api.resource import Resource
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.selectors import from_label_selector, parse_fields, parse_labels
from tgp.sim.apiserver.status_errors import Failure

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}
POD = Served(Resource("", "v1", "pods", "Pod", namespaced=True), "pod")
SERVICE = Served(Resource("", "v1", "services", "Service", namespaced=True), "service")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier=front", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("none!=x", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("!app", False),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app notin (db, x)", True),
        ("none notin (x)", True),
        ("none in (x)", False),
        ("n>4", True),
        ("n<5", False),
        ("app>1", False),
        ("empty=", True),
        ("app=web,tier notin (front)", False),
        ("x.io/y in (a),app", False),
    ],
)
def test_a_label_selector_selects_what_it_says(text, holds):
    assert parse_labels(text).matches(LABELS) is holds


@pytest.mark.parametrize("text", ["a=b=c", "a in b", "a in (b", "=b", "a b", "a>x", "a=%", ",", "a,,b", "-a=b", "!"])
def test_what_is_no_selector_is_refused(text):
    with pytest.raises(Failure) as refused:
        parse_labels(text)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}], "matchLabels": {"tier": "back"}}, False),
    ],
)
def test_a_selector_in_an_object_selects_the_same_way(selector, holds):
    """No selector selects nothing; an empty one everything."""
    assert from_label_selector(selector).matches(LABELS) is holds


OBJ = {"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("metadata.name=p", True),
        ("metadata.name!=p", False),
        ("spec.nodeName=n1,status.phase!=Pending", True),
        ("spec.nodeName=", False),
        ("spec.hostNetwork=false", True),
        ("metadata.namespace==b", False),
        ("metadata.name=a\\,b", False),
    ],
)
def test_a_field_selector_selects_what_it_says(text, holds):
    assert parse_fields(text, POD).matches(OBJ) is holds


@pytest.mark.parametrize(
    ("served", "says"),
    [
        (POD, "field label not supported: spec.colour"),
        (SERVICE, '"spec.colour" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_a_field_without_an_index_is_refused_by_name(served, says):
    with pytest.raises(Failure) as refused:
        parse_fields("spec.colour=red", served)
    assert refused.value.message == says
