"""The document about the cluster's custom resource definitions beside those of this release."""

from typing import Literal, TypedDict

from tgp.services.documents import API_VERSION, ApiVersion


class KindDifferenceItem(TypedDict):
    name: str
    installed: bool
    difference: str  # a unified diff; empty: the same


class KindDifference(TypedDict):
    """The cluster's custom resource definitions beside those of this release."""

    apiVersion: ApiVersion
    kind: Literal["KindDifference"]
    kinds: list[KindDifferenceItem]


def kind_difference(kinds: list[KindDifferenceItem]) -> KindDifference:
    return KindDifference(apiVersion=API_VERSION, kind="KindDifference", kinds=kinds)
