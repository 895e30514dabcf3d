"""Who is asking: bearer tokens, bootstrap tokens, service account tokens, and impersonation on top."""

import base64
import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tgp.ports.http import Call
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.identity import AUTHENTICATED, ApiUser, service_account
from tgp.sim.apiserver.json_value import Json, mapping_at
from tgp.sim.apiserver.rbac import AccessAttempt, authorize, refusal
from tgp.sim.apiserver.status_errors import internal, unauthorized

TOKEN_BYTES = 24
SA_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class IssuedToken:
    user: ApiUser
    expires: datetime | None  # None: never
    audiences: tuple[str, ...] = ()
    bound: tuple[str, str, str] = ("", "", "")  # storage, namespace, name of what the token lives and dies with


@dataclass(slots=True)
class Authentication:
    """`unidentified` is who comes without any credentials; None refuses them (401)."""

    core: Core
    unidentified: ApiUser | None
    tokens: dict[str, IssuedToken] = field(default_factory=dict, repr=False)

    def add_token(self, token: str, user: ApiUser, expires: datetime | None = None) -> None:
        """Accept `token` as `user`; every user with a token is in system:authenticated."""
        groups = user.groups if AUTHENTICATED in user.groups else (*user.groups, AUTHENTICATED)
        self.tokens[token] = IssuedToken(replace(user, groups=groups), expires)

    def identify(self, call: Call) -> ApiUser:
        said = call.header("Authorization")
        if not said:
            if self.unidentified is None:
                raise unauthorized()
            user: ApiUser | None = self.unidentified
        else:
            scheme, _, token = said.partition(" ")
            user = self.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return impersonated(self.core, user, call)

    def user_of(self, token: str) -> ApiUser | None:
        """None: not a token of ours, or no longer."""
        issued = self.tokens.get(token)
        if issued is None:
            return self._bootstrap_user(token)
        if issued.expires is not None and self.core.now() >= issued.expires:
            return None
        storage, namespace, name = issued.bound
        if storage and self.core.store.get(storage, namespace, name) is None:
            return None
        return issued.user

    def _bootstrap_user(self, token: str) -> ApiUser | None:
        """`id.secret` of a Secret of type bootstrap.kubernetes.io/token in kube-system."""
        name, dot, secret = token.partition(".")
        found = self.core.store.get("secrets", "kube-system", f"bootstrap-token-{name}") if dot else None
        if found is None or found.obj.get("type") != "bootstrap.kubernetes.io/token":
            return None
        data = {key: _plain(value) for key, value in mapping_at(found.obj, "data").items()}
        if data.get("token-secret") != secret or data.get("token-id") != name:
            return None
        if data.get("usage-bootstrap-authentication") != "true" or self._is_past(data.get("expiration", "")):
            return None
        extra = [group for group in data.get("auth-extra-groups", "").split(",") if group]
        return ApiUser(f"system:bootstrap:{name}", ("system:bootstrappers", *extra, AUTHENTICATED))

    def _is_past(self, text: str) -> bool:
        if not text:
            return False
        try:
            return self.core.now() >= datetime.fromisoformat(text)
        except (ValueError, TypeError):
            return True

    def issue(self, account: Json, lifetime: timedelta, audiences: tuple[str, ...]) -> tuple[str, datetime]:
        """A token for a ServiceAccount, good until its end or the account's."""
        meta = account["metadata"]
        user = service_account(meta["namespace"], meta["name"], meta["uid"])
        claims = _segment(json.dumps({"aud": list(audiences), "sub": user.name}, separators=(",", ":")))
        secret = base64.urlsafe_b64encode(self.core.entropy.token(TOKEN_BYTES)).decode().rstrip("=")
        token, expires = f"{HEADER}.{claims}.{secret}", self.core.now() + lifetime
        self.tokens[token] = IssuedToken(user, expires, audiences, ("serviceaccounts", meta["namespace"], meta["name"]))
        return token, expires


def _segment(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


HEADER = _segment('{"alg":"none"}')  # shaped like a JWT; what counts is that we remember having issued it


def _plain(value: str) -> str:
    return base64.b64decode(value).decode(errors="replace")


def impersonated(core: Core, user: ApiUser, call: Call) -> ApiUser:
    """The user named in the Impersonate headers, if `user` may speak for them."""
    headers = [(name.lower(), value) for name, value in call.headers if name[:12].lower() == "impersonate-"]
    if not headers:
        return user
    wanted = _named(headers)
    if not wanted.name:
        raise internal("requested impersonation without impersonating a user")
    for attempt in _needed_to_be(wanted):
        if not authorize(core, user, attempt).allowed:
            raise refusal(user, attempt)
    groups = list(wanted.groups)
    if wanted.name.startswith(SA_PREFIX) and not groups:
        namespace = wanted.name.removeprefix(SA_PREFIX).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if wanted.name != "system:anonymous" and AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return replace(wanted, groups=tuple(groups))


def _named(headers: list[tuple[str, str]]) -> ApiUser:
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in headers:
        if key.startswith("impersonate-extra-"):
            kind = key.removeprefix("impersonate-extra-")
            extra[kind] = (*extra.get(kind, ()), value)
    return ApiUser(
        next((value for key, value in headers if key == "impersonate-user"), ""),
        tuple(value for key, value in headers if key == "impersonate-group"),
        next((value for key, value in headers if key == "impersonate-uid"), ""),
        extra,
    )


def _needed_to_be(wanted: ApiUser) -> list[AccessAttempt]:
    """The rights needed to impersonate `wanted`."""
    if wanted.name.startswith(SA_PREFIX) and wanted.name.count(":") == 3:
        namespace, account = wanted.name.removeprefix(SA_PREFIX).split(":")
        attempts = [AccessAttempt("impersonate", "", "serviceaccounts", "", account, namespace)]
    else:
        attempts = [AccessAttempt("impersonate", "", "users", "", wanted.name)]
    attempts += [AccessAttempt("impersonate", "", "groups", "", group) for group in wanted.groups]
    if wanted.uid:
        attempts.append(AccessAttempt("impersonate", "authentication.k8s.io", "uids", "", wanted.uid))
    for kind, values in wanted.extra.items():
        attempts += [
            AccessAttempt("impersonate", "authentication.k8s.io", "userextras", kind, value) for value in values
        ]
    return attempts
