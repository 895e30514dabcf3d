"""Whether the machine that a request records counts for others. Tenants may write statuses: a record is no proof.

A namespace that its class serves may use up the limits of that class anyway, so its records count. Those of another
namespace count only where something else shows the machine: a list of its provider, its Node, the table of accounts.
"""

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.indexes import own_node
from tgp.controllers.requests.ledger import BELIEVED_GONE_AFTER
from tgp.core.classes.nodeclass import namespace_allowed
from tgp.core.model.costs import class_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.core.model.workload import Namespace
from tgp.core.requests.attempt_account import has_foreign_token
from tgp.ports.clock import Clock
from tgp.ports.cluster import View

MOST_REMEMBERED = 10_000  # tokens


class RecordedClaims:
    def __init__(
        self,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        clock: Clock,
        *,
        classes: View[KubeObject[GPUNodeClass]],
        namespaces: View[Namespace],
        nodes: View[Node],
        allowed_namespaces_required: bool,
    ) -> None:
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._boottime = clock.boottime
        self._classes = classes
        self._namespaces = namespaces
        self._nodes = nodes
        self._required = allowed_namespaces_required
        self._since = clock.boottime()
        self._served: dict[str, None] = {}  # tokens that were recorded while their class served the namespace

    def start_over(self) -> None:
        """In a new term: orders of the last leader may be on their way."""
        self._since = self._boottime()

    def counts(self, record: KubeObject[GPURequest], attempt: Attempt) -> bool:
        """Against the limits of its class."""
        if has_foreign_token(record, attempt):
            return False
        if self._is_served(record, attempt) or self._shown(record, attempt):
            return True
        account = self._accounts.of(attempt)
        if account is None or account.owned:  # of a machine you own its line names the token
            return account is not None
        return not self._instance_cache.listed_since(account.access.name, self._since + BELIEVED_GONE_AFTER)

    def accuses(self, record: KubeObject[GPURequest], attempt: Attempt) -> bool:
        """Its account, if lists do not show the machine."""
        if has_foreign_token(record, attempt):
            return False
        return self._is_served(record, attempt) or self._shown(record, attempt)

    def _is_served(self, record: KubeObject[GPURequest], attempt: Attempt) -> bool:
        """Also one that was: an order is not forgotten because an administrator changed a label."""
        if attempt.token not in self._served and self._serves(record):
            self._served[attempt.token] = None
            while len(self._served) > MOST_REMEMBERED:
                del self._served[next(iter(self._served))]
        return attempt.token in self._served

    def _serves(self, record: KubeObject[GPURequest]) -> bool:
        node_class = self._classes.get(ObjectKey("", class_of(record)))
        home = self._namespaces.get(ObjectKey("", record.key.namespace))
        if node_class is None or home is None:
            return False
        if node_class.value is None:  # of a newer version: what it allows cannot be read
            return True
        return namespace_allowed(node_class.value, home.labels, required=self._required)

    def _shown(self, record: KubeObject[GPURequest], attempt: Attempt) -> bool:
        """By a list that this process has seen, or by its Node."""
        listed = self._instance_cache.of_request(plain_uid(record.uid_text))
        if any(one.token == attempt.token for _, one in listed) or self._instance_cache.seen_as(attempt.token):
            return True
        return attempt.ended_at is None and own_node(self._nodes, record) is not None
