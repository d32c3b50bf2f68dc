"""One runs, one waits: ten triggers while a synchronization runs lead to one more run, and no trigger is lost.

    python examples/one_running_one_waiting.py

`until_and_while_executing` is both locks: one message may wait, one may run. The trigger that comes during a run
queues the next one, which starts after that run has ended; so what the last trigger announced is seen by a run that
started after it.
"""

import threading
from collections import Counter

import dramatiq
import setting

from dramatiq_unique import UniqueMiddleware, outcome


broker, client = setting.start()
broker.add_middleware(UniqueMiddleware(client))
dramatiq.set_broker(broker)

pushes: list[str] = []
seen: list[int] = []
first_runs = threading.Event()
all_pushed = threading.Event()


@dramatiq.actor(lock="until_and_while_executing", lock_timeout=20)
def synchronize(repository: str) -> None:
    """Take over every push so far; the first run takes as long as the pushes do."""
    seen.append(len(pushes))
    print(f"  run {len(seen)} of {repository} starts and sees {seen[-1]} pushes")
    first_runs.set()
    all_pushed.wait(setting.PATIENCE_S)
    print("  it ends")


def push(repository: str, commit: str) -> str:
    """Do what the web hook would do, and say what became of the message."""
    pushes.append(commit)
    return outcome(synchronize.send(repository)).action


def main() -> None:
    """Push once, and ten times more while the synchronization runs."""
    with setting.worker(broker):
        push("shop", "c0")
        first_runs.wait(setting.PATIENCE_S)
        became = Counter(push("shop", f"c{n}") for n in range(1, 11))
        print(f"  10 pushes meanwhile: {became['enqueued']} enqueued, {became['discarded']} discarded")
        all_pushed.set()
    print(f"11 pushes, {len(seen)} runs, the last one saw {seen[-1]} pushes")


if __name__ == "__main__":
    main()
