"""Send one e-mail a day: a user who signs in five times today gets one summary.

    python examples/daily_email.py

`until_expired` opens a window when the message is enqueued. Nothing but time closes it: neither the run, nor a
failure. The window is `lock_ttl` long, here 24 hours from the first sign-in. For one a calendar day, let the day count:
`lock_args_method=lambda user_id, sign_in: [user_id, date.today().isoformat()]`.

On a Redis of yours (`DRAMATIQ_UNIQUE_URL`) the window outlives the example: run again today, it mails nobody.
"""

from datetime import timedelta

import dramatiq
import setting

from dramatiq_unique import UniqueMiddleware, outcome


broker, client = setting.start()
broker.add_middleware(UniqueMiddleware(client))
dramatiq.set_broker(broker)

mails: list[str] = []


@dramatiq.actor(lock="until_expired", lock_ttl=timedelta(days=1), lock_args=["user_id"])
def mail_summary(user_id: str, sign_in: str) -> None:
    """Mail the summary; `sign_in` does not count in the lock."""
    mails.append(user_id)
    print(f"  mailed {user_id}, who signed in at {sign_in}")


def sign_in(user_id: str, at: str) -> None:
    """Do what the web request would do."""
    message = mail_summary.send(user_id, at)
    print(f"  {user_id} signs in at {at}: {outcome(message).action}")


def main() -> None:
    """Two users sign in before the worker has run, and again after it."""
    for user_id, at in (("ada", "08:00"), ("ada", "08:01"), ("bob", "08:02")):
        sign_in(user_id, at)
    setting.work(broker)
    for user_id, at in (("ada", "12:00"), ("bob", "17:30")):
        sign_in(user_id, at)
    print(f"5 sign-ins, {len(mails)} mails: {', '.join(sorted(mails))}")


if __name__ == "__main__":
    main()
