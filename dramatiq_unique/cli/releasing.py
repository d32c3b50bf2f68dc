"""The command that lets go: ``release``. Nothing is released that was not shown, unless ``--yes`` says so."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dramatiq_unique import LockStoreUnavailable
from dramatiq_unique.cli.exits import Exit, Stop
from dramatiq_unique.cli.looking import Listing, check_named, named, nothing_matches
from dramatiq_unique.cli.screen import Screen
from dramatiq_unique.cli.site import Site
from dramatiq_unique.cli.table import Row, Table, row_of
from dramatiq_unique.cli.troubles import in_words
from dramatiq_unique.cli.wording import counted
from dramatiq_unique.locks import Lock, LockHolder


__all__ = ["release"]

_WHAT_IT_MEANS = "A message that waits stays in its queue, and one that runs goes on; another copy may run beside it."


def release(site: Site, screen: Screen, arguments: argparse.Namespace) -> Exit:
    """Free a lock by hand, or several by a pattern.

    Raises:
        Stop: There is nothing to release, or nobody agreed.
    """
    _check(arguments)
    table, listing = screen.table_for_people(), Listing(site, screen)
    locks = _chosen(site, listing, arguments)
    releasing = _Releasing(site, screen, table)
    try:
        if arguments.yes and not arguments.dry_run:
            releasing.let_go(locks)
        else:
            seen = releasing.shown(locks, prospect=arguments.dry_run)
            if releasing.held and not arguments.dry_run:
                _ask(screen, releasing.held)
                releasing.let_go(seen)
    except KeyboardInterrupt:
        raise Stop(f"interrupted; {releasing.so_far}", Exit.INTERRUPTED) from None
    if releasing.held == 0 and not listing.unreadable:
        raise nothing_matches(site, arguments.pattern, arguments.queue)
    return releasing.exit(dry_run=arguments.dry_run) or listing.exit


def _check(arguments: argparse.Namespace) -> None:
    if arguments.pattern is not None and (
        arguments.what or arguments.actor or arguments.message_id or arguments.kwargs
    ):
        raise Stop("--pattern goes with no digest, no --actor and no --message-id; keep one of them", Exit.USAGE)
    if arguments.pattern is None and arguments.queue is not None:
        raise Stop("--queue goes with --pattern; every lock of a queue is --pattern '*' --queue NAME", Exit.USAGE)
    if arguments.pattern is None:
        check_named(arguments)
    if not (arguments.yes or arguments.dry_run or _somebody_answers()):
        raise Stop("nothing was released: there is no terminal to ask on; say --yes, or --dry-run", Exit.USAGE)


def _somebody_answers() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _chosen(site: Site, listing: Listing, arguments: argparse.Namespace) -> Iterator[Lock]:
    if arguments.pattern is not None:
        yield from listing.walk(arguments.pattern, arguments.queue, "Looking for locks to release")
        return
    lock = named(site, arguments)
    wanted = arguments.message_id
    holders = tuple(holder for holder in lock.holders if wanted in (None, holder.message_id))
    if not holders:
        raise Stop(f"message {wanted!r} does not hold lock {lock.digest!r}; nothing was released", Exit.NO)
    yield replace(lock, holders=holders)


def _ask(screen: Screen, held: int) -> None:
    screen.note(_WHAT_IT_MEANS)
    answer = screen.asked(f"Release {counted(held, 'holder')}? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise Stop("nothing was released", Exit.NO)


class _Releasing:
    """Shows what would be released, and releases it.

    Arguments:
        site: Where the locks are.
        screen: Where it is shown.
        table: How, unless it is as JSON.
    """

    def __init__(self, site: Site, screen: Screen, table: Table | None) -> None:
        self._site = site
        self._screen = screen
        self._table = table
        self.held = 0
        self.released = 0

    def shown(self, locks: Iterable[Lock], *, prospect: bool) -> list[Lock]:
        """Show what would be released.

        Arguments:
            locks: Where it is held.
            prospect: Whether that is all that is wanted, so that a program is told too.

        Returns:
            What was shown, so that nothing else is released; none for a prospect.
        """
        kept: list[Lock] = []

        def rows() -> Iterator[Row]:
            for lock in locks:
                self.held += len(lock.holders)
                if not prospect:
                    kept.append(lock)
                for holder in lock.holders:
                    if prospect and self._table is None:
                        self._tell(lock, holder, released=False)
                    yield row_of(lock, holder)

        if self._table is None:
            for _ in rows():
                pass
        else:
            self._screen.rows(self._table, rows())
        return kept

    def let_go(self, locks: Iterable[Lock]) -> None:
        """Release every holder, as far as it still stands as it was seen.

        Raises:
            Stop: Redis refused; the text says how far it got.
        """
        self.held = 0
        try:
            for lock in locks:
                for holder in lock.holders:
                    self.held += 1
                    gone = bool(self._site.locks.release(replace(lock, holders=(holder,))))
                    self.released += gone
                    if self._table is None:
                        self._tell(lock, holder, released=gone)
        except LockStoreUnavailable as exc:
            raise Stop(f"{in_words(exc, self._site.name)}; {self.so_far}", Exit.REDIS) from exc

    def exit(self, *, dry_run: bool) -> Exit:
        """Say what was done, and how the command ends."""
        if dry_run:
            if self._table is not None:
                self._screen.say(f"Would release {counted(self.held, 'holder')}.")
            return Exit.DONE
        if self._table is not None and self.held:
            rest = self.held - self.released
            changed = f"; {counted(rest, 'other')} had gone or changed meanwhile" if rest else ""
            self._screen.say(f"Released {counted(self.released, 'holder')}{changed}.")
        return Exit.DONE if self.released else Exit.NO

    @property
    def so_far(self) -> str:
        """Say how far it got."""
        return f"{counted(self.released, 'holder')} released before that" if self.released else "nothing was released"

    def _tell(self, lock: Lock, holder: LockHolder, *, released: bool) -> None:
        self._screen.json({"digest": lock.digest, "released": released, "holder": holder.as_dict()})
