"""A plan for pods on one screen: machines, price, limits, and the pods that are not served, with reasons."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group
from rich.text import Text

from tgp.core.model.money import about, dollars
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import UNKNOWN_REGION
from tgp.core.model.pod import Pod
from tgp.core.pools.limits import limit_amount
from tgp.core.pools.planner.world import Order, Unserved
from tgp.interfaces.cli.next_step import as_called, next_lines, with_called
from tgp.interfaces.cli.output import UNBOUNDED, TableColumn, dollar_cells, fits, table, wrapped
from tgp.interfaces.cli.rent_view import machine as machine_words
from tgp.interfaces.cli.rent_view import prices_words
from tgp.services.documents.plans import cost_of, notes, stops
from tgp.services.manifest_pods import ManifestPods
from tgp.services.plan_answers import LimitEffect, PlacedPod, PodPlan

LONGEST_TYPE = 28
LABEL = 12  # columns of a line's first word
PODS_SHOWN = 3  # names in one place; the rest is counted
COMPARED_SHOWN = 4  # machines, each with the next cheaper one
LEFT_OUT_FIRST = ("TYPE", "REGION", "PROVIDER", "KIND")  # columns, where a terminal is narrow
PLACES_SHOWN = 6  # Nodes with room
UNSERVED_SHOWN = 8  # groups of pods with the same reasons
PROVEN_BELOW = 0.001  # a gap that is as good as none
NO_POOL_EXISTS = "there is no GPUNodePool, so no machine is bought for pods"


def render(made: PodPlan, manifest: ManifestPods | None, hours: float | None, width: int) -> Group:
    lines = [*_headline(made, manifest, width), Text()]
    if made.orders:
        lines += [*_machines(made.orders, width), Text()]
    for label, words in rows_of(made, manifest, hours):
        lines += labelled_line(label, words, width)
    lines += [Text(), *next_lines(next_command(made, manifest))]
    return Group(*lines)


def rows_of(made: PodPlan, manifest: ManifestPods | None, hours: float | None) -> Iterator[tuple[str, str]]:
    if not made.pools:
        yield "no pool", NO_POOL_EXISTS
        yield "", f"to make a class and a pool: {as_called('tgp init')}"
    if made.orders:
        yield "costs", cost_words(made, hours)
        yield "best price", proof_words(made)
        yield from labelled("why these", _comparisons(made.orders))
    yield from labelled("replicas", _replica_words(made))
    yield from labelled("has room", _room_words(made.placed))
    yield from labelled("limit", (_limit_words(each) for each in made.limits))
    if words := preference_words(made):
        yield "preference", words
    yield from labelled("not served", _unserved_words(made))
    yield from labelled("stopped by", stops(made))
    yield from labelled("note", map(with_called, (*notes(made, manifest), *made.ignored)))
    yield from labelled("not seen", made.unseen)
    taking_part = {each.class_name for each in made.pools if not each.stopped} or {
        each.class_name for each in made.pools
    }
    priced = sorted(item for item in (made.price_sources or {}).items() if item[0] in taking_part)
    yield from labelled("prices", (f"class {name}: {prices_words(each, made.now)}" for name, each in priced if each))


def cost_words(made: PodPlan, hours: float | None) -> str:
    """What is bought; if nothing is, what pools that only observe would buy."""
    apart = made.observed if len(made.observed) < len(made.orders) else ()
    cost = made.cost_microusd - cost_of(apart)
    words = f"{dollars(cost)} an hour"
    if hours is not None:
        words += f"; {about(int(cost * hours))} for {hours:g} {'hour' if hours == 1 else 'hours'}"
    return f"{words} (pools that only observe: {dollars(cost_of(apart))} an hour more)" if apart else words


def proof_words(made: PodPlan) -> str:
    if made.gap is None:
        return "not proven: a cheaper plan may exist"
    if made.gap <= PROVEN_BELOW:
        return "within 0.1 % of the best possible price"
    without = f" without {' and '.join(made.bound_without)}" if made.bound_without else ""
    return f"within {100 * made.gap:.1f} % of the best possible price{without}"


def preference_words(made: PodPlan) -> str:
    """Empty: no pod prefers anything."""
    found = made.preference
    if found is None:
        return ""
    verb = "prefers" if found.pods == 1 else "prefer"
    who = f"{counted(found.pods, 'pod')} {verb} some machines, not required (preferred affinity, ScheduleAnyway)"
    if found.unserved:
        return f"{who}; if that were required, {counted(found.unserved, 'pod')} more would not be served"
    more = found.hourly_microusd - made.cost_microusd
    if more <= 0:
        return f"{who}; machines that all of them prefer cost nothing more"
    return f"{who}; machines that all of them prefer would cost {about(more)} an hour more"


def next_command(made: PodPlan, manifest: ManifestPods | None) -> str:
    if made.hold:
        return "tgp release"
    if not made.pools:
        return "kubectl get gpunodepools -A"
    if manifest is None and made.unserved:
        return f"tgp why pod/{made.unserved[0].pod.key}"
    return "tgp status" if manifest is None else "tgp plan"


# -- parts -------------------------------------------------------------------------------------------------------------


def _headline(made: PodPlan, manifest: ManifestPods | None, width: int) -> list[Text]:
    missing = len(made.unserved) + len(made.not_planned)
    parts = [*_bought(made)]
    if made.placed:
        parts.append(f"{counted(len(made.placed), 'pod')} {'finds' if len(made.placed) == 1 else 'find'} room already")
    if missing:
        parts.append(f"{counted(missing, 'pod')} {'is' if missing == 1 else 'are'} not served")
    if made.replicas:
        more = f"{counted(len(made.replicas), 'machine')} for {dollars(cost_of(made.replicas))} an hour"
        parts.append(f"would buy {more} for spec.replicas")
    style = "yellow" if missing else "bold green"
    count = made.pods + len(made.not_planned) if manifest is not None else made.pods
    if not count and not missing:
        nothing = "no pod waits for a GPU"
        return wrapped("; ".join([nothing, *parts[1:]]) if parts[1:] else f"{nothing}: nothing would be bought", width)
    waits = "" if manifest is not None else " that waits" if count == 1 else " that wait"
    return wrapped(f"{counted(count, 'pod')}{waits}: {'; '.join(parts)}", width, style=style)


def _bought(made: PodPlan) -> Iterator[str]:
    """What is bought, and what pools that only observe would buy."""
    bought = len(made.orders) - len(made.observed)
    if not made.orders:
        yield "would buy nothing"
    elif not bought:
        pools = ", ".join(dict.fromkeys(str(each.pool) for each in made.observed))
        words = f"would buy {counted(len(made.orders), 'machine')} for {dollars(made.cost_microusd)} an hour"
        yield f"{words} if {pools} did not only observe"
    else:
        cost = dollars(made.cost_microusd - cost_of(made.observed))
        yield f"would buy {counted(bought, 'machine')} for {cost} an hour"
        if made.observed:
            yield f"pools that only observe would buy {len(made.observed)} more for {dollars(cost_of(made.observed))}"


def _comparisons(orders: Iterable[Order]) -> Iterator[str]:
    lines = list(dict.fromkeys(_compared(each) for each in orders if each.compared))
    yield from lines[:COMPARED_SHOWN]
    if more := len(lines) - len(lines[:COMPARED_SHOWN]):
        yield f"{more} more; see -o json"


def _replica_words(made: PodPlan) -> Iterator[str]:
    for pool in made.pools:
        orders = [each for each in made.replicas if each.pool == pool.key]
        if orders:
            kinds = Counter(machine_words(each.offer) for each in orders)
            words = ", ".join(f"{count} times {kind}" if count > 1 else kind for kind, count in kinds.items())
            yield f"pool {pool.key} buys first: {words} (spec.replicas)"
        if pool.replicas_problem:
            yield f"pool {pool.key} needs {counted(pool.missing_replicas, 'machine')} more; {pool.replicas_problem}"


def _machines(orders: Sequence[Order], width: int) -> list[Text]:
    """Equal machines of a pool are one row. In a narrow terminal the price and the pods come before the type."""
    groups = _grouped(orders)
    longest = LONGEST_TYPE if width < UNBOUNDED else 0
    prices = dollar_cells([same[0].hourly_microusd for same in groups])
    columns = {
        "N": TableColumn("N", tuple((str(len(same)), "") for same in groups), right=True),
        "POOL": TableColumn("POOL", tuple((str(same[0].pool), "") for same in groups)),
        "PROVIDER": TableColumn("PROVIDER", tuple((same[0].offer.provider, "") for same in groups)),
        "TYPE": TableColumn("TYPE", tuple((same[0].offer.instance_type, "") for same in groups), longest=longest),
        "GPU": TableColumn(
            "GPU", tuple((f"{same[0].offer.gpu_count}x {same[0].offer.gpu}", "bold") for same in groups)
        ),
        "REGION": TableColumn("REGION", tuple((_region(same[0]), "") for same in groups)),
        "KIND": TableColumn("KIND", tuple(("spot" if same[0].offer.spot else "on-demand", "") for same in groups)),
        "$/H EACH": TableColumn("$/H EACH", prices, right=True),
        "PODS": TableColumn("PODS", tuple((pod_names([p for one in same for p in one.pods]), "") for same in groups)),
    }
    for head in LEFT_OUT_FIRST:
        if fits(tuple(columns.values()), width):
            break
        del columns[head]
    return table(tuple(columns.values()), width)


def _grouped(orders: Iterable[Order]) -> list[list[Order]]:
    groups: dict[tuple[object, ...], list[Order]] = {}
    for each in orders:
        groups.setdefault((each.pool, each.offer.key, each.hourly_microusd), []).append(each)
    return list(groups.values())


def _region(order: Order) -> str:
    return "-" if order.offer.region == UNKNOWN_REGION else order.offer.region


def _compared(order: Order) -> str:
    return f"{machine_words(order.offer)}: {order.compared}"


def _room_words(placed: Iterable[PlacedPod]) -> Iterator[str]:
    by_place: dict[str, list[Pod]] = {}
    coming: dict[str, list[Pod]] = {}
    for each in placed:
        if each.coming and not each.replica:
            coming.setdefault(each.where, []).append(each.pod)
        else:
            place = f"a machine that pool {each.where} buys for spec.replicas" if each.replica else f"Node {each.where}"
            by_place.setdefault(place, []).append(each.pod)
    if len(coming) == 1:
        where, pods = next(iter(coming.items()))
        yield f"{pod_names(pods)} on the machine of request {where}, which is on its way"
    elif coming:
        pods = [pod for same in coming.values() for pod in same]
        yield f"{pod_names(pods)} on {len(coming)} machines that are on their way"
    for place, pods in list(by_place.items())[:PLACES_SHOWN]:
        yield f"{pod_names(pods)} on {place}"
    if hidden := list(by_place.values())[PLACES_SHOWN:]:
        yield f"{counted(sum(map(len, hidden)), 'pod')} more; see -o json"


def _limit_words(effect: LimitEffect) -> str:
    before, after = limit_amount(effect.resource, effect.before), limit_amount(effect.resource, effect.after)
    return f"{effect.name}: {before} left now, {after} after this plan"


def _unserved_words(made: PodPlan) -> Iterator[str]:
    """Pods with the same reasons together, and a line for each reason."""
    stopped = frozenset(each.key for each in made.pools if each.stopped)
    groups: dict[tuple[str, ...], list[Pod]] = {}
    for each in made.unserved:
        groups.setdefault(_reasons(each, stopped), []).append(each.pod)
    for skipped in made.not_planned:
        groups.setdefault((skipped.why,), []).append(skipped.pod)
    for reasons, pods in list(groups.items())[:UNSERVED_SHOWN]:
        first, *rest = reasons
        yield f"{pod_names(pods)}: {first}"
        yield from (f"  {words}" for words in rest)
    if hidden := list(groups.values())[UNSERVED_SHOWN:]:
        yield f"{counted(sum(map(len, hidden)), 'pod')} more; see -o json"


def _reasons(unserved: Unserved, stopped: frozenset[ObjectKey]) -> tuple[str, ...]:
    """What stops a whole pool is said once for all pods, below."""
    told = [each for each in unserved.reasons if each.pool not in stopped]
    words = [f"pool {each.pool}: {each.message}" if each.pool.name else each.message for each in told]
    return tuple(words) or ("no pool buys now, for the reasons below",)


def pod_names(pods: Sequence[Pod]) -> str:
    shown = ", ".join(str(pod.key) for pod in pods[:PODS_SHOWN])
    rest = len(pods) - PODS_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def labelled(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The label once, before the first line."""
    for words in lines:
        yield label, words
        label = ""


def labelled_line(label: str, words: str, width: int) -> list[Text]:
    first = f"{label:<{LABEL}}"
    lines = wrapped(words, width, first=first, rest=" " * LABEL)
    lines[0].stylize("dim", 0, len(first))
    return lines


def order_words(order: Order) -> str:
    """1x L40S at $1.67/h from acme in us-east for pool ml/pool, with ml/train-0 on it"""
    return f"{machine_words(order.offer)} for pool {order.pool}, with {pod_names(order.pods)} on it"
