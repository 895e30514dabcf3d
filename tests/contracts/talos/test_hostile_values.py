"""What we write, Talos reads: the same text, whatever is in it."""

from random import Random

from tests.amounts import amount
from tests.core.talos.a_plan import a_join
from tests.core.talos.fuzzing import VALUES_PER_RENDERING, expected, hostile, ours, template
from tools.judge import Question

# Talos reads these as base64 or a URL where our own part of the config has them: they must be some.
READ_AS_MORE = {
    "MachineCA": a_join().machine_ca,
    "ClusterCA": a_join().cluster_ca,
    "ControlPlaneEndpoint": a_join().endpoint,
}
RENDERINGS = amount(2000, 100000, "TGP_FUZZ") // VALUES_PER_RENDERING // 10


def test_hostile_values_are_the_same_to_talos(judge, version):
    """The reader there is Go's, not ours: quoting must mean the same to both."""
    cases = []
    for number in range(RENDERINGS):
        luck = Random(f"talos {number}")
        cases.append((template(luck), hostile(luck) | READ_AS_MORE))
    verdicts = judge.verdicts(
        [Question(str(number), ours(written, values, str(version))) for number, (written, values) in enumerate(cases)]
    )

    for (_, values), verdict in zip(cases, verdicts, strict=True):
        assert len(verdict.environment) == VALUES_PER_RENDERING, verdict
        assert verdict.environment == expected(verdict.environment, values)
