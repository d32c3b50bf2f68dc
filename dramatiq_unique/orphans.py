"""Holders whose message is gone: found by asking the broker, one at a time, when somebody needs their lock.

There is no sweeper and no scan. A holder that was seen a moment ago is believed: its message may be on its way into the
broker, or between two queues.
"""

from dramatiq_unique import events
from dramatiq_unique.brokers import BrokerAdapter
from dramatiq_unique.claim import Claim
from dramatiq_unique.journal import Journal
from dramatiq_unique.store import Held, Holder, RedisStore


__all__ = ["Orphans"]

_BELIEVED_MS = 5000


class Orphans:
    """Asks after holders.

    Arguments:
        store: The locks.
        adapter: The broker that is asked.
        journal: Where facts are told.
        lease_ms: The lease of a run lock, in milliseconds.
    """

    def __init__(self, store: RedisStore, adapter: BrokerAdapter, journal: Journal, lease_ms: int) -> None:
        self._store = store
        self._adapter = adapter
        self._journal = journal
        self._lease_ms = lease_ms

    def found(self, claim: Claim, held: Held) -> bool:
        """Tell whether a holder in the way is an orphan.

        A holder whose message exists is marked as seen, so that its broker is not asked again for a while, and
        another holder of the same lock is asked after next.

        Arguments:
            claim: What the message in hand asks for.
            held: Who is in the way.

        Raises:
            LockStoreUnavailable: The store cannot be reached.
        """
        if not self._may_be_gone(held.holder, held.unseen_ms):
            return False
        exists = self._exists(held.holder)
        if exists:
            self._store.keep(claim.ticket.digest, held.holder.message_id, 0)
        return exists is False

    def is_orphan(self, holder: Holder, unseen_ms: int) -> bool:
        """Tell whether a holder would be found to be an orphan, marking nothing.

        Arguments:
            holder: Who is in the way.
            unseen_ms: How long ago it was last seen, in milliseconds.
        """
        return self._may_be_gone(holder, unseen_ms) and self._exists(holder) is False

    def is_stored(self, holder: Holder) -> bool:
        """Tell whether the message of a holder is in the broker by now, so that another may rely on it."""
        exists = self._exists(holder)
        return holder.state != "n" if exists is None else exists

    def _may_be_gone(self, holder: Holder, unseen_ms: int) -> bool:
        # A run lock has its lease instead, and a window outlives its message.
        return holder.vouched_for_by_its_message and unseen_ms >= self._believed_ms(holder)

    def _believed_ms(self, holder: Holder) -> int:
        # What runs is seen at each renewal, even where its body was flushed.
        return max(_BELIEVED_MS, self._lease_ms) if holder.state == "r" else _BELIEVED_MS

    def _exists(self, holder: Holder) -> bool | None:
        answers = [self._adapter.exists(*place) for place in holder.places]
        return True if True in answers else None if None in answers or not answers else False

    def reclaimed(self, claim: Claim, held: Held) -> None:
        """Say that the lock of an orphan was taken over."""
        self._journal.tell(events.Reclaimed(**claim.facts(), holder_id=held.holder.message_id))
