"""Values to calls, and replies to values. No I/O: each function here can be tried with a line of JSON.

The provider's errors have a code, and only the codes in `ERRORS` mean that nothing was made.
"""

import re
from base64 import b64encode
from collections import Counter
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said
from tgp.adapters.clouds.parse import (
    ParseError,
    address,
    identifier,
    mapping_of,
    moment,
    object_in,
    rows_of,
    shown,
    text,
    whole,
)
from tgp.adapters.clouds.simulated.facts import FACTS
from tgp.core.model import gpus, regions
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import Offer, Stock, Trust
from tgp.core.model.prices import MICRO, NotAPrice, hourly_microusd
from tgp.ports.cloud import TOKEN_PREFIX, Account, KeyReport, LaunchOrder, Listing, Right
from tgp.ports.http import Call, Reply, json_call

WHO = FACTS.title
TOKEN_TAG = "tgp-token"  # noqa: S105 - the second place a machine is found again by; the first is its name
PAGE_ROWS = 100  # the most per page
MAX_OFFERS = 5_000
KEPT_LISTINGS = 4
CODE = re.compile(r"[a-z_]{1,40}\Z")
OWNERS = {"provider": Trust.DATACENTER, "checked": Trust.VERIFIED, "unverified": Trust.ANY}
RICHEST = 10**12  # dollars: a balance beyond it is an error

STATES = {
    "starting": InstanceState.STARTING,
    "running": InstanceState.RUNNING,
    "stopped": InstanceState.STOPPED,
    "lost": InstanceState.BROKEN,
    "ending": InstanceState.ENDING,
}
_ROWS = (
    Row(SoldOut, (409,), ("sold_out", "outbid")),  # the price moved above our bid: sold out for us
    Row(AccountExhausted, (402,), ("no_balance",)),
    Row(AccountExhausted, (403,), ("quota_reached",)),
    Row(KeyRefused, (401,), ("bad_key",)),
    Row(OrderRefused, (422,), ("bad_order",)),
)
ERRORS = ErrorTable(WHO, orders=_ROWS, looks=_ROWS)

# -- offers ------------------------------------------------------------------------------------------------------------


def offers() -> Call:
    return Call("GET", "/v1/offers")


def read_offers(reply: Reply) -> Listing:
    _good(reply, "the list of offers")
    return _listing(reply.content)


@lru_cache(KEPT_LISTINGS)
def _listing(content: bytes) -> Listing:
    """Of the body of a 200. Most polls return what the last one did, byte for byte: then no offer is read again."""
    rows = rows_of(Reply(200, content).json(), "offers", WHO)
    if len(rows) > MAX_OFFERS:
        raise CannotTell(f"{WHO} lists {len(rows)} offers, more than {MAX_OFFERS}")
    kept: dict[str, Offer] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        try:
            offer = _offer(row)
        except NotAPrice:
            dropped["bad price"] += 1
        except ParseError:
            dropped["bad shape"] += 1
        else:
            if offer is None:
                dropped["unknown GPU"] += 1
            elif kept.setdefault(offer.key, offer) is not offer:
                dropped["listed twice"] += 1
    return Listing(tuple(kept.values()), dict(dropped))


def _offer(row: Any) -> Offer | None:
    """None: an unknown GPU."""
    if not isinstance(row, dict):
        raise ParseError("an offer is not an object")
    memory = whole(row, "gpu_memory_gib", least=1, most=4_096)
    gpu = gpus.find(text(row, "gpu"), provider=FACTS.provider, memory_gib=memory)
    if gpu is None:
        return None
    spot = _is_spot(row)
    place, country = identifier(row.get("place"), "place"), _country(row)
    left = whole(row, "stock", most=1_000_000)
    beside = row.get("on_demand_usd_per_hour") if spot else None
    return Offer(
        provider=FACTS.provider,
        sku=identifier(row.get("type"), "type"),
        place=place,
        region=regions.region_of(FACTS.provider, place, country=country, state=text(row, "state", default="")),
        country=country,
        gpu=gpu.model,
        gpu_count=whole(row, "gpus", least=1, most=64),
        gpu_memory_gib=gpu.memory_gib,
        vcpus=whole(row, "vcpus", most=4_096),
        memory_gib=whole(row, "memory_gib", most=65_536),
        disk_gib=whole(row, "disk_gib", most=1 << 20),
        spot=spot,
        hourly_microusd=hourly_microusd(row.get("usd_per_hour")),
        on_demand_microusd=None if beside is None else hourly_microusd(beside),
        stock=Stock.CONFIRMED if left else Stock.NONE,
        left=left,
        trust=_trust(row),
        boot=FACTS.boot[0],
    )


