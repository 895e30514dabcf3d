"""Every message of a request's status is a sentence, whatever it is made of, and says nothing that is over."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.core.requests.an_observation import a_condition, a_machine, an_observation
from tgp.core.model.presence import Absent
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.status import compute_status
from tgp.core.requests.steps import CloseAttempt, Complete, Wait

NOTHING = Wait("", "")
WHY = "No pod has used the GPUs of machine i-1 at vast since 12:00:00Z."


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("vultr answered 503", "Vultr answered 503."),
        ("none of 3 offers fits: 3 sold out", "None of 3 offers fits: 3 sold out."),
        ("spec.gpuType: class a does not allow it", "spec.gpuType: class a does not allow it."),
        ("i-12 is gone.", "i-12 is gone."),
        (
            "Secret join does not exist. Try: tgp talos join-secret",
            "Secret join does not exist. Try: tgp talos join-secret",
        ),
        ("lists are wrong: tgp release provider/vast", "Lists are wrong: tgp release provider/vast"),
        (
            "the volume binds at once: see kubectl describe pvc a",
            "The volume binds at once: see kubectl describe pvc a",
        ),
        ("tgp release resumes them", "tgp release resumes them."),
        ("", ""),
    ],
)
def test_what_others_wrote_becomes_a_sentence(said, shown):
    status = compute_status(an_observation(), Wait("NoOfferFits", said))
    ended = compute_status(an_observation(), NOTHING, finish=Complete("Failed", "Lost", said))

    assert [each.message for each in status.updates] == [shown, shown]
    assert (status.message, ended.message) == (shown, shown)


def test_an_error_of_a_termination_leaves_the_message_when_the_next_call_succeeds():
    held = replace(
        a_condition("Terminating", "Idle"),
        message=f"{WHY} Termination was requested 3 times; last error: timeout.",
    )

    def message(**others) -> str:
        observation = an_observation(a_machine(), conditions=(held,), **others)
        return next(each.message for each in compute_status(observation, NOTHING).updates if each.type == "Terminating")

    assert message() == WHY
    assert message(trouble="vast answered 500", termination_requests=1) == (
        f"{WHY} Termination was requested once; last error: vast answered 500."
    )


def test_why_a_machine_went_is_recorded_without_the_errors_on_the_way():
    held = replace(
        a_condition("Terminating", "Idle"), message=f"{WHY} Termination was requested 3 times; last error: x."
    )
    gone = {"presence": Absent(2, timedelta(hours=1)), "termination_accepted": True}
    step = next_step(an_observation(a_machine(), conditions=(held,), **gone))

    assert isinstance(step, CloseAttempt)
    assert (step.message, step.finished) == (WHY, Complete("Finished", "Idle", WHY))
