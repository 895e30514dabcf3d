"""Dollars, price differences and ages for display."""

from datetime import timedelta

from tgp.core.model.prices import MICRO


def dollars(microusd: int) -> str:
    """To the cent, with more digits where cents would lose something: $1.29, $0.004."""
    text = f"{microusd / MICRO:.6f}".rstrip("0")
    whole, _, cents = text.partition(".")
    return f"${whole}.{cents:0<2}"


def about(microusd: int) -> str:
    """For a sentence, with few digits: $0.419, $1.29, $23.51; amounts below a cent in full."""
    if microusd < MICRO // 100:
        return dollars(microusd)
    text = f"{microusd / MICRO:.{3 if microusd < MICRO else 2}f}"
    return f"${text[:-1] if microusd < MICRO and text.endswith('0') else text}"


def distance(microusd: int) -> str:
    """How far above: 9 cents, 42.7 cents, $1.20; below a cent in full, because it would round to zero."""
    cent = MICRO // 100
    cents = f"{microusd / cent:.{4 if microusd < cent else 1}f}".rstrip("0").rstrip(".")
    if microusd >= MICRO or cents == "100":
        return about(microusd)
    return f"{cents} cent" if cents == "1" else f"{cents} cents"


def ago(length: timedelta) -> str:
    minutes = int(length.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
