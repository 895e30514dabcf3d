"""The admission steps every write passes, in order."""

from tgp.sim.apiserver.admission.budgets import admit_pod
from tgp.sim.apiserver.admission.namespaces import check_namespace_accepts
from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, mapping_at, same
from tgp.sim.apiserver.kinds.definitions import check_kind_accepts
from tgp.sim.apiserver.rbac import AccessAttempt, authorize
from tgp.sim.apiserver.status_errors import forbidden


def admit_create(write: Write, obj: Json) -> None:
    check_namespace_accepts(write.core, write.served, obj)
    check_kind_accepts(write.core, write.served)
    admit_pod(write, obj)


def admit_update(write: Write, obj: Json, old: Json) -> None:
    """After everything else was found to be right."""
    check_signer_allows(write, obj, old)


GROUP = "certificates.k8s.io"


REQUESTS = "certificatesigningrequests"


def check_signer_allows(write: Write, obj: Json, old: Json) -> None:
    """By the name that the stored object has: sending another name does not help."""
    if (write.served.group, write.served.plural) != (GROUP, REQUESTS):
        return
    before, after = mapping_at(old, "status"), mapping_at(obj, "status")
    if write.subresource == "approval":
        _check(write, old, "approve")
    elif write.subresource == "status" and not same(before, after):
        _check(write, old, "sign")


def _check(write: Write, old: Json, verb: str) -> None:
    signer = str(mapping_at(old, "spec").get("signerName", ""))
    domain = signer.partition("/")[0]
    for name in (signer, f"{domain}/*"):
        if authorize(write.core, write.ask.user, AccessAttempt(verb, GROUP, "signers", "", name)).allowed:
            return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise forbidden(GROUP, REQUESTS, old["metadata"]["name"], why)
