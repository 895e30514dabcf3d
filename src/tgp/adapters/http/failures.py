"""From aiohttp's errors to the port's two: never left, or no answer.

The texts are written here and not copied, and no cause is kept: the originals quote URLs with their query, and
their `repr` shows the headers that were sent.
"""

import os
import ssl

import aiohttp
from aiohttp.http_exceptions import LineTooLong as HeaderTooLong

from tgp.adapters.http.body import CannotInflate, LineTooLong
from tgp.adapters.http.send_once import ConnectionBroke, SendOnce, SendRefused
from tgp.ports.http import HttpError, NeverLeft, NoAnswer, TooLarge

FAILURES = (aiohttp.ClientError, OSError, CannotInflate, LineTooLong)  # TimeoutError is an OSError


def explain(error: Exception, what: str, gate: SendOnce) -> HttpError:
    """The error to raise in place of `error`; `what` names method, endpoint and path."""
    if gate.late and not gate.opened:
        return NeverLeft(f"{what} was not sent: its deadline had passed")
    if not gate.opened:
        return NeverLeft(f"{what} was not sent: {_reason(error)}")
    if isinstance(error, LineTooLong):
        return TooLarge(f"{what} answered with a line that is too long")
    return NoAnswer(f"{what} got no complete answer: {_reason(error)}")


def _reason(error: Exception) -> str:
    match error:
        case ConnectionBroke():
            return _reason(error.cause)
        case aiohttp.ClientConnectorDNSError():
            return "the host name has no address"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate is not trusted ({_verdict(error.certificate_error)})"
        case aiohttp.ClientConnectorSSLError() | aiohttp.ClientSSLError():
            return f"the TLS handshake failed ({_tls_reason(error)})"
        case aiohttp.ConnectionTimeoutError():
            return "no connection was made in time"
        case TimeoutError():
            return "the timeout passed"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {error.status}"
        case aiohttp.ClientResponseError() if _headers_too_large(error):
            return "the headers of the answer are too large"
        case aiohttp.ClientResponseError():
            return "the answer is not valid HTTP"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection"
        case aiohttp.ClientPayloadError():
            return "the answer is incomplete"
        case CannotInflate():
            return "the answer has an unexpected compression, or is damaged"
        case SendRefused():
            return str(error)
        case OSError() if error.errno:
            return os.strerror(error.errno) if error.errno > 0 else "the host name has no address"
        case _:
            return type(error).__name__


def _headers_too_large(error: aiohttp.ClientResponseError) -> bool:
    """The parser's error comes wrapped once or twice, depending on which parser runs."""
    cause = error.__cause__
    return isinstance(cause, HeaderTooLong) or (cause is not None and isinstance(cause.__cause__, HeaderTooLong))


def _verdict(error: Exception) -> str:
    said = getattr(error, "verify_message", "")
    return said if isinstance(said, str) and said else "verification failed"


def _tls_reason(error: aiohttp.ClientOSError) -> str:
    cause = getattr(error, "os_error", error)
    return cause.reason if isinstance(cause, ssl.SSLError) and cause.reason else type(cause).__name__
