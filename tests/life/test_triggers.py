"""C20: what people use until_and_while_executing for."""

import threading
import time

from tests.rig import Rig, Runs, eventually


def test_the_last_trigger_is_followed_by_a_run_that_started_after_it(rig: Rig) -> None:
    """Triggers come faster than the work: never two running, never two waiting, and no trigger is lost."""
    runs = Runs()
    starts_s: list[float] = []
    most_waiting = 0
    last_trigger_s = 0.0

    def work() -> None:
        with runs.of():
            starts_s.append(time.monotonic())
            threading.Event().wait(0.12)

    actor = rig.actor(work, lock="until_and_while_executing", reschedule_delay=0.02)
    rig.start()
    for _ in range(40):
        last_trigger_s = time.monotonic()
        actor.send()
        most_waiting = max(most_waiting, len(rig.holders("queue")))
        threading.Event().wait(0.03)
    rig.join()

    assert runs.most_at_once == 1
    assert most_waiting == 1
    eventually(lambda: len(runs.started) == len(runs.ended))
    assert starts_s[-1] > last_trigger_s
    assert 2 < len(runs.ended) < 40
    assert rig.lock_keys() == []
