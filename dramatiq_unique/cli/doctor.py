"""The command that checks: ``doctor``. One line for each check: how it stands, and what to do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dramatiq_unique.cli.exits import Exit
from dramatiq_unique.cli.findings import Finding, of_server
from dramatiq_unique.cli.screen import Screen
from dramatiq_unique.cli.site import Site
from dramatiq_unique.cli.wording import counted
from dramatiq_unique.store import Holder, Sighting


__all__ = ["doctor"]

_NAMED = 3


def doctor(site: Site, screen: Screen, _arguments: argparse.Namespace) -> Exit:
    """Check the server, and then the locks."""
    worst = Exit.DONE
    for finding in _findings(site, screen):
        if screen.as_json:
            screen.json(finding.as_dict())
        else:
            advice = f"; {finding.advice}" if finding.advice else ""
            screen.say(f"{finding.verdict:<8} {finding.check:<12} {finding.found}{advice}")
        if finding.verdict == "fault":
            worst = Exit.NO
    return worst


def _findings(site: Site, screen: Screen) -> Iterator[Finding]:
    for server in site.inspection.servers():
        yield from of_server(server, site.name)
    unexpiring = _Some()
    with screen.progress(site.inspection.count, "Looking for keys without an expiry") as advance:
        for key in site.inspection.unexpiring(on_page=advance):
            unexpiring.add(repr(key))
    yield unexpiring.finding(
        "expiry",
        good="every key has one",
        bad="without one, which would stay for ever",
        advice="we write none like that: look at it with redis-cli, and delete it or give it an expiry",
    )
    yield from _of_locks(site, screen)


def _of_locks(site: Site, screen: Screen) -> Iterator[Finding]:
    """Look for keys that cannot be read, and for holders whose message is gone."""
    spoilt, gone, holders = _Some(), _Some(), 0
    with screen.progress(site.inspection.count, "Looking at the locks") as advance:
        for seen in site.inspection.walk(on_page=advance):
            holders += len(seen.holders)
            if seen.unreadable is not None:
                spoilt.add(seen.unreadable.partition(";")[0])
            for holder in seen.queue:
                if _is_gone(site, seen, holder):
                    gone.add(f"{seen.digest} by message {holder.message_id}")
    yield spoilt.finding(
        "content",
        good=f"every key can be read, and {counted(holders, 'holder')} found",
        bad="that somebody else wrote into",
        advice="look at it with redis-cli, and delete it",
    )
    if site.parts is None:
        yield Finding("messages", "skipped", "whether the holders' messages exist", "only a broker knows: --broker")
    elif not site.parts.adapter.can_say:
        yield Finding("messages", "skipped", "this broker cannot be asked whether a message exists")
    else:
        yield gone.finding(
            "messages",
            good="every holder's message is in the broker",
            bad="held by a message that is gone from the broker",
            advice="the next send takes it over; or free it with release",
            what="lock",
            verdict="warning",
        )


def _is_gone(site: Site, seen: Sighting, holder: Holder) -> bool:
    """Ask the broker, as a send that finds this holder in its way would."""
    return site.parts is not None and site.parts.orphans.is_orphan(holder, seen.unseen_ms(holder))


class _Some:
    """How many there are of what is not in order, and the first few of them."""

    def __init__(self) -> None:
        self._count = 0
        self._first: list[str] = []

    def add(self, what: str) -> None:
        """Count one."""
        self._count += 1
        if self._count <= _NAMED:
            self._first.append(what)

    def finding(
        self, check: str, *, good: str, bad: str, advice: str, what: str = "key", verdict: str = "fault"
    ) -> Finding:
        """Say how it stands."""
        if not self._count:
            return Finding(check, "ok", good)
        first = ", ".join(self._first) + (", …" if self._count > _NAMED else "")
        return Finding(check, verdict, f"{counted(self._count, what)} {bad}: {first}", advice)
