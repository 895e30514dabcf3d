"""Keys to reconcile: once each, one at a time, failing ones later and later, none starved."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.reflector.served import Even, in_virtual_time
from tgp.adapters.kube.queue import LONG_LINE, MIN_GAP, TURNS, Queue
from tgp.core.model.backoff import Backoff
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token_bucket import TokenRate

A, B, C = (ObjectKey("n", name) for name in "abc")


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_key_is_queued_once_however_often_it_is_added():
    async def scenario():
        queue = Queue(Even())
        for key in (A, B, A, A):
            queue.add(key)

        assert [queue.take(), queue.take(), queue.take()] == [A, B, None]

    in_virtual_time(scenario())


def test_a_key_added_during_its_turn_gets_one_more_after_it_and_never_two_at_once():
    async def scenario():
        queue = Queue(Even())
        queue.add(A)
        assert queue.take() == A
        queue.add(A)
        queue.add(A)
        assert queue.take() is None
        queue.done(A)
        assert queue.take() == A
        queue.done(A)
        assert queue.take() is None

    in_virtual_time(scenario())


def test_in_a_long_line_some_go_first_and_every_fourth_turn_is_that_of_the_oldest():
    ordinary = [ObjectKey("n", f"{number:03}") for number in range(2 * LONG_LINE)]
    urgent = [ObjectKey("first", f"{number}") for number in range(2 * TURNS)]

    async def scenario():
        queue = Queue(Even(), first=lambda key: key.namespace == "first")
        for key in (*ordinary, *urgent):
            queue.add(key)
        taken = [queue.take() for _ in range(len(queue))]

        assert queue.take() is None
        assert sorted(taken) == sorted((*ordinary, *urgent))
        assert [each for each in taken if each in ordinary] == ordinary
        assert [each for each in taken if each in urgent] == urgent
        turns = taken[: TURNS * 2]
        assert [each.namespace for each in turns] == ["first", "first", "first", "n"] * 2

    in_virtual_time(scenario())


def test_a_short_line_is_first_come_first_served():
    async def scenario():
        queue = Queue(Even(), first=lambda key: key == C)
        for key in (A, B, C):
            queue.add(key)

        assert [queue.take(), queue.take(), queue.take()] == [A, B, C]

    in_virtual_time(scenario())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 200), max_size=600))
def test_in_any_order_each_key_is_taken_once_for_each_time_it_waited(numbers):
    async def scenario():
        queue = Queue(Even(), first=lambda key: key.name.endswith("7"))
        waiting = set()
        for number in numbers:
            key = ObjectKey("n", str(number))
            queue.add(key)
            waiting.add(key)
            if number % 3 == 0:
                taken = queue.take()
                assert taken in waiting
                waiting.discard(taken)
                queue.done(taken)
        assert len(queue) == len(waiting)
        assert {queue.take() for _ in range(len(queue))} == waiting
        assert queue.take() is None

    in_virtual_time(scenario())


def test_the_earliest_time_asked_for_counts():
    async def scenario():
        queue = Queue(Even())
        queue.add_at(A, now() + 60)
        queue.add_at(A, now() + 10)
        queue.add_at(A, now() + 30)
        key = await queue.next()

        assert (key, round(now())) == (A, 10)
        queue.done(A)
        assert queue.timed == 0

    in_virtual_time(scenario())


def test_a_turn_for_another_reason_takes_the_place_of_the_timed_one():
    """The reconciler returns a new time; a forgotten timer would be an extra reconcile."""

    async def scenario():
        queue = Queue(Even())
        queue.add_at(A, now() + 60)
        queue.add(A)
        assert await queue.next() == A
        queue.done(A, again_at=now() + 90)
        await queue.next()

        assert round(now()) == 90

    in_virtual_time(scenario())


def test_failures_wait_longer_and_longer_up_to_a_bound():
    async def scenario():
        queue = Queue(Even(), retry=Backoff(first=1.0, cap=60.0))
        queue.add(A)
        waits = []
        for _ in range(10):
            await queue.next()
            failed_at = now()
            queue.failed(A)
            await queue.next()
            waits.append(now() - failed_at)
            queue._at_work.pop(A)
            queue._line.appendleft(A)
            queue._waiting.add(A)

        assert waits == sorted(waits)
        assert waits[0] >= 0.5
        assert max(waits) <= 60

    in_virtual_time(scenario())


def test_success_wipes_the_slate():
    async def scenario():
        queue = Queue(Even())
        queue.add(A)
        for _ in range(5):
            await queue.next()
            queue.failed(A)
        assert queue.failures(A) == 5
        await queue.next()
        queue.done(A)

        assert queue.failures(A) == 0
        assert queue.failing == 0

    in_virtual_time(scenario())


def test_a_change_brings_a_failed_key_forward_but_a_key_cannot_spin_on_its_own_changes():
    """A failing turn that writes wakes itself; a user who repairs the object should not wait five minutes."""

    async def scenario():
        queue = Queue(Even())
        queue.add(A)
        turns = 0
        end = now() + 60
        while now() < end:
            await queue.next()
            turns += 1
            queue.add(A)  # its own write comes back
            queue.failed(A)
        assert turns <= 60 / MIN_GAP + 1

        await queue.next()
        queue.failed(A)
        failed_at = now()
        queue.add(A)
        await queue.next()
        assert now() - failed_at <= MIN_GAP + 0.001

    in_virtual_time(scenario())


def test_a_wait_that_was_asked_for_is_kept_also_when_something_changes():
    async def scenario():
        queue = Queue(Even())
        queue.add(A)
        await queue.next()
        queue.failed(A, at_least=20)
        queue.add(A)
        await queue.next()

        assert now() >= 20

    in_virtual_time(scenario())


def test_many_failing_keys_share_one_rate():
    async def scenario():
        queue = Queue(Even(), retry=Backoff(first=0.001, cap=0.001), rate=TokenRate(per_second=10, burst=100))
        keys = [ObjectKey("n", str(number)) for number in range(300)]
        for key in keys:
            queue.add(key)
        turns = 0
        while now() < 60:
            key = await queue.next()
            turns += 1
            queue.failed(key)

        assert turns <= 300 + 100 + 60 * 10 + 1

    in_virtual_time(scenario())


def test_one_bad_key_does_not_starve_the_others():
    async def scenario():
        queue = Queue(Even())
        queue.add(A)
        order = []
        for number in range(20):
            queue.add(ObjectKey("good", str(number)))
        while len(order) < 20:
            key = await queue.next()
            if key == A:
                queue.add(A)
                queue.failed(A)
            else:
                order.append(key.name)
                queue.done(key)

        assert order == [str(number) for number in range(20)]
        assert now() < 1

    in_virtual_time(scenario())


def test_stopping_sends_waiting_workers_home():
    async def scenario():
        queue = Queue(Even())
        workers = [asyncio.create_task(queue.next()) for _ in range(3)]
        queue.add_at(A, now() + 5)
        await asyncio.sleep(1)
        queue.stop()
        queue.add(B)

        assert await asyncio.gather(*workers) == [None, None, None]
        assert queue.take() is None

    in_virtual_time(scenario())


def test_a_worker_that_is_cancelled_as_it_is_called_sends_the_next():
    async def scenario():
        queue = Queue(Even())
        first, second = asyncio.create_task(queue.next()), asyncio.create_task(queue.next())
        await asyncio.sleep(0)
        queue.add(A)
        first.cancel()

        assert await asyncio.wait_for(second, 1) == A
        await asyncio.gather(first, return_exceptions=True)

    in_virtual_time(scenario())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add_at", "take", "done", "failed", "wait"]),
        st.sampled_from([A, B, C]),
        st.sampled_from([0.0, 0.3, 5.0]),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_no_request_is_ever_lost(steps):
    """Whatever is interleaved: each key asked for gets a turn that begins after the asking, and never two at once."""

    async def scenario():
        queue = Queue(Even())
        wanted: set[ObjectKey] = set()
        working: list[ObjectKey] = []
        for verb, key, seconds in steps:
            match verb:
                case "add":
                    queue.add(key)
                    wanted.add(key)
                case "add_at":
                    queue.add_at(key, now() + seconds)
                    wanted.add(key)
                case "take" if (taken := queue.take()) is not None:
                    assert taken not in working
                    working.append(taken)
                    wanted.discard(taken)
                case "done" if working:
                    queue.done(working.pop(0))
                case "failed" if working:
                    wanted.add(working[0])
                    queue.failed(working.pop(0))
                case "wait":
                    await asyncio.sleep(seconds)
        for key in working:
            queue.done(key)
        while wanted:
            taken = await asyncio.wait_for(queue.next(), 600)
            wanted.discard(taken)
            queue.done(taken)

    in_virtual_time(scenario())
