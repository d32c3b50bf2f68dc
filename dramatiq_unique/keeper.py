"""The one thread of a worker process that keeps what runs locked.

It renews every lease of the process in one pipelined call at a third of the shortest of them, so a lease is missed
only by a process that is dead, stopped, or cut off from Redis for two thirds of it. It does nothing else, and calls
nobody's code but subscribers': what has to be made good has a thread of its own (:mod:`dramatiq_unique.backlog`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dramatiq_unique.background import Background
from dramatiq_unique.store import Lease


__all__ = ["Keeper"]


class Keeper(Background):
    """Renews leases.

    Arguments:
        renew: Renews leases in one call and tells for each whether it was kept, or why that could not be done.
        on_lost: Told of each lease that was lost; it is not renewed again.
        on_error: Told of leases that could not be renewed, and why.
    """

    def __init__(
        self,
        renew: Callable[[Sequence[Lease]], Sequence[bool | Exception]],
        on_lost: Callable[[Lease], object],
        on_error: Callable[[Sequence[Lease], Exception], object],
    ) -> None:
        self._renew = renew
        self._on_lost = on_lost
        self._on_error = on_error
        super().__init__("keeper")

    def _reset(self) -> None:
        super()._reset()
        self._leases: dict[Lease, None] = {}
        self._paces_s: dict[
            float, None
        ] = {}  # In which the thread looks by itself, whether or not there is a lease now.

    def hold(self, lease: Lease) -> None:
        """Renew a lease from now on."""
        self.start()
        self._leases[lease] = None
        # To wake the thread costs a job more than all else that is done for it here, so that is done only where it
        # would not look in time. The lease is noted before, since `_work` looks in the other order.
        if _pace_s(lease) not in self._paces_s:
            self._paces_s[_pace_s(lease)] = None
            self._ring()

    def drop(self, lease: Lease) -> None:
        """Renew a lease no longer."""
        self._forget_parent()
        self._leases.pop(lease, None)

    def _every_s(self) -> float | None:
        return min([*self._paces_s, *map(_pace_s, list(self._leases))], default=None)

    def _work(self) -> None:
        self._paces_s.clear()
        leases = list(self._leases)
        self._paces_s.update(dict.fromkeys(map(_pace_s, leases)))
        if not leases:
            return
        try:
            kept = self._renew_or_again(leases)
        except Exception as exc:  # noqa: BLE001 - the one thread that keeps every lock survives whatever one call raises
            self._on_error(leases, exc)
            return
        for lease, was_kept in zip(leases, kept, strict=True):
            if isinstance(was_kept, Exception):
                self._on_error([lease], was_kept)
            # Where it was let go in the meantime, it was not lost.
            elif not was_kept and self._leases.pop(lease, lease) is None:
                self._on_lost(lease)

    def _renew_or_again(self, leases: Sequence[Lease]) -> Sequence[bool | Exception]:
        """Try twice: a connection that had died unnoticed is another by then, and the next pace may be too late."""
        try:
            return self._renew(leases)
        except Exception:  # noqa: BLE001 - if it is more than that, it is raised again
            return self._renew(leases)


def _pace_s(lease: Lease) -> float:
    """Say how often a lease is renewed, in seconds."""
    return lease.lease_ms / 3000
