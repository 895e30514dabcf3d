"""Micro-dollars as text. Everything that shows an amount of money to people takes its form from here."""

from tgp.api.values import MICRO, usd

CENT = MICRO // 100


def exact(microusd: int) -> str:
    """To the cent, with more digits where cents would lose something: $1.29, $0.004."""
    return f"${usd(microusd)}"


def about(microusd: int) -> str:
    """For a sentence, with few digits: $0.419, $1.29, $23.51; amounts below a cent in full."""
    if microusd < CENT:
        return exact(microusd)
    text = f"{microusd / MICRO:.{3 if microusd < MICRO else 2}f}"
    return f"${text[:-1] if microusd < MICRO and text.endswith('0') else text}"


def distance(microusd: int) -> str:
    """How far above: 9 cents, 42.7 cents, $1.20; below a cent in full, because it would round to zero."""
    cents = f"{microusd / CENT:.{4 if microusd < CENT else 1}f}".rstrip("0").rstrip(".")
    if microusd >= MICRO or cents == "100":
        return about(microusd)
    return f"{cents} cent" if cents == "1" else f"{cents} cents"


def amount(microusd: int, *, digits: int = 2) -> str:
    """For a column: at least this many digits, and enough to distinguish a small price from zero: 1,234.50, 0.0042."""
    return f"{microusd / MICRO:,.{max(digits, digits_of(microusd))}f}"


def digits_of(microusd: int) -> int:
    """How many decimals a price needs: 2.40, 0.345, 0.0042."""
    if 0 < microusd < CENT:
        return 4
    return 3 if microusd % CENT and microusd < MICRO else 2


def dollars(microusd: int) -> str:
    """A price: $1,234.50, $0.345, $0.0042."""
    return f"${amount(microusd)}"


def to_the_cent(microusd: int) -> str:
    """What was spent, in a column of sums, to the nearest cent: 1,234.50."""
    whole, rest = divmod((abs(microusd) + CENT // 2) // CENT, 100)
    return f"{'-' if microusd <= -CENT // 2 else ''}{whole:,}.{rest:02}"


def total(microusd: int) -> str:
    """A sum in a sentence, or a rate on a small screen: as `status.spent` shows what was spent. $1,234.50"""
    return f"${to_the_cent(microusd)}"


def decimal(microusd: int) -> str:
    """For programs that read text: all six decimals, 1234.500000."""
    return f"{microusd / MICRO:.6f}"


def cents(microusd: int, *, up: bool = False) -> str:
    """For a field of an object: to the nearest cent; `up`: to the next. 1.29"""
    return usd((microusd + (CENT - 1 if up else CENT // 2)) // CENT * CENT)