def _country(row: dict[str, Any]) -> str:
    told = text(row, "country", default="")
    if told and not (len(told) == 2 and told.isascii() and told.isalpha()):
        raise ParseError(f"country is {shown(told)}")
    return told.upper()


def _trust(row: dict[str, Any]) -> Trust:
    """The owner of the machine: the provider, unless the row says otherwise."""
    told = text(row, "owner", default="provider")
    if told not in OWNERS:
        raise ParseError(f"owner is {shown(told)}")
    return OWNERS[told]


def _is_spot(row: dict[str, Any]) -> bool:
    market = text(row, "market")
    if market not in ("spot", "on-demand"):
        raise ParseError(f"market is {shown(market)}")
    return market == "spot"


# -- launch ------------------------------------------------------------------------------------------------------------


def launch(order: LaunchOrder) -> Call:
    offer = order.offer
    body: dict[str, Any] = {
        "type": offer.sku,
        "place": offer.place,
        "market": "spot" if offer.spot else "on-demand",
        "name": order.token,
        "tags": dict(order.tags) | {TOKEN_TAG: order.token},  # ours last: a class's tag never wins
        "user_data": b64encode(order.user_data).decode(),
    }
    if offer.spot and order.bid_microusd is not None:
        body["bid_usd_per_hour"] = dollars(order.bid_microusd)
    if order.image:
        body["image"] = order.image
    return json_call("POST", "/v1/machines", body, not_after=order.not_after)


def read_launch(reply: Reply, order: LaunchOrder) -> Instance:
    body = object_in(reply)
    made = _named_machine(body)
    if reply.status == 201 and made:
        try:
            return _instance(body["machine"])
        except ParseError as error:
            raise OutcomeUnknown(f"{WHO} launched a machine that cannot be parsed: {error}", made) from error
    what = f"an order of {order.offer.sku} in {order.offer.place}"
    raise ERRORS.after_order(reply, _said(body), what, made)


def _named_machine(body: dict[str, Any]) -> str:
    """The id of a machine that an answer, an error perhaps, names; empty: none."""
    machine = body.get("machine")
    try:
        return identifier(machine.get("id")) if isinstance(machine, dict) else ""
    except ParseError:
        return ""


# -- looking -----------------------------------------------------------------------------------------------------------


def machines(after: str = "") -> Call:
    query = (("limit", str(PAGE_ROWS)), *((("after", after),) if after else ()))
    return Call("GET", "/v1/machines", query=query)


def read_machines(reply: Reply) -> tuple[list[Instance], str]:
    """One page, and where the next begins; empty: there is none. An unreadable row may be ours: an error."""
    body = _good(reply, "the list of machines")
    if "next" not in body:
        raise CannotTell(f"{WHO} does not say whether its list of machines has more pages")
    rows = rows_of(body, "machines", WHO)
    if len(rows) > PAGE_ROWS:
        raise CannotTell(f"{WHO} put {len(rows)} machines on a page of {PAGE_ROWS}")
    try:
        after = "" if body["next"] is None else identifier(body["next"], "next")
        return [_instance(row) for row in rows], after
    except ParseError as error:
        raise CannotTell(f"{WHO} lists a machine that cannot be read: {error}") from error


def machine(instance_id: str) -> Call:
    return Call("GET", _path_of(instance_id))


def read_machine(reply: Reply, instance_id: str) -> Instance | None:
    if reply.status == 404 and _code(object_in(reply)) == "no_such_machine":
        return None
    body = _good(reply, "a machine")
    try:
        found = _instance(body.get("machine"))
    except ParseError as error:
        raise CannotTell(f"{WHO} shows a machine that cannot be read: {error}") from error
    if found.id != instance_id:
        raise CannotTell(f"{WHO} was asked for {instance_id} and returned {found.id}")
    return found


