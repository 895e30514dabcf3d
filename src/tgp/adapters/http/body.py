"""An answer's body as it arrives: decompressed, and split into lines. Nothing is held in memory without a bound."""

import zlib
from collections.abc import Iterator

from tgp.ports.http import MAX_LINE_BYTES

ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS  # zlib detects the format by the header
PIECE_BYTES = 256 << 10  # a kilobyte can hold a megabyte of zeros: passed on in pieces that the reader may refuse


class LineTooLong(Exception):
    pass


class LineSplitter:
    """Feed it pieces, get the lines each piece completed. Holds at most one unfinished line.

    No limit but the port's: objects are longer than the 128 KB that the library allows.
    """

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


class CannotInflate(Exception):
    """An unexpected encoding, or bytes that do not match their header."""


class Inflater:
    """For servers that compress although they were asked not to.

    It decompresses piece by piece, so that a decompression bomb is never held in memory whole.
    """

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise CannotInflate
        self._zlib = None if encoding in {"", "identity"} else zlib.decompressobj(ZLIB_OR_GZIP)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        if self._zlib is None:
            yield piece
            return
        try:
            while piece and not self._zlib.eof:
                plain = self._zlib.decompress(piece, PIECE_BYTES)
                piece = self._zlib.unconsumed_tail
                if plain:
                    yield plain
        except zlib.error:
            raise CannotInflate from None

    @property
    def finished(self) -> bool:
        """False while the end of a compressed body is missing."""
        return self._zlib is None or self._zlib.eof
