"""A few numbers about a running operator, for a screen and for the last words."""

from dataclasses import dataclass

from tgp.adapters.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Turns:
    taken: int
    failed: int


def turns_of(metrics: Metrics) -> Turns:
    """From the very counts that the metrics page shows."""
    taken = failed = 0.0
    for family in (*metrics.turns.collect(), *metrics.failed_turns.collect()):
        for sample in family.samples:
            if sample.name == "tgp_turn_seconds_count":
                taken += sample.value
            elif sample.name == "tgp_turn_failures_total":
                failed += sample.value
    return Turns(int(taken), int(failed))


class Unheard:
    """A journal for those whose troubles are on the screen anyway."""

    def note(self, fact: object) -> None:
        pass
