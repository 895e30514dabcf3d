"""The id of a cluster is on machines that are paid for: it never changes."""

import pytest

from tgp.core.model.identity import cluster_id


@pytest.mark.parametrize(
    ("uid", "found"), [("2e0b4a6e-7f0c-4a43-9d0b-0c9d4f1c2b3a", "59770d68d3"), ("x", "ce2d142464")]
)
def test_an_id_is_ten_digits_of_the_namespace_s_uid(uid: str, found: str):
    assert cluster_id(uid) == found


def test_there_is_no_id_without_a_uid():
    with pytest.raises(AssertionError):
        cluster_id("")
