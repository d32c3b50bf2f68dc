"""Around ``broker.flush``: the locks of the messages that it drops are freed."""

from dramatiq import Broker

from dramatiq_unique.brokers import BrokerAdapter
from dramatiq_unique.claims import Claims
from dramatiq_unique.holding import Holding
from dramatiq_unique.journal import Journal


__all__ = ["Flush"]


class Flush:
    """The wrapper of one broker's ``flush``, which Dramatiq tells no middleware of; ``flush_all`` goes through it.

    The locks go first: what is sent in between loses its message to the flush, and then its lock as any orphan does.

    Arguments:
        broker: The broker; its instance attribute ``flush`` is replaced.
        adapter: Knows what is in its queues.
        claims: Knows what messages hold.
        holding: Lets go.
        journal: Where it is said that a flush went on without letting go.
    """

    def __init__(
        self, broker: Broker, adapter: BrokerAdapter, claims: Claims, holding: Holding, journal: Journal
    ) -> None:
        self._flush = broker.flush
        self._adapter = adapter
        self._claims = claims
        self._holding = holding
        self._journal = journal
        broker.flush = self.flush  # type: ignore[method-assign]

    def flush(self, queue_name: str) -> None:
        """Drop all the messages from a queue, as the broker's own ``flush`` does, and free their locks."""
        try:
            for message in self._adapter.flushed(queue_name):
                claim = self._claims.to_let_go(message)
                if claim is not None and claim.ticket.held:
                    # Else a send that took its place, and cannot be stored, would give the lock back to it.
                    self._holding.forget(claim, message.message_id)
                    self._holding.let_go(claim, message, None, queue=True, run=False, flushed=True)
        except Exception as exc:  # noqa: BLE001 - the broker's own flush will say what is wrong
            self._journal.complain("flushed_with_locks", exc, queue_name=queue_name)
        self._flush(queue_name)
