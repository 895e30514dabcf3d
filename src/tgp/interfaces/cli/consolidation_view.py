"""What would be exchanged for cheaper machines, on one screen; and for programs."""

from collections.abc import Iterator, Mapping

from rich.console import Group
from rich.text import Text

from tgp.core.model.money import about, dollars
from tgp.interfaces.cli.output import wrapped
from tgp.interfaces.cli.plan_view import labelled, labelled_line, pod_names
from tgp.services.plan_answers import ConsolidationPlan, PlannedExchange

NO_POOL = (
    "no pool moves pods together: spec.disruption.consolidationPolicy WhenEmptyOrUnderutilized lets a pool exchange "
    "machines for cheaper ones"
)
LEFT_SHOWN = 8  # Nodes that stay, with their reasons


def render(made: ConsolidationPlan, width: int) -> Group:
    lines = [*wrapped(headline(made), width)]
    for number, each in enumerate(made.exchanges, 1):
        lines.append(Text())
        for label, words in _rows(each):
            lines += labelled_line(label if label != "exchange" else f"exchange {number}", words, width)
    rows = [*labelled("limit", _listed(made.limited)), *labelled("too little", _listed(made.too_little))]
    rows += labelled("stays", _listed(made.left))
    rows += labelled("not seen", made.unseen)
    lines.append(Text())
    for label, words in rows:
        lines += labelled_line(label, words, width)
    return Group(*lines)


def headline(made: ConsolidationPlan) -> str:
    if not made.pools:
        return NO_POOL
    if not made.exchanges:
        return f"{', '.join(map(str, made.pools))}: no exchange of machines is worth it now"
    many = len(made.exchanges)
    pods = sum(len(each.exchange.pods) for each in made.exchanges)
    named = "1 exchange" if many == 1 else f"{many} exchanges"
    moving = "1 pod moves" if pods == 1 else f"{pods} pods move"
    return f"{named} would save {dollars(made.saving_microusd)} an hour, restarts included; {moving}"


def _rows(each: PlannedExchange) -> Iterator[tuple[str, str]]:
    exchange = each.exchange
    leaving = ", ".join(f"{node} ({about(price)}/h)" for node, price in each.leaving)
    bought = ", ".join(
        f"{order.offer.gpu_count}x {order.offer.gpu} at {about(order.hourly_microusd)}/h from {order.offer.provider} "
        f"(worth it up to {about(order.most_microusd or order.hourly_microusd)}/h)"
        for order in exchange.orders
    )
    rooms = sorted({*exchange.placed.values()})
    named = "pool" if len(each.pools) == 1 else "pools"
    yield "exchange", f"{named} {', '.join(map(str, each.pools))}: {leaving}"
    yield "for", "; ".join(part for part in (bought, f"room on {', '.join(rooms)}" if rooms else "") if part)
    yield "saves", exchange.savings.text.removeprefix("saves ")
    yield "pods", pod_names(list(exchange.pods))
    if each.waits_for:
        yield "waits for", each.waits_for


def _listed(nodes: Mapping[str, str]) -> Iterator[str]:
    for place, (node, why) in enumerate(sorted(nodes.items())):
        if place == LEFT_SHOWN:
            yield f"and {len(nodes) - LEFT_SHOWN} more"
            return
        yield f"{node}: {why}"
