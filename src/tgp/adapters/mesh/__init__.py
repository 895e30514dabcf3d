"""The private networks: one adapter each behind the `Mesh` port."""
