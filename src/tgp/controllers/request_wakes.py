"""Whose turn it is when something changes: the requests that it concerns, and no others."""

from collections.abc import Iterable

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.accounts import Accounts
from tgp.controllers.request_index import BY_ACCOUNT, BY_NODE, BY_NODE_CLASS, WAITING, YES, by_account
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.token import plain_uid
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.limits import holding_of
from tgp.ports.cluster import View


class RequestWakes:
    def __init__(self, requests: View[Typed[GPURequest]], rosters: Rosters, accounts: Accounts) -> None:
        self._requests = requests
        self._rosters = rosters
        self._accounts = accounts

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        if new is not None and new.repeats(old):
            return ()
        return [record.key for record in self._requests.having(BY_NODE, node.name)]

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        names = {pod.node for pod in (old, new) if pod is not None and pod.node}
        return [record.key for name in sorted(names) for record in self._requests.having(BY_NODE, name)]

    def of_class(self, old: Typed[GPUNodeClass] | None, new: Typed[GPUNodeClass] | None) -> Iterable[Key]:
        """Its own, and whoever waits without a class of its own.

        What its status counts changes with every machine of it: no news for a machine that is there.
        """
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and _means(old) == _means(new):
            return self._waiting()
        own = {record.key for record in self._requests.having(BY_NODE_CLASS, changed.key.name)}
        return sorted(own | set(self._waiting()))

    def of_till(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Of whose machine something new was seen there, and whoever waits for a provider that can be asked."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        news = self._rosters.news(changed.key.name)
        there = {
            record.key
            for record in self._accounts.requests_at(changed.key.name)
            if news is None or plain_uid(record.uid_text) in news
        }
        return sorted(there | set(self._waiting()))

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Those that name it: it came to be known, or to be forgotten."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [record.key for record in self._requests.having(BY_ACCOUNT, changed.key.name)]

    def whoever_waits(self, _old: object, _new: object) -> Iterable[Key]:
        return self._waiting()

    def after_a_release(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """A machine that went leaves room in its class, and so does one that is billed below what was reserved."""
        had, has = (record is not None and bool(by_account(record)) for record in (old, new))
        return self._waiting() if (had and not has) or _held(old) > _held(new) else ()

    def _waiting(self) -> list[Key]:
        return [record.key for record in self._requests.having(WAITING, YES)]


def _held(record: Typed[GPURequest] | None) -> int:
    """Micro-dollars an hour that it takes of its class's limit."""
    attempt = open_attempt(attempts_of(record)) if record is not None else None
    return holding_of("", attempt).microusd if attempt is not None else 0


def _means(record: Typed[GPUNodeClass]) -> tuple[object, ...]:
    """All of a class that a request looks at: of its status only whether it is ready."""
    if record.object is None:
        return (record.uid, record.unreadable)
    ready = next((each for each in record.object.status.conditions if each.type == "Ready"), None)
    return record.uid, record.object.spec, ready, record.deleting, record.generation, record.labels, record.annotations
