"""What ``doctor`` finds of a server: whether locks are safe there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from dramatiq_unique.store import Server


__all__ = ["Finding", "of_server"]

_OLDEST = (6, 2)
_SLOW_MS = 100
_APART_MS = 5000


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Arguments:
        check: What was checked.
        verdict: ``"ok"``, ``"warning"``, ``"fault"``, or ``"skipped"``: it could not be checked.
        found: How it stands.
        advice: What to do; empty where there is nothing to do.
    """

    check: str
    verdict: str
    found: str
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give it in a form for JSON."""
        return asdict(self)


def of_server(server: Server, name: str) -> Iterator[Finding]:
    """Check one server.

    Arguments:
        server: What it says of itself.
        name: The name of the Redis.
    """
    yield _connection(server, name)
    yield _version(server.info)
    yield _role(server.info)
    yield _eviction(server.info)
    yield _clock(server)
    yield _persistence(server)


def _connection(server: Server, name: str) -> Finding:
    told = f"Redis {name} answers within {server.answer_ms:.0f} ms"
    if server.answer_ms > _SLOW_MS:
        return Finding(
            "connection", "warning", told, "every send waits for it: put it nearer, or see what keeps it busy"
        )
    return Finding("connection", "ok", told)


def _version(info: dict[str, Any]) -> Finding:
    if "valkey_version" in info:
        return Finding("version", "ok", f"Valkey {info['valkey_version']}")
    version = str(info.get("redis_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if len(numbers) < len(_OLDEST):
        return Finding("version", "warning", "the server does not tell its version", "it should be Redis 6.2 or newer")
    if numbers < _OLDEST:
        return Finding("version", "fault", f"Redis {version} is too old", "take 6.2 or newer, or Valkey")
    return Finding("version", "ok", f"Redis {version}")


def _role(info: dict[str, Any]) -> Finding:
    role = info.get("role")
    if role is None:
        return Finding("role", "skipped", "the server does not tell whether it is a replica")
    if role == "master":
        return Finding("role", "ok", "it takes writes")
    return Finding("role", "fault", f"it is a {role}, and takes no locks", "give the address of its master")


def _eviction(info: dict[str, Any]) -> Finding:
    policy, limit = info.get("maxmemory_policy"), int(info.get("maxmemory", 0))
    advice = "locks would be among what it evicts, and second copies get in: set maxmemory-policy noeviction"
    if policy is None:
        return Finding("eviction", "warning", "the server does not tell its policy", "it should be noeviction")
    if policy == "noeviction":
        return Finding("eviction", "ok", "maxmemory-policy noeviction")
    if not limit:
        return Finding("eviction", "warning", f"maxmemory-policy {policy}, though no maxmemory is set", advice)
    return Finding("eviction", "fault", f"maxmemory-policy {policy} with a maxmemory of {limit:,} bytes", advice)


def _clock(server: Server) -> Finding:
    apart_s = abs(server.ahead_ms) / 1000
    uncertain_s = server.answer_ms / 2000
    told = f"{apart_s:.1f} s {'ahead of' if server.ahead_ms > 0 else 'behind'} this host's"
    if apart_s * 1000 - uncertain_s * 1000 > _APART_MS:
        return Finding(
            "clock",
            "warning",
            told,
            "deadlines go by the server's clock, delays of messages by this host's: synchronize them",
        )
    return Finding("clock", "ok", told)


def _persistence(server: Server) -> Finding:
    info = server.info
    bad = [name for name in ("rdb_last_bgsave_status", "aof_last_write_status") if info.get(name, "ok") != "ok"]
    if bad:
        return Finding(
            "persistence", "fault", f"{' and '.join(bad)} failed", "it may refuse writes: look at its log and its disk"
        )
    if int(info.get("aof_enabled", 0)):
        return Finding("persistence", "ok", "it writes an append-only file")
    if server.saves:
        return Finding("persistence", "ok", f"it saves snapshots ({server.saves}); a crash loses the latest locks")
    if server.saves is None:
        return Finding("persistence", "skipped", "the server does not tell whether it saves snapshots")
    return Finding(
        "persistence",
        "warning",
        "it keeps nothing on disk",
        "a restart loses all locks, and second copies get in: set appendonly yes, if that matters to you",
    )
