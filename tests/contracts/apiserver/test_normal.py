"""What makes answers comparable keeps what matters: a difference that was normalised away would be a lie unheard."""

from tests.contracts.apiserver.api import Json, Note
from tests.contracts.apiserver.normal import normal

UID = "0b7ad2a2-6e1e-4b0c-a2f3-0f2f4d1a9b1c"
OTHER_UID = "1c7ad2a2-6e1e-4b0c-a2f3-0f2f4d1a9b1c"


def _object(version: int, uid: str = UID, **metadata: str) -> Json:
    return {"metadata": {"name": "one", "uid": uid, "resourceVersion": str(version), **metadata}}


def _seen(*bodies: Json) -> list[Json]:
    return normal([Note("GET /x", status=200, body=body) for body in bodies])


def test_two_servers_that_count_differently_are_alike() -> None:
    assert _seen(_object(7), _object(9)) == _seen(_object(1007, OTHER_UID), _object(2000, OTHER_UID))


def test_a_version_that_did_not_move_differs_from_one_that_did() -> None:
    assert _seen(_object(7), _object(7)) != _seen(_object(7), _object(8))


def test_a_version_that_went_back_differs_from_one_that_grew() -> None:
    assert _seen(_object(8), _object(7)) != _seen(_object(7), _object(8))


def test_another_uid_is_another_object() -> None:
    assert _seen(_object(7), _object(8, OTHER_UID)) != _seen(_object(7), _object(8))


def test_a_list_is_known_by_the_newest_object_it_can_contain() -> None:
    fresh: Json = {"metadata": {"resourceVersion": "12"}, "items": []}
    stale: Json = {"metadata": {"resourceVersion": "7"}, "items": []}
    assert _seen(_object(7), _object(9), fresh) != _seen(_object(7), _object(9), stale)


def test_a_bookmark_before_the_last_event_is_told_apart() -> None:
    def bookmark(version: int) -> Json:
        return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}

    assert _seen(_object(7), bookmark(7)) == _seen(_object(7), bookmark(90))
    assert _seen(_object(7), bookmark(6)) != _seen(_object(7), bookmark(7))


def test_the_form_of_a_time_is_kept() -> None:
    whole, fine = "2026-01-05T09:00:00Z", "2026-01-05T09:00:00.000001Z"
    assert _seen(_object(7, creationTimestamp=whole)) != _seen(_object(7, creationTimestamp=fine))
    assert _seen(_object(7, creationTimestamp=whole)) == _seen(_object(7, creationTimestamp="2027-02-06T10:10:10Z"))


def test_a_time_that_a_case_wrote_is_kept_as_it_is() -> None:
    assert _seen({"at": "2001-01-01T00:00:00Z"}) != _seen({"at": "2001-01-01T00:00:01Z"})


def test_words_and_numbers_are_kept() -> None:
    assert _seen({"message": "no"}) != _seen({"message": "yes"})
    assert _seen({"code": 409}) != _seen({"code": 410})
