"""Groups: a message that will not run counts as done in its group, or the group would never complete."""

from typing import Any

from dramatiq import Broker, Message
from dramatiq.broker import MessageProxy
from dramatiq.middleware import GroupCallbacks

from dramatiq_unique.deliveries import Deliveries
from dramatiq_unique.journal import Journal


__all__ = ["Groups"]


class Groups:
    """The groups whose messages go through one broker.

    Arguments:
        broker: The broker; its :class:`~dramatiq.middleware.GroupCallbacks` count.
        deliveries: Knows who is sending.
        journal: Where facts are told.
    """

    def __init__(self, broker: Broker, deliveries: Deliveries, journal: Journal) -> None:
        self._broker = broker
        self._deliveries = deliveries
        self._journal = journal

    def count_as_done(self, message: Message[Any] | MessageProxy) -> None:
        """Count a message that will not run as done in its group, so that the completion callbacks fire."""
        if not message.options.get("group_completion_uuid"):
            return
        for middleware in self._broker.middleware:
            if isinstance(middleware, GroupCallbacks):
                try:
                    with self._deliveries.as_dramatiq():
                        middleware.after_process_message(self._broker, message)
                except Exception as exc:  # noqa: BLE001 - as Dramatiq does when the same hook raises after a run
                    self._journal.complain("group_not_counted", exc, message_id=message.message_id)
