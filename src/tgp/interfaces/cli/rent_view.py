"""What `tgp rent` shows before it asks: the machine, its cost, and what the limits leave."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.console import Group
from rich.text import Text

from tgp.api.request import GPURequest
from tgp.api.values import go_duration
from tgp.core.inventory.limits import NOTHING_USED, headroom_microusd
from tgp.core.model.money import CENT, dollars
from tgp.core.model.offer import UNKNOWN_REGION, Offer
from tgp.core.model.text import plain
from tgp.core.reports.request_timeline import sentences
from tgp.core.requests.purchase import Purchase, life_of, price_cap
from tgp.interfaces.cli.output import wrapped
from tgp.interfaces.terminal.snapshot import age
from tgp.services.documents.rent import why_nothing
from tgp.services.market_answers import JOINS, STOCK
from tgp.services.request_answers import HOUR, PriceSource, RentPlan

LABEL = 12  # columns of a line's first word
DAY = timedelta(hours=24)


def render(plan: RentPlan, width: int) -> Group:
    lines: list[Text] = []
    if isinstance(plan.choice, Purchase):
        lines.append(Text.assemble(("would rent  ", "dim"), (plain(machine(plan.choice.offer)), "bold green")))
    else:
        lines += _line("would rent", f"nothing now ({plan.choice.reason})", width, "yellow")
        lines += [line for words in sentences(why_nothing(plan)) for line in _line("", words, width)]
    for label, words in rows_of(plan):
        lines += _line(label, words, width)
    if plan.stopped:
        lines += _line("stopped by", plan.stopped, width, "yellow")
    for note in plan.notes:
        lines += _line("note", note, width)
    return Group(*lines)


def rows_of(plan: RentPlan) -> Iterator[tuple[str, str]]:
    if isinstance(plan.choice, Purchase):
        offer = plan.choice.offer
        seen = f"availability {STOCK[offer.stock]}{_size(offer)}" if plan.asked_now else "as last seen by the operator"
        yield "is", f"{JOINS[offer.boot]}, {seen}"
    yield "costs", cost_words(plan)
    if plan.others:
        yield "else", "; ".join(machine(row.offer) for row in plan.others)
    yield "terminated", _end_words(plan.request)
    if plan.class_name:
        yield "class", limits_words(plan)
    if plan.price_sources:
        yield "prices", prices_words(plan.price_sources, plan.now)


def cost_words(plan: RentPlan) -> str:
    life, cap = life_of(plan.request.spec), price_cap(plan.request.spec)
    parts = []
    if plan.hourly_microusd is not None:
        parts.append(f"{dollars(plan.hourly_microusd)} an hour")
        if plan.cap_is_ours and cap is not None:
            parts.append(f"launched at up to {dollars(cap)} an hour (10 % more; change with --max-price)")
        if life is None:
            parts.append(f"{_cents(plan.hourly_microusd * DAY // HOUR)} a day, without end")
        elif plan.expected_microusd is not None:
            parts.append(f"{_cents(plan.expected_microusd)} for its whole lifetime of {go_duration(life)}")
    if plan.most_microusd is not None and plan.most_microusd != plan.expected_microusd:
        parts.append(f"at most {_cents(plan.most_microusd)}, at {'that price' if plan.cap_is_ours else '--max-price'}")
    if cap is None:
        parts.append(
            "no --max-price: any price that the class allows"
            if plan.fits
            else "no price to confirm, so --max-price is required"
        )
    return "; ".join(parts) or "nothing while the request waits"


def limits_words(plan: RentPlan) -> str:
    """What the class's limits leave before this machine."""
    if plan.node_class is None:
        return plan.class_name
    limits = plan.node_class.spec.limits
    if limits is None or (limits.max_nodes is None and limits.max_hourly_cost is None and not limits.resources):
        return f"{plan.class_name}, without limits"
    if plan.held is None:
        return f"{plan.class_name}; you may not list the requests that use its limits"
    parts = [plan.class_name]
    if limits.max_nodes is not None:
        left = max(limits.max_nodes - plan.held.nodes, 0)
        parts.append(f"{left} of {limits.max_nodes} machines left")
    room = headroom_microusd(limits, plan.held)
    if room is not None:
        most = headroom_microusd(limits, NOTHING_USED)
        parts.append(f"{dollars(room)} of {dollars(most or 0)} an hour left")
    if limits.resources:
        parts.append("at most " + ", ".join(f"{amount} {name}" for name, amount in sorted(limits.resources.items())))
    return ", ".join(parts)


def prices_words(sources: Sequence[PriceSource], now: datetime) -> str:
    """Which providers were asked now, which prices are older, and which providers could not be asked."""
    live = [each.provider for each in sources if each.live and not each.why]
    parts = [f"asked just now, with the API keys of this terminal: {', '.join(live)}"] if live else []
    stored = [each for each in sources if not each.live and not each.why]
    if stored:
        parts.append("from the class's status: " + ", ".join(f"{each.provider} ({_age(each, now)})" for each in stored))
    parts += [f"{each.provider} could not be asked: {each.why}" for each in sources if each.why]
    return "; ".join(parts)


def _size(offer: Offer) -> str:
    parts = [f"{offer.gpu_memory_gib} GiB of GPU memory each" if offer.gpu_memory_gib else ""]
    parts += [f"{offer.vcpus} vCPUs" if offer.vcpus else "", f"{offer.memory_gib} GiB" if offer.memory_gib else ""]
    size = ", ".join(part for part in parts if part)
    return f"; {size}" if size else ""


def _end_words(request: GPURequest) -> str:
    spec, life = request.spec, life_of(request.spec)
    ends = [f"after {go_duration(life)} (--for)"] if life is not None else []
    ends += [f"after {spec.idle_timeout} without a pod (--idle)"] if spec.idle_timeout != "Never" else []
    never = [flag for flag, off in (("--for", life is None), ("--idle", spec.idle_timeout == "Never")) if off]
    if not ends:
        return "only when the request is deleted (--for Never, --idle Never): you must delete it yourself"
    return ", or ".join([*ends, "when the request is deleted"]) + "".join(f" ({flag} Never)" for flag in never)


def _age(source: PriceSource, now: datetime) -> str:
    return f"{age(now - source.seen_at)} old" if source.seen_at is not None else "of unknown age"


def machine(offer: Offer) -> str:
    """1x RTX4090 at $0.34/h from acme in us-west."""
    what = f"{offer.gpu_count}x {offer.gpu}" + (" spot" if offer.spot else "")
    place = offer.place.strip(" ,") or offer.region
    where = f" in {place}" if place not in {"", UNKNOWN_REGION} else ""
    return f"{what} at {dollars(offer.hourly_microusd)}/h from {offer.provider}{where}"


def _cents(microusd: int) -> str:
    return dollars(-(-microusd // CENT) * CENT)  # a total to the cent, rounded up, so never below the bill


def _line(label: str, words: str, width: int, style: str = "") -> list[Text]:
    first = f"{label:<{LABEL}}"
    lines = wrapped(words, width, first=first, rest=" " * LABEL, style=style)
    lines[0].stylize("dim", 0, len(first))
    return lines
