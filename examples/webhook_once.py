"""Handle a webhook once: the provider delivers an event again and again until it has an answer it likes.

    python examples/webhook_once.py

`until_executed` holds the lock from enqueue until the actor has succeeded, through every retry on the way. What
counts is the event's id: the provider's deliveries differ in their attempt number.

An event that arrives again *after* it was handled is a new message. Where that happens, remember the handled ids in
your database, or take `until_expired` with a `lock_ttl` as long as the provider keeps trying.
"""

from typing import Any

import dramatiq
import setting

from dramatiq_unique import UniqueMiddleware, outcome


broker, client = setting.start()
broker.add_middleware(UniqueMiddleware(client))
dramatiq.set_broker(broker)

handled: list[str] = []
tries: list[str] = []


def event_id(event: dict[str, Any]) -> str:
    """Say what makes two deliveries the same."""
    return str(event["id"])


@dramatiq.actor(lock="until_executed", lock_args_method=event_id)
def handle_event(event: dict[str, Any]) -> None:
    """Book the payment; the first try of all meets a database that is away."""
    tries.append(event["id"])
    if len(tries) == 1:
        receive(event["id"], attempt=3)  # The provider is impatient, and tries again right now.
        raise dramatiq.errors.Retry("the database is away", delay=100)
    handled.append(event["id"])
    print(f"  handled {event['id']}")


def receive(event: str, attempt: int) -> None:
    """Do what the web request would do: answer at once, and leave the work to the queue."""
    message = handle_event.send({"id": event, "attempt": attempt})
    print(f"  {event}, attempt {attempt}: {outcome(message).action}")


def main() -> None:
    """Deliver one event three times, the last time while its first run fails, and another event once."""
    receive("evt_1", attempt=1)
    receive("evt_1", attempt=2)
    receive("evt_2", attempt=1)
    setting.work(broker)
    print(f"4 deliveries, {len(tries)} tries, handled once each: {', '.join(sorted(handled))}")


if __name__ == "__main__":
    main()
