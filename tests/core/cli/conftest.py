"""Fixtures that several files of this folder share."""

from tests.documents import documents_fit_their_schemas

__all__ = ["documents_fit_their_schemas"]
