"""Bounded decompression, for servers that compress although they were asked not to."""

import zlib
from collections.abc import Iterator

ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS  # zlib detects the format by the header
PIECE_BYTES = 256 << 10  # a kilobyte can hold a megabyte of zeros: passed on in pieces that the reader may refuse


class CannotInflate(Exception):
    """An unexpected encoding, or bytes that do not match their header."""


class Inflater:
    """Decompresses piece by piece, so that a decompression bomb is never held in memory whole."""

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
