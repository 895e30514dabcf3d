"""Pods are one class when no rule can tell them apart, and only then."""

from datetime import UTC, datetime, timedelta

import pytest

from tgp.core.model.labels import Selector, selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, HostPort, PodTerm, SpreadConstraint
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.classes import PodMatcher, grouped, matcher_of_spread, matcher_of_term, matchers_of

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACES = {"team": {"tier": "gold"}, "other": {}}


def a_pod(name: str, **rest) -> Pod:
    written = {"key": ObjectKey("team", name), "requests": Resources(1000, 1 << 30, (("nvidia.com/gpu", 1),)), **rest}
    return Pod(**written)


def classes_of(*pods: Pod) -> list[list[str]]:
    matchers = [each for pod in pods for each in matchers_of(pod)]
    return [[pod.key.name for pod in each.pods] for each in grouped(pods, matchers, NAMESPACES)]


def test_equal_pods_are_one_class_the_oldest_first_whether_or_not_they_share_objects():
    young = a_pod("a", created_at=BEGAN + timedelta(hours=1), node_selector={"x": "y"})
    old = a_pod("b", created_at=BEGAN, node_selector={"x": "y"})

    assert classes_of(young, old) == [["b", "a"]]


@pytest.mark.parametrize(
    "differs",
    [
        {"key": ObjectKey("other", "b")},
        {"requests": Resources(2000)},
        {"node_selector": {"x": "y"}},
        {"priority": 7},
        {"host_ports": (HostPort(80),)},
        {"volume_claims": ("models",)},
        {"spreads": (SpreadConstraint("zone", Selector()),)},
        {"annotations": {"tgp.io/max-price": "0.40"}},
        {"annotations": {"tgp.io/gang": "g"}},
    ],
    ids=str,
)
def test_whatever_decides_where_a_pod_may_go_tells_it_apart(differs):
    assert len(classes_of(a_pod("a"), a_pod("b", **differs))) == 2


def test_labels_tell_pods_apart_only_where_a_selector_in_play_sees_them():
    web, batch = a_pod("a", labels={"app": "web"}), a_pod("b", labels={"app": "batch"})
    assert classes_of(web, batch) == [["a", "b"]]

    apart = Affinity(apart=(PodTerm("kubernetes.io/hostname", selector({"app": "web"})),))
    assert classes_of(web, batch, a_pod("c", affinity=apart)) == [["a"], ["b"], ["c"]]


def test_a_label_that_a_spread_compares_with_tells_its_pods_apart():
    spread = (SpreadConstraint("zone", selector({"app": "x"}), match_label_keys=("hash",)),)
    first, second = ({"app": "x", "hash": text} for text in ("1", "2"))

    assert classes_of(a_pod("a", labels=first, spreads=spread), a_pod("b", labels=second, spreads=spread)) == [
        ["a"],
        ["b"],
    ]
    matcher = matcher_of_spread(spread[0], a_pod("a", labels=first))
    assert matcher.matches("team", first, NAMESPACES)
    assert not matcher.matches("team", second, NAMESPACES)
    assert not matcher.matches("other", first, NAMESPACES)


@pytest.mark.parametrize(
    ("term", "namespace", "matches"),
    [
        (PodTerm("zone", Selector()), "team", True),
        (PodTerm("zone", Selector()), "other", False),
        (PodTerm("zone", Selector(), ("other",)), "team", False),
        (PodTerm("zone", Selector(), ("other",)), "other", True),
        (PodTerm("zone", Selector(), (), selector({"tier": "gold"})), "team", True),
        (PodTerm("zone", Selector(), (), selector({"tier": "gold"})), "other", False),
        (PodTerm("zone", Selector(), (), Selector()), "unseen", False),
    ],
)
def test_a_term_means_pods_of_its_own_namespace_unless_it_names_others(term, namespace, matches):
    assert matcher_of_term(term, "team").matches(namespace, {}, NAMESPACES) is matches
    assert isinstance(matcher_of_term(term, "team"), PodMatcher)
