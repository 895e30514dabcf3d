"""The admission steps every write passes, in order."""

from tgp.sim.apiserver.admission.budgets import admit_pod
from tgp.sim.apiserver.admission.namespaces import check_namespace_accepts
from tgp.sim.apiserver.admission.signers import check_signer_allows
from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.kinds.definitions import check_kind_accepts


def admit_create(write: Write, obj: Json) -> None:
    check_namespace_accepts(write.core, write.served, obj)
    check_kind_accepts(write.core, write.served)
    admit_pod(write, obj)


def admit_update(write: Write, obj: Json, old: Json) -> None:
    """After everything else was found to be right."""
    check_signer_allows(write, obj, old)
