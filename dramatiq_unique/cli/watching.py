"""The command that goes on looking: ``watch``."""

from __future__ import annotations

import argparse
import heapq
import time
from collections import Counter
from collections.abc import Iterator

from dramatiq_unique.cli.exits import Exit
from dramatiq_unique.cli.screen import Screen
from dramatiq_unique.cli.site import Site
from dramatiq_unique.cli.table import row_of
from dramatiq_unique.cli.wording import counted
from dramatiq_unique.locks import Lock, LockHolder


__all__ = ["watch"]

_Key = tuple[str, str, str, int]


def watch(site: Site, screen: Screen, arguments: argparse.Namespace) -> Exit:
    """Watch the locks until somebody ends it: the oldest holders, or the changes as JSON."""
    looks = _Looks(site, screen, arguments)
    if screen.as_json:
        return _changes(looks, screen)
    return _oldest(looks, screen, site.name)


class _Looks:
    """Looks at all locks again and again.

    Arguments:
        site: Where the locks are.
        screen: Where a key that cannot be read is told.
        arguments: Which locks, how often, how many times.
    """

    def __init__(self, site: Site, screen: Screen, arguments: argparse.Namespace) -> None:
        self._site = site
        self._screen = screen
        self._arguments = arguments
        self._told: set[str] = set()

    def each(self) -> Iterator[Iterator[tuple[Lock, LockHolder]]]:
        """Give each look, with a pause between two."""
        looked = 0
        while True:
            yield self._look()
            looked += 1
            if looked == self._arguments.times:
                return
            time.sleep(self._arguments.every)

    def _look(self) -> Iterator[tuple[Lock, LockHolder]]:
        pattern = "*" if self._arguments.pattern is None else self._arguments.pattern
        for lock in self._site.locks.iter(pattern, queue=self._arguments.queue):
            if lock.unreadable is not None and self._screen.as_json and lock.digest not in self._told:
                self._told.add(lock.digest)
                self._screen.complain(lock.unreadable)
            yield from ((lock, holder) for holder in lock.holders)


def _oldest(looks: _Looks, screen: Screen, where: str) -> Exit:
    """Show those who have had a lock for longest, and how many there are, in constant memory."""
    with screen.live() as update:
        for look in looks.each():
            states: Counter[str] = Counter()
            oldest = heapq.nsmallest(screen.height, _counted(look, states), key=lambda found: found[1].since_ms)
            told = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
            at = time.strftime("%H:%M:%S")
            headline = f"{at}  {counted(sum(states.values()), 'holder')} in Redis {where}{': ' if told else ''}{told}"
            # A new one each time: the terminal may have another size by now.
            update(headline, screen.table(), [row_of(lock, holder) for lock, holder in oldest])
    return Exit.DONE


def _counted(look: Iterator[tuple[Lock, LockHolder]], states: Counter[str]) -> Iterator[tuple[Lock, LockHolder]]:
    for lock, holder in look:
        states[holder.state] += 1
        yield lock, holder


def _changes(looks: _Looks, screen: Screen) -> Exit:
    """Tell who holds a lock that did not, whose state changed, and who holds it no more."""
    before: dict[_Key, str] = {}
    for look in looks.each():
        now: dict[_Key, str] = {}
        for lock, holder in look:
            key = (lock.digest, holder.kind, holder.message_id, holder.since_ms)
            now[key] = holder.state
            if before.get(key) != holder.state:
                change = "changed" if key in before else "held"
                screen.json(
                    {"change": change, "digest": lock.digest, "read_ms": lock.read_ms, "holder": holder.as_dict()}
                )
        for digest, kind, message_id, since_ms in before.keys() - now.keys():
            who = {"kind": kind, "message_id": message_id, "since_ms": since_ms}
            screen.json({"change": "gone", "digest": digest, "read_ms": None, "holder": who})
        before = now
    return Exit.DONE
