"""A budget as a bar: how much of its quota is used."""

WIDTH = 12
WARNS = 0.8
FULL = 1.0


def share_of(used: int, quota: int) -> float:
    return used / quota if quota else 0.0


def bar(share: float, width: int = WIDTH) -> str:
    filled = min(width, round(share * width))
    return "■" * filled + "□" * (width - filled)


def style_of(share: float) -> str:
    return "red" if share >= FULL else "yellow" if share >= WARNS else "green"
