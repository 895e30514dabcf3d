"""Text from elsewhere, made safe to show."""


def plain(text: str) -> str:
    """Text from a cluster on one line, without characters that could move the cursor."""
    return "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
