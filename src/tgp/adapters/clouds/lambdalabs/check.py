"""What a key at Lambda may do, without spending: whether it works, and whether the SSH key exists."""

from typing import Any

from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.parse import shown
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.cloud import Account, KeyReport, Right

MOST_KEYS = 10_000
NAMES_SHOWN = 5
LOGIN = "SSH key of a launch"
SET_IT = f"set settings.sshKeyName of the provider {FACTS.provider} in a class"


def report(ssh_keys: Any, wanted: str | None, account: Account) -> KeyReport:
    """From the answer to `GET /ssh-keys`: one call shows whether the key works and whether a launch is possible."""
    if not isinstance(ssh_keys, list) or len(ssh_keys) > MOST_KEYS:
        raise CannotTell(f"{FACTS.title} answered without a list of SSH keys")
    names = [row["name"] for row in ssh_keys if isinstance(row, dict) and isinstance(row.get("name"), str)]
    login = _login(names, wanted)
    return KeyReport(
        account,
        rights=(
            Right("see machines", True),
            Right("launch and terminate", None, "API keys of Lambda have no per-action permissions"),
            login,
        ),
        notes=(login.note,) if login.note else (),
    )


def _login(names: list[str], wanted: str | None) -> Right:
    """Without an SSH key of the account Lambda launches nothing. Not held: every order would fail."""
    if wanted is not None and wanted in names:
        return Right(LOGIN, True)
    if wanted is not None:
        return Right(LOGIN, False, f"the account has no SSH key named {shown(wanted)}")
    if not names:
        return Right(LOGIN, False, f"the account has no SSH key: add one, and {SET_IT}")
    known = ", ".join(shown(name) for name in sorted(names)[:NAMES_SHOWN])
    return Right(LOGIN, None, f"{SET_IT}; the account has {known}")
