"""What a key at Vultr may do, without spending: `GET /account` shows its permissions and the debt."""

from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any

from tgp.adapters.clouds.parse import shown
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.prices import MICRO
from tgp.ports.cloud import Account, KeyReport, Right

DIGITS = 16  # hex, of the account's digest
MOST_DOLLARS = 1_000_000_000
SEES = ("subscriptions_view", "subscriptions")
LAUNCHES = ("provisioning",)
ENDS = ("subscriptions",)


def account_of(body: dict[str, Any]) -> dict[str, Any]:
    account = body.get("account")
    if not isinstance(account, dict):
        raise CannotTell(f"{FACTS.title} answered without an `account`")
    return account


def identity(account: dict[str, Any]) -> Account:
    """Vultr shows no account id, so a digest of its name and mail address is used.

    A new key of the same user is the same account, a key of another user is another.
    """
    name, email = account.get("name"), account.get("email")
    if not isinstance(name, str) or not isinstance(email, str) or not email:
        raise CannotTell(f"{FACTS.title} did not return the name of the account")
    digest = sha256(f"tgp vultr account\n{name}\n{email}".encode()).hexdigest()[:DIGITS]
    return Account(f"account:{digest}", shown(name))


def report(account: dict[str, Any], *, image: str) -> KeyReport:
    """`image`: how a Talos image gets there; empty: one exists already."""
    told = account.get("acls")
    rights = [right for right in told if isinstance(right, str)] if isinstance(told, list) else None
    launches = _right("launch", LAUNCHES, rights)
    credit = _credit(account)
    owed = (f"${-credit / MICRO:.2f} is owed; Vultr bills after use",) if credit is not None and credit < 0 else ()
    return KeyReport(
        identity(account),
        rights=(
            _right("see machines", SEES, rights),
            launches,
            _right("terminate", ENDS, rights),
        ),
        balance_microusd=credit if credit is not None and credit > 0 else None,
        can_buy=launches.held is not False,
        notes=(*owed, *((image,) if image else ())),
    )


def _right(name: str, any_of: tuple[str, ...], rights: list[str] | None) -> Right:
    if rights is None:
        return Right(name, None, "Vultr did not list the permissions of this key")
    held = any(right in rights for right in any_of)
    return Right(
        name, held, "" if held else f"the user of the API key does not have the permission {' or '.join(any_of)}"
    )


def _credit(account: dict[str, Any]) -> int | None:
    """What is left to spend in micro-dollars, negative if something is owed; None: unknown.

    Vultr counts the other way round: a balance of -50 is a credit of 50.
    """
    try:
        owed = sum((_dollars(account.get(name)) for name in ("balance", "pending_charges")), Decimal())
    except (InvalidOperation, TypeError, ValueError):
        return None
    return -int(owed * MICRO)


def _dollars(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number of dollars")
    amount = Decimal(str(value))
    if not amount.is_finite() or abs(amount) > MOST_DOLLARS:
        raise ValueError("not a number of dollars")
    return amount
