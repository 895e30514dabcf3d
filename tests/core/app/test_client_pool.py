"""The ways out are kept, shared and bounded."""

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client_pool import MOST, http_client_pool


async def test_the_same_endpoint_is_the_same_client_and_another_address_is_not():
    async with http_client_pool(SystemClock()) as dial:
        assert dial("https://one.example") is dial("https://one.example")
        assert dial("https://one.example") is not dial("https://one.example", address="10.0.0.1")


async def test_names_that_move_for_ever_do_not_fill_the_memory():
    async with http_client_pool(SystemClock()) as dial:
        kept = dial("https://one.example")
        for number in range(2 * MOST):
            dial("http://box.example", address=f"10.0.{number // 250}.{number % 250}")
            dial("https://one.example")

        assert len(dial) == MOST
        assert dial("https://one.example") is kept, "what is used stays"