def _instance(row: Any) -> Instance:
    """Strict about the owner, lenient about the rest: a machine with an invalid price is still billed."""
    if not isinstance(row, dict):
        raise ParseError("a machine is not an object")
    said = row.get("state")
    reason = shown(row.get("reason") or "")
    state = STATES.get(said, InstanceState.UNKNOWN) if isinstance(said, str) else InstanceState.UNKNOWN
    return Instance(
        id=identifier(row.get("id")),
        token=_token(row),
        state=state,
        said=f"{shown(said)}: {reason}" if reason else shown(said),
        sku=shown(row.get("type") or ""),
        place=shown(row.get("place") or ""),
        hourly_microusd=_billed(row.get("usd_per_hour")),
        spot=row.get("market") == "spot",
        interrupted=row.get("interrupted") is True,
        created_at=moment(row.get("created_at"), "created_at"),
        ends_at=moment(row.get("ends_at"), "ends_at"),
        public_ip=address(row.get("public_ip")),
        private_ip=address(row.get("private_ip")),
        progress=f"{shown(said)} {reason}".strip(),
        tags=_tags(row),
    )


def _token(row: dict[str, Any]) -> str:
    """By its name, or by the tag if a user renamed it."""
    name = text(row, "name", longest=256)
    return name if name.startswith(TOKEN_PREFIX) else _tags(row).get(TOKEN_TAG, name)


def _tags(row: dict[str, Any]) -> dict[str, str]:
    tags = row.get("tags")
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise ParseError("tags is not an object of strings")  # the token may be among them
    return tags


def _billed(told: Any) -> int | None:
    try:
        return hourly_microusd(told)
    except NotAPrice:
        return None


# -- ending ------------------------------------------------------------------------------------------------------------


def terminate(instance_id: str) -> Call:
    return Call("DELETE", _path_of(instance_id))


def read_terminate(reply: Reply) -> None:
    body = object_in(reply)
    if (reply.status == 202 and _named_machine(body)) or (reply.status == 404 and _code(body) == "no_such_machine"):
        return
    raise ERRORS.after_end(reply, _said(body), "the termination of a machine")


# -- the account -------------------------------------------------------------------------------------------------------


def account() -> Call:
    return Call("GET", "/v1/account")


def read_account(reply: Reply) -> KeyReport:
    body = _good(reply, "the account")
    row = body.get("account")
    if not isinstance(row, dict):
        raise CannotTell(f"{WHO} answered without an account")
    try:
        who = Account(identifier(row.get("id"), "account id"), shown(text(row, "name", default="")))
    except ParseError as error:
        raise CannotTell(f"{WHO} returned an account that cannot be parsed: {error}") from error
    balance = _balance(row.get("balance_usd"))
    empty = balance is not None and balance <= 0
    return KeyReport(
        who,
        rights=(Right("list", held=True), Right("rent", held=True)),
        balance_microusd=balance,
        can_buy=not empty,
        notes=("The balance is used up.",) if empty else (),
    )


def _balance(told: Any) -> int | None:
    """Dollars, may be negative; None: unknown."""
    if told is None:
        return None
    if isinstance(told, bool) or not isinstance(told, int | float) or not abs(told) < RICHEST:
        raise CannotTell(f"{WHO} returned an invalid balance: {shown(told)}")
    return int(told * MICRO)


# -- what all answers share --------------------------------------------------------------------------------------------


def _good(reply: Reply, what: str) -> dict[str, Any]:
    """The body of a 200; every other answer proves nothing."""
    if reply.status == 200:
        return mapping_of(reply, WHO)
    raise ERRORS.after_look(reply, _said(object_in(reply)), what)


def _said(body: dict[str, Any]) -> Said | None:
    return Said(code, code) if (code := _code(body)) else None


def _code(body: dict[str, Any]) -> str:
    """Errors show the code and not the message: a message may quote what we sent, user data or the key."""
    error = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) and CODE.match(code) else ""


def _path_of(instance_id: str) -> str:
    try:
        return f"/v1/machines/{quote(identifier(instance_id), safe='')}"
    except ParseError as error:
        raise CannotTell(f"{WHO} has no such machine: {error}") from error


def dollars(microusd: int) -> str:
    return f"{microusd // MICRO}.{microusd % MICRO:06d}"
