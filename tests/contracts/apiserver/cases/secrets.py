"""Secrets: what is written plainly comes back encoded, and what is sealed stays."""

from tests.contracts.apiserver.api import Api
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import SECRET


@case(Area.SECRET)
async def plain_values_are_stored_encoded_and_not_given_back(api: Api) -> None:
    made = await api.create(SECRET, {"metadata": {"name": "one"}, "stringData": {"user": "ann", "empty": ""}})
    assert made["data"] == {"user": "YW5u", "empty": ""}
    assert "stringData" not in made.body
    assert made["type"] == "Opaque"


@case(Area.SECRET)
async def plain_values_win_over_encoded_ones(api: Api) -> None:
    body = {"metadata": {"name": "one"}, "data": {"a": "b2xk", "b": "b2xk"}, "stringData": {"a": "new"}}
    made = await api.create(SECRET, body)
    assert made["data"] == {"a": "bmV3", "b": "b2xk"}
    after = await api.patch(SECRET, "one", {"stringData": {"b": "newer"}})
    assert after["data"] == {"a": "bmV3", "b": "bmV3ZXI="}


@case(Area.SECRET)
async def what_is_not_base64_is_refused(api: Api) -> None:
    assert (await api.create(SECRET, {"metadata": {"name": "one"}, "data": {"a": "***"}})).status == 400


@case(Area.SECRET)
async def a_key_must_be_a_file_name(api: Api) -> None:
    refused = await api.create(SECRET, {"metadata": {"name": "one"}, "stringData": {"a b": "x"}})
    assert refused.status == 422


@case(Area.SECRET)
async def a_sealed_secret_stays_as_it_is(api: Api) -> None:
    await api.create(SECRET, {"metadata": {"name": "one"}, "stringData": {"a": "b"}, "immutable": True})
    assert (await api.patch(SECRET, "one", {"stringData": {"a": "c"}})).status == 422
    assert (await api.patch(SECRET, "one", {"immutable": None})).status == 422


@case(Area.SECRET)
async def a_type_is_chosen_once_and_may_ask_for_keys(api: Api) -> None:
    await api.create(SECRET, {"metadata": {"name": "one"}, "type": "contract.tgp.io/kind"})
    assert (await api.patch(SECRET, "one", {"type": "Opaque"})).status == 422
    wanting = await api.create(SECRET, {"metadata": {"name": "two"}, "type": "kubernetes.io/tls"})
    assert wanting.status == 422
    assert (await api.list(SECRET, fieldSelector="type=contract.tgp.io/kind")).names == ["one"]
