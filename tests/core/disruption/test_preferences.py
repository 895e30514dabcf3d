"""Which preferences of pods a move would break: those that hold now, and would not then."""

import pytest

from tests.core.disruption.exchange_worlds import a_serving_pod, an_offer, consolidated_pool, in_use, standing
from tests.core.pools.planner.worlds import HOSTNAME
from tgp.core.disruption.exchange import exchanges
from tgp.core.disruption.preferences import Place, PodMove, Preferences
from tgp.core.model.labels import selector
from tgp.core.model.placement import Affinity, PodTerm, PreferredPods, SpreadConstraint
from tgp.core.pools.planner.world import Capacity

ZONE = "topology.kubernetes.io/zone"
APP = {"app": "web"}
KEPT = {"tgp.io/do-not-disrupt": "true"}


def prefers(weight, key=HOSTNAME, **labels):
    term = PodTerm(key, selector(labels or APP))
    return {"affinity": Affinity(preferred_pods=(PreferredPods(weight, term),))}


def spread(key=HOSTNAME, skew=1, *, hard=False):
    return {"spreads": (SpreadConstraint(key, selector(APP), skew, hard=hard),)}


def a_web_pod(name, **said):
    return a_serving_pod(name, labels=APP, **said)


def a_room(name, *pods, zone="z1"):
    return Capacity(name, labels={HOSTNAME: name, ZONE: zone}, pods=pods)


def place(name, zone="z1"):
    return Place(name, {HOSTNAME: name, ZONE: zone})


BOUGHT = Place("order 0", {ZONE: "z1"})
ELSEWHERE = Place("order 0", {ZONE: "z2"})


def broken(pod, *rooms, to=BOUGHT, beside=()):
    """How many preferences of the pod break if it leaves Node a. `beside`: pods that move with it."""
    everywhere = (a_room("a", pod, *beside), *rooms)
    moves = [PodMove(each, place("a"), to) for each in (pod, *beside)]
    return sum(each is pod for each in Preferences(everywhere, {}).broken(moves))


@pytest.mark.parametrize(
    ("said", "there", "to", "many"),
    [
        (prefers(10), (), BOUGHT, 0),  # it is alone now: the preference does not hold
        (prefers(10, ZONE), (a_room("b", a_web_pod("o")),), BOUGHT, 0),  # the same zone
        (prefers(10, ZONE), (a_room("b", a_web_pod("o")),), ELSEWHERE, 1),
        (prefers(10, ZONE), (a_room("b", a_web_pod("o")),), Place("order 0", {}), 1),  # a zone that is not known
        (prefers(10, ZONE, app="other"), (a_room("b", a_web_pod("o")),), ELSEWHERE, 0),
        (prefers(-10), (a_room("b", a_web_pod("o")),), place("b"), 1),  # apart now, together then
        (prefers(-10), (a_room("b"),), place("b"), 0),
        (prefers(-10, ZONE), (a_room("b", a_web_pod("o")),), place("b"), 0),  # together in the zone already
        (spread(), (a_room("b", a_web_pod("o")), a_room("c")), place("b"), 1),  # 1, 1, 0 becomes 2, 0
        (spread(), (a_room("b", a_web_pod("o")),), place("b"), 0),  # one machine is left: there is no other domain
        (spread(skew=2), (a_room("b", a_web_pod("o")), a_room("c")), place("b"), 0),
        (spread(hard=True), (a_room("b", a_web_pod("o")), a_room("c")), place("b"), 0),  # the planner keeps it
        (spread(ZONE), (a_room("b", a_web_pod("o"), zone="z2"),), place("b", "z2"), 0),  # zone z1 is gone with a
        (spread(ZONE), (a_room("b", a_web_pod("o"), zone="z2"), a_room("c")), place("b", "z2"), 1),
        (spread(), (a_room("b", a_web_pod("o")),), BOUGHT, 0),
    ],
)
def test_a_preference_counts_if_it_holds_now_and_would_not_then(said, there, to, many):
    assert broken(a_web_pod("p", **said), *there, to=to) == many


def test_pods_that_move_together_stay_together():
    beside = a_web_pod("o")

    assert broken(a_web_pod("p", **prefers(10)), beside=(beside,)) == 0
    assert broken(a_web_pod("p", **prefers(10)), a_room("b"), to=place("b"), beside=(beside,)) == 0


@pytest.mark.parametrize("said", [prefers(-10), spread()])
def test_a_soft_rule_that_would_be_broken_costs_another_restart(said):
    """Of two machines, each with a pod, for one with room for both: pods that want to be apart weigh more."""
    pool = consolidated_pool()
    plain = [standing(f"n{n}", 3.0, a_web_pod(f"p{n}"), gpus=1, pool=pool) for n in range(2)]
    apart = [standing(f"n{n}", 3.0, a_web_pod(f"p{n}", **said), gpus=1, pool=pool) for n in range(2)]
    spare = standing("spare", 0.1, a_serving_pod("x", gpus=0), gpus=0, pool=pool, annotations=KEPT)
    offers = (an_offer("both", 2.0, 2),)
    costs = []
    for machines in (plain, apart):
        found = exchanges(in_use(*machines, spare, offers=offers, pools=(pool,))).exchanges
        (exchange,) = (each for each in found if each.orders)
        costs.append(exchange.restart_microusd)

    assert costs[1] == 2 * costs[0]
