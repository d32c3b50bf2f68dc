"""Serialize per account: bookings of one account run one by one, those of another alongside.

    python examples/per_account.py

`while_executing` refuses nothing: every booking is queued, and every booking runs. Its lock is taken by the worker,
just before the actor runs. `lock_timeout` is how long a worker thread waits for it; after that, the booking goes back
into the queue for `reschedule_delay`. Which of the waiting ones comes next is not promised.
"""

import threading
import time
from collections import Counter

import dramatiq
import setting

from dramatiq_unique import UniqueMiddleware


broker, client = setting.start()
broker.add_middleware(UniqueMiddleware(client))
dramatiq.set_broker(broker)

balances = {"ada": 0, "bob": 0}
running: Counter[str] = Counter()
most_at_once: Counter[str] = Counter()
gate = threading.Lock()


@dramatiq.actor(lock="while_executing", lock_args=["account"], lock_timeout=20)
def book(account: str, amount: int) -> None:
    """Read a balance, think, and write it: what two at once would get wrong."""
    enter(account)
    balance = balances[account]
    time.sleep(0.05)  # The thinking.
    balances[account] = balance + amount
    leave(account)


def enter(account: str) -> None:
    """Note that one more booking runs."""
    with gate:
        running[account] += 1
        for name in (account, "in all"):
            now = running.total() if name == "in all" else running[account]
            most_at_once[name] = max(most_at_once[name], now)


def leave(account: str) -> None:
    """Note that one booking less runs."""
    with gate:
        running[account] -= 1


def main() -> None:
    """Book ten times on each of two accounts, with four worker threads."""
    for amount in range(1, 11):
        book.send("ada", amount)
        book.send("bob", amount)
    setting.work(broker, threads=4)
    for account, balance in balances.items():
        print(f"  {account}: at most {most_at_once[account]} at once, balance {balance}")
    print(f"20 bookings, {sum(balances.values())} in all, at most {most_at_once['in all']} at once")


if __name__ == "__main__":
    main()
