"""Splits a body into lines as it arrives. No limit of its own but the port's: objects are longer than 128 KB."""

from tgp.ports.http import MAX_LINE_BYTES


class LineTooLong(Exception):
    pass


class LineSplitter:
    """Feed it pieces, get the lines each piece completed. Holds at most one unfinished line."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._begun: list[bytes] = []
        self._held = 0

    def feed(self, piece: bytes) -> list[bytes]:
        first, *later = piece.split(b"\n")
        self._hold(first)
        if not later:
            return []
        lines = [self.rest(), *later]
        self._hold(lines.pop())
        # Only a piece larger than the bound can hide a whole line above it.
        if len(piece) > self._max and any(len(line) > self._max for line in lines):
            raise LineTooLong
        return lines

    def rest(self) -> bytes:
        """The unfinished line, which is then forgotten."""
        line = self._begun[0] if len(self._begun) == 1 else b"".join(self._begun)
        self._begun = []
        self._held = 0
        return line

    def _hold(self, part: bytes) -> None:
        if not part:
            return
        self._held += len(part)
        if self._held > self._max:
            raise LineTooLong
        self._begun.append(part)
