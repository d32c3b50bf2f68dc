"""The commands that look: ``list``, ``show``, ``explain``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dramatiq_unique.cli.exits import Exit, Stop
from dramatiq_unique.cli.screen import Screen
from dramatiq_unique.cli.site import Site
from dramatiq_unique.cli.table import Row, row_of
from dramatiq_unique.cli.wording import counted, moment
from dramatiq_unique.explanation import span
from dramatiq_unique.locks import Lock, LockHolder


__all__ = ["Listing", "check_named", "explain", "list_locks", "named", "nothing_matches", "show"]

_STATES = {
    "waiting": "waits in its queue",
    "running": "runs",
    "unstored": "is about to be in the broker",
    "window": "keeps the lock, whatever became of the message",
}


class Listing:
    """A walk over the locks that match, which counts what it meets.

    Arguments:
        site: Where the locks are.
        screen: Where a key that cannot be read is told.
    """

    def __init__(self, site: Site, screen: Screen) -> None:
        self._site = site
        self._screen = screen
        self.locks = 0
        self.holders = 0
        self.unreadable = 0

    def walk(self, pattern: str | None, queue: str | None, what: str) -> Iterator[Lock]:
        """Walk them, in constant memory.

        Arguments:
            pattern: The glob.
            queue: Only holders on this queue.
            what: What is done with them, for the progress bar.
        """
        with self._screen.progress(self._site.inspection.count, what) as advance:
            for lock in self._site.locks.iter("*" if pattern is None else pattern, queue=queue, on_page=advance):
                if lock.unreadable is not None:
                    self.unreadable += 1
                    self._screen.complain(lock.unreadable)
                self.locks += bool(lock.holders)
                self.holders += len(lock.holders)
                yield lock

    @property
    def exit(self) -> Exit:
        """How a command ends that has met these."""
        return Exit.UNREADABLE if self.unreadable else Exit.DONE


def list_locks(site: Site, screen: Screen, arguments: argparse.Namespace) -> Exit:
    """List who holds which lock."""
    table, listing = screen.table_for_people(), Listing(site, screen)
    locks = listing.walk(arguments.pattern, arguments.queue, "Looking at the locks")
    if table is None:
        for lock in locks:
            screen.json(lock.as_dict())
    else:
        screen.rows(table, rows_of(locks))
    if not (listing.locks or listing.unreadable) and (arguments.pattern is not None or arguments.queue is not None):
        raise nothing_matches(site, arguments.pattern, arguments.queue)
    if table is not None:
        screen.note(f"{counted(listing.holders, 'holder')} of {counted(listing.locks, 'lock')} in Redis {site.name}")
    return listing.exit


def rows_of(locks: Iterator[Lock]) -> Iterator[Row]:
    """Write down each holder of some locks."""
    for lock in locks:
        for holder in lock.holders:
            yield row_of(lock, holder)


def nothing_matches(site: Site, pattern: str | None, queue: str | None) -> Stop:
    """Say that no lock matches."""
    what = "" if pattern is None else f" matches {pattern!r}"
    where = "" if queue is None else f" on queue {queue!r}"
    return Stop(
        f"no lock{what}{where} in Redis {site.name} with prefix {site.prefix!r}; a pattern is a glob, compared with "
        "the whole name of the actor and with the whole digest",
        Exit.NO,
    )


def check_named(arguments: argparse.Namespace) -> None:
    """Check that the arguments name a lock.

    Raises:
        Stop: They name none, or several.
    """
    if arguments.actor is None and (len(arguments.what) != 1 or arguments.kwargs is not None):
        raise Stop("name one digest, or an actor and its arguments: --actor ship_order 7", Exit.USAGE)


def named(site: Site, arguments: argparse.Namespace) -> Lock:
    """Look up the lock that is named by its digest, or by actor and arguments.

    Raises:
        Stop: Nobody holds it, or nothing is named.
    """
    if arguments.actor is not None:
        call = site.call(arguments.actor, arguments.what, arguments.kwargs)
        lock = site.locks.find(call.actor, *call.args, **call.kwargs)
        if lock is None:
            raise Stop(
                f"nobody holds a lock of such a message of actor {arguments.actor!r}; explain says what it asks for",
                Exit.NO,
            )
        return lock
    check_named(arguments)
    [digest] = arguments.what
    lock = site.locks.get(digest)
    if lock is None:
        raise Stop(
            f"nobody holds lock {digest!r} in Redis {site.name} with prefix {site.prefix!r}: it is free, or no digest; "
            "dramatiq-unique list has those that are held",
            Exit.NO,
        )
    return lock


def show(site: Site, screen: Screen, arguments: argparse.Namespace) -> Exit:
    """Show all that is known of one lock."""
    lock = named(site, arguments)
    if screen.as_json:
        screen.json(lock.as_dict())
        return Exit.DONE
    screen.say(f"digest   {lock.digest}")
    screen.say(f"held by  {counted(len(lock.holders), 'holder')}")
    for holder in lock.holders:
        screen.say()
        for title, value in described(lock, holder):
            screen.say(f"{title:<9}{value}")
    return Exit.DONE


def described(lock: Lock, holder: LockHolder) -> Iterator[tuple[str, str]]:
    """Describe a holder, field by field."""
    delayed = ", delayed" if holder.delayed else ""
    yield "message", holder.message_id
    yield "actor", holder.actor_name
    yield "queue", holder.queue_name
    yield "lock", "queue lock, held by the message" if holder.kind == "queue" else "run lock, held by this delivery"
    yield "state", f"{_STATES[holder.state]}{delayed}"
    yield "process", f"{holder.host} (pid {holder.pid})"
    yield "since", f"{moment(holder.since_ms)}, {span(lock.read_ms - holder.since_ms)} ago"
    yield "seen", f"{moment(holder.seen_ms)}, {span(lock.read_ms - holder.seen_ms)} ago"
    yield "until", f"{moment(holder.until_ms)}, in {span(holder.until_ms - lock.read_ms)}, unless it is renewed"
    if holder.args is not None:
        yield "args", holder.args


def explain(site: Site, screen: Screen, arguments: argparse.Namespace) -> Exit:
    """Say what would happen to a message, and because of whom."""
    call = site.call(arguments.actor, arguments.what, arguments.kwargs)
    explanation = site.locks.explain(call.actor, *call.args, **call.kwargs)
    if screen.as_json:
        screen.json(explanation.as_dict())
    else:
        screen.say(explanation.reason)
        if explanation.digest is not None:
            screen.say(f"digest   {explanation.digest}")
    return Exit.DONE if explanation.action in ("enqueued", "replaced") else Exit.NO
