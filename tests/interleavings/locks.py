"""The locks as they stand in Redis, read past the package."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fakeredis


__all__ = ["Locks", "Record", "look", "wipe"]

_KEY = re.compile(rb"^[^{]*\{(?P<digest>[^}]*)\}:(?P<kind>queue|run|superseded)$")


@dataclass(frozen=True, slots=True)
class Record:
    """A holder: ``o:<id>`` in the hash of a lock."""

    since_ms: int
    touched_ms: int
    deadline_ms: int
    state: str
    token: str

    @property
    def enqueued_as(self) -> str:
        """The enqueue that a queue lock was left to last, whether or not its message has started since."""
        first, _, second = self.token.partition(" ")
        return second if first.startswith("-") else first[1:]


@dataclass(frozen=True, slots=True)
class Locks:
    """All locks at one moment, each by its digest.

    Args:
        queue: Holders of the queue lock, by ``message_id``.
        run: Holders of the run lock, by ``message_id``.
        superseded: Who took whose place.
        lasting: The keys without an expiry.
    """

    queue: Mapping[str, Mapping[str, Record]]
    run: Mapping[str, Mapping[str, Record]]
    superseded: Mapping[str, Mapping[str, str]]
    lasting: frozenset[str]

    def alive(self, kind: str, message_id: str, now_ms: int) -> Record | None:
        """Find the record of a message whose deadline has not passed."""
        for holders in (self.queue if kind == "queue" else self.run).values():
            record = holders.get(message_id)
            if record is not None and record.deadline_ms > now_ms:
                return record
        return None


def look(server: fakeredis.FakeServer) -> Locks:
    """Read all locks without a command, so that nothing is touched and no time is lost."""
    found: dict[str, dict[str, dict[str, Any]]] = {"queue": {}, "run": {}, "superseded": {}}
    lasting = set()
    database: Any = server.dbs[0]
    for key, item in database.items():
        match = _KEY.match(key)
        assert match, f"an unknown key: {key!r}"
        fields = {name.decode(): value.decode() for name, value in item.value.items()}
        digest, kind = match["digest"].decode(), match["kind"].decode()
        found[kind][digest] = fields if kind == "superseded" else _holders(fields)
        if item.expireat is None:
            lasting.add(key.decode())
    return Locks(found["queue"], found["run"], found["superseded"], frozenset(lasting))


def wipe(server: fakeredis.FakeServer) -> None:
    """Empty the server, which stays: a Lua interpreter for each world would take most of the time."""
    client = fakeredis.FakeRedis(server=server)
    client.flushall()
    client.script_flush()


def _holders(fields: Mapping[str, str]) -> dict[str, Record]:
    holders = {}
    for name, value in fields.items():
        if name.startswith("o:"):
            since, touched, deadline, state, token = value.split(" ", 4)
            since_ms = int(since)
            holders[name[2:]] = Record(since_ms, since_ms + int(touched), since_ms + int(deadline), state, token)
    return holders
