"""The whole coat: what the operator and the command line hang around every client."""

from tgp.adapters.clouds.around.meter import Meter, Unmetered
from tgp.adapters.clouds.around.metered import Metered
from tgp.adapters.clouds.around.paced import Paced
from tgp.adapters.clouds.around.patient import Patience, Patient
from tgp.adapters.clouds.around.turnstile import Turnstiles
from tgp.ports.cloud import Cloud
from tgp.ports.entropy import Entropy


def guarded(
    cloud: Cloud,
    *,
    source: str,
    turnstiles: Turnstiles,
    entropy: Entropy,
    meter: Meter | None = None,
    patience: Patience | None = None,
) -> Cloud:
    """Counted nearest to the wire, paced around that, patient outside: every retry waits for a turn like a first try.

    `source` names what the provider counts together, the same for everybody who uses one key; never the key itself.
    """
    meter = meter or Unmetered()
    return Patient(Paced(Metered(cloud, meter), turnstiles, source, meter), entropy, patience)
