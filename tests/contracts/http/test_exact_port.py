import pytest

from tgp.adapters.http.serve import NoFreePort, listen
from tgp.ports.http import Call, Reply


async def says_ok(_: Call) -> Reply:
    return Reply(200, b"ok")


async def test_where_the_port_matters_a_busy_one_is_an_error():
    first = await listen(says_ok)
    try:
        with pytest.raises(NoFreePort, match=f"port {first.port} on 127.0.0.1 is in use"):
            await listen(says_ok, port=first.port, exact=True)
    finally:
        await first.stop()
    again = await listen(says_ok, port=first.port, exact=True)

    assert again.port == first.port
    await again.stop()
