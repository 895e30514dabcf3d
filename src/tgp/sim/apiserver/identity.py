"""The identity of an authenticated user."""

from collections.abc import Mapping
from dataclasses import dataclass, field

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class ApiUser:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


ANONYMOUS = ApiUser("system:anonymous", (UNAUTHENTICATED,))
ADMIN = ApiUser("admin", (MASTERS, AUTHENTICATED), "admin")
LOOPBACK = ApiUser("system:apiserver", (MASTERS, AUTHENTICATED))  # the server's own voice, and the in-process API's


def service_account(namespace: str, name: str, uid: str = "") -> ApiUser:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return ApiUser(f"system:serviceaccount:{namespace}:{name}", groups, uid)
