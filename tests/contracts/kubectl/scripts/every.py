"""All scripts, in the order they are played: the first of each kind by `make test`, all by `make prove`."""

from tests.amounts import PROVING
from tests.contracts.kubectl.scripts.access import ACCESS
from tests.contracts.kubectl.scripts.applying import APPLYING
from tests.contracts.kubectl.scripts.cluster import CLUSTER
from tests.contracts.kubectl.scripts.custom import CUSTOM
from tests.contracts.kubectl.scripts.data import DATA
from tests.contracts.kubectl.scripts.explaining import EXPLAINING
from tests.contracts.kubectl.scripts.imperative import IMPERATIVE
from tests.contracts.kubectl.scripts.ours import OURS
from tests.contracts.kubectl.scripts.pods import PODS
from tests.contracts.kubectl.scripts.removing import REMOVING
from tests.contracts.kubectl.scripts.workloads import WORKLOADS

KINDS = (EXPLAINING, PODS, CLUSTER, WORKLOADS, DATA, APPLYING, REMOVING, ACCESS, IMPERATIVE, CUSTOM, OURS)
SCRIPTS = tuple(script for kind in KINDS for script in (kind if PROVING else kind[:1]))
