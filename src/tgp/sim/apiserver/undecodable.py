"""A body that is JSON but not the kind it claims to be."""


class Undecodable(Exception):
    """The text is what follows `cannot be handled as a Pod: ` in the refusal."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
