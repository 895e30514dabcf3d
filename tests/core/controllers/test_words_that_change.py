"""A status is written again for another cause, not for another number."""

import pytest

from tgp.controllers.requests.status import says_the_same
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.requests.status import RequestStatus

SAID = "class gpu: 14 offers match, 9 above $2.00/h"


@pytest.mark.parametrize(
    ("message", "reason", "same"),
    [
        (SAID, "NoOfferFits", True),
        ("class gpu: 15 offers match, 10 above $2.05/h", "NoOfferFits", True),
        ("class gpu: the key in Secret tgp-operator-secret is refused", "NoOfferFits", False),
        (SAID, "LimitReached", False),
    ],
)
def test_numbers_alone_are_no_news(message: str, reason: str, same: bool) -> None:
    held = {
        "message": SAID,
        "conditions": [{"type": "Launched", "status": "False", "reason": "NoOfferFits", "message": SAID}],
    }
    status = RequestStatus(
        "Pending", message, (ConditionUpdate("Launched", False, reason, message),), {"message": message}
    )

    assert says_the_same(status, held) is same
