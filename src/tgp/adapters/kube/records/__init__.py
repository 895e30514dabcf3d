"""Projections: from what the API server sends to the records we hold, one file per kind."""
