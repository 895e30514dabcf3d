"""Bounded decompression, for servers that compress although they were asked not to."""

import zlib
from collections.abc import Iterator

ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS  # zlib's own way to say: tell by the header
PIECE_BYTES = 256 << 10  # a kilobyte can hold a megabyte of zeros: hand it on in pieces that the reader may refuse


class CannotInflate(Exception):
    """An encoding nobody asked for, or bytes that are not what their header says."""


class Inflater:
    """Turns encoded bytes into plain ones piece by piece, so that no bomb is ever held whole."""

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
