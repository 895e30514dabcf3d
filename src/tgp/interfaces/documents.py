"""Documents for programs, as commands print them and the HTTP API answers."""

API_VERSION = "cli.tgp.io/v1"  # fields are added, never renamed
