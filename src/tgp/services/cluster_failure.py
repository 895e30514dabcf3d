"""What an error of the cluster means for the person at the command line, and the command that shows more."""

from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.ports.cluster import Forbidden, KindsMissing, NotFound, Unauthenticated

REACH, RIGHTS, LOGIN = "kubectl cluster-info", "kubectl auth can-i --list", "kubectl get namespaces"
KINDS = "tgp crds apply"
NOT_ACCEPTED = "the API server does not accept the kubeconfig's token or certificate: it is wrong or has expired"


def first_step(error: BaseException) -> str:
    """The command to run next, without the flags that name the cluster."""
    match error:
        case Forbidden():
            return RIGHTS
        case Unauthenticated():
            return LOGIN
        case KindsMissing():
            return KINDS
        case NotFound():
            return "tgp check"
        case _:
            return REACH


def explained(message: str, error: BaseException) -> str:
    """The message, with what a bare "Unauthorized" does not say."""
    return f"{message}: {NOT_ACCEPTED}" if isinstance(error, Unauthenticated) else message


def names_no_cluster(error: BaseException) -> bool:
    """Whether the kubeconfig is the problem: it is missing, or cannot be used."""
    return isinstance(error, ConfigInvalid)
