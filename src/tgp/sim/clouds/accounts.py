"""Who rents at a simulated provider, and by which keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tenant:
    """One account."""

    id: str
    name: str = ""
    balance_microusd: int | None = None  # at the beginning; None: pays by invoice
    most_machines: int | None = None  # a quota; None: none


@dataclass(slots=True)
class SimulatedAccounts:
    """Keys and whose they are. A key can be revoked, or come to belong to another account."""

    _of_key: dict[str, str] = field(default_factory=dict, repr=False)
    _tenants: dict[str, Tenant] = field(default_factory=dict)

    def open(self, tenant: Tenant, *keys: str) -> Tenant:
        self._tenants[tenant.id] = tenant
        for key in keys:
            self._of_key[key] = tenant.id
        return tenant

    def of(self, key: str) -> Tenant | None:
        """None: an unknown key."""
        return self._tenants.get(self._of_key.get(key, ""))

    def has_key(self, account: str) -> bool:
        """Is there any way in?"""
        return account in self._of_key.values()

    def revoke(self, key: str) -> None:
        self._of_key.pop(key, None)

    def hand_over(self, key: str, account: str) -> None:
        """From now on that key opens another account."""
        assert account in self._tenants, f"there is no account {account}"
        self._of_key[key] = account

    def other_than(self, account: str) -> Tenant:
        """Another tenant's account, created where there is none."""
        for tenant in self._tenants.values():
            if tenant.id != account:
                return tenant
        return self.open(Tenant(f"{account}-other", "another tenant"))

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._tenants.values())
