"""The accounts of deleted budgets: one of the same namespace, name and resource that comes back goes on from its."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b

import msgspec

from tgp.core.budgets.account import HOUR, HOURS_KEPT, BudgetAccount
from tgp.core.budgets.packing import NewerAccount, NotAnAccount, packed_to_fit, unpack
from tgp.core.model.object_key import ObjectKey

ARCHIVE = "tgp-budget-accounts"  # the ConfigMap; one line per deleted budget
ACCOUNT_FINALIZER = "tgp.io/account"  # a budget stays until its account is kept
LONGEST_NAME, SHORTENED = 253, 230  # characters: of a key in a ConfigMap; before the digest of one that is longer
MOST_CHARACTERS = 900_000  # of all lines: a ConfigMap holds 1 MiB


class KeptAccount(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a deleted budget had used, and told."""

    resource: str
    at: int  # when the budget was deleted: what ran then is closed there
    until: int  # all of it has left every window that a successor can have then
    account: str  # packed
    exceeded_at: datetime | None = None
    alerted: tuple[str, ...] = ()
    budget: str = ""  # as namespace/name


def line_name(key: ObjectKey, resource: str) -> str:
    """A line of its own for each resource: a budget of another one leaves it. A namespace has no underscore."""
    name = f"{key.namespace}_{key.name}_{resource.replace('/', '_')}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:SHORTENED]}_{blake2b(name.encode(), digest_size=8).hexdigest()}"


def line_of(kept: KeptAccount) -> str:
    return msgspec.json.encode(kept).decode()


def read_line(line: object) -> KeptAccount | None:
    """None: it is malformed."""
    try:
        return msgspec.json.decode(line if isinstance(line, str) else b"", type=KeptAccount)
    except msgspec.DecodeError:
        return None


def budget_of(line: str, kept: KeptAccount) -> ObjectKey:
    """Whose account it is. Lines of earlier versions say it by their name alone."""
    namespace, _, name = (kept.budget or "/".join(line.split("_")[:2])).partition("/")
    return ObjectKey(namespace, name)


def read_account(kept: KeptAccount) -> BudgetAccount | None:
    """None: it is damaged, or of a newer version."""
    try:
        return unpack(kept.account)
    except (NotAnAccount, NewerAccount):
        return None


def kept(
    account: BudgetAccount, resource: str, now: int, exceeded_at: datetime | None, alerted: tuple[str, ...]
) -> KeptAccount:
    """Pods that run are closed now, and stay open from now on: a successor knows them again. Changes the account."""
    account.close_open(now)
    return KeptAccount(resource, now, kept_until(account.window, now), packed_to_fit(account)[0], exceeded_at, alerted)


def kept_until(window: int, now: int) -> int:
    """At least as long as an account knows each hour: a window that was shortened before the deletion refunds none."""
    return now + max(window, HOURS_KEPT * HOUR)


def inherited(kept: KeptAccount | None, resource: str, since: int, made_at: int) -> BudgetAccount | None:
    """The account that a budget goes on from, which began at `made_at`; None: it has none to inherit.

    `since`: the last moment of the budget's own account. Pods that ran when the other budget was deleted count on from
    the beginning of this one. Raises NewerAccount.
    """
    if kept is None or kept.resource != resource or kept.at <= since or made_at >= kept.until:
        return None
    try:
        account = unpack(kept.account)
    except NotAnAccount:
        return None
    account.resume_open(made_at)
    account.advance(made_at)
    return account


def crowded_out(
    lines: Mapping[str, KeptAccount], new: str, size: int, now: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines to drop before a new one of this size is written: those of no use any more, and the oldest that must go."""
    others = {name: line for name, line in lines.items() if name != new}
    past = tuple(sorted(name for name, line in others.items() if line.until <= now))
    left = sorted((line.at, name) for name, line in others.items() if line.until > now)
    total = size + len(new) + sum(len(name) + len(line_of(others[name])) for _, name in left)
    oldest: list[str] = []
    for _, name in left:
        if total <= MOST_CHARACTERS:
            break
        total -= len(name) + len(line_of(others[name]))
        oldest.append(name)
    return past, tuple(oldest)
