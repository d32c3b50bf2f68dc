"""A worker taken apart: Dramatiq's own worker code, step by step, so that an interrupt can land at any place in it."""

import builtins
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import redis
from dramatiq import Worker
from dramatiq.common import dq_name
from dramatiq.middleware import TimeLimitExceeded
from dramatiq.worker import ConsumerThread, WorkerThread

import dramatiq_unique
from dramatiq_unique import UniqueMiddleware
from tests.rig import Rig, StubBench


__all__ = ["Desk", "Landing", "leases_kept"]

_PACKAGE = str(Path(dramatiq_unique.__file__).parent) + os.sep
_ONLY_COMPUTE = {
    *("actors", "adapter", "claim", "claims", "digest", "durations", "events", "journal", "options", "records"),
    *("signatures", "strategies", "ticket"),
}
_JOIN_S = 5


class Landing:
    """Raises ``TimeLimitExceeded`` in a thread, once, at the n-th place where CPython could have landed one.

    An exception set by ``PyThreadState_SetAsyncExc`` is raised where the interpreter looks for it: when a function of
    Python's begins, and after a call into C. Places that differ in no side effect are left out: those in modules of the
    package that only compute, and those after built-in functions.

    Args:
        place: Which place, counted from 1.
    """

    def __init__(self, place: int) -> None:
        self._left = place
        self.where = ""

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Count places, and land; a function for :func:`sys.setprofile`."""
        after_c = event == "c_return" and getattr(arg, "__self__", None) is not builtins
        if not (after_c or event == "call") or not self._counts(frame):
            return
        self._left -= 1
        if self._left == 0:
            sys.setprofile(None)
            self.where = f"{event} in {' < '.join(_stack(frame))}"
            raise TimeLimitExceeded

    @staticmethod
    def _counts(frame: FrameType) -> bool:
        """Whether a place is in the package, or in ``threading`` on its behalf."""
        if frame.f_code.co_filename == threading.__file__ and frame.f_back is not None:
            frame = frame.f_back
        path = frame.f_code.co_filename
        return path.startswith(_PACKAGE) and Path(path).stem not in _ONLY_COMPUTE


class Desk:
    """A Stub broker with the middleware on it, and one worker thread at a time.

    Args:
        client: The Redis of the locks, which is emptied.
    """

    def __init__(self, client: "redis.Redis") -> None:
        client.flushdb()
        bench, self.unique = StubBench(), UniqueMiddleware(client, lease=30)
        bench.broker.add_middleware(self.unique)
        self.rig = Rig(bench, self.unique, client)
        self._broker = bench.broker

    def work(self, landing: Landing) -> bool:
        """Work until nothing is left to do, with an interrupt that lands in the first thread that works.

        Returns:
            Whether the message was acknowledged or rejected; false where the thread died before.
        """
        worker = Worker(self._broker, worker_timeout=1, worker_threads=1)
        self._broker.emit_before("worker_boot", worker)
        consumers = {name: self._consumer(worker, name) for name in (self.rig.queue, dq_name(self.rig.queue))}
        thread = WorkerThread(broker=self._broker, consumers=consumers, work_queue=worker.work_queue, worker_timeout=1)
        profile: Callable[..., None] | None = landing.profile
        idle = 0
        while self.rig.pending() and idle < 3:
            _in_a_thread(lambda: self._fetch(consumers))
            if worker.work_queue.empty():
                idle += all(consumer.delay_queue.empty() for consumer in consumers.values())
                continue
            _in_a_thread(lambda: self._process(thread), profile)
            profile, idle = None, 0
        return not self.rig.pending()

    def shut_down(self) -> None:
        """End what runs in the background, which takes whoever holds one of its locks for ever to task."""
        _in_a_thread(lambda: self._broker.emit_after("worker_shutdown", None))
        self._broker.close()

    def _consumer(self, worker: Worker, name: str) -> ConsumerThread:
        consumer = ConsumerThread(
            broker=self._broker, queue_name=name, prefetch=10, work_queue=worker.work_queue, worker_timeout=1
        )
        consumer.consumer = self._broker.consume(name, prefetch=10, timeout=1)
        return consumer

    def _fetch(self, consumers: dict[str, ConsumerThread]) -> None:
        for consumer in consumers.values():
            self._broker.emit_after("consumer_thread_boot", consumer)
            assert consumer.consumer is not None
            message = next(consumer.consumer)
            if message is not None:
                consumer.handle_message(message)
            consumer.handle_delayed_messages()

    def _process(self, thread: WorkerThread) -> None:
        self._broker.emit_after("worker_thread_boot", thread)
        while True:
            try:
                item = thread.work_queue.get_nowait()
            except queue.Empty:
                return
            thread.process_message(item.message)


def leases_kept(rig: Rig) -> list[Any]:
    """List what the process of a rig renews."""
    return list(rig.unique._on(rig.broker).parts.holding._keeper._leases)


def _in_a_thread(step: Callable[[], object], profile: Callable[..., None] | None = None) -> None:
    """Take a step on a thread of its own, which may die of an interrupt, but may not be stuck."""

    def run() -> None:
        sys.setprofile(profile)
        try:
            step()
        except TimeLimitExceeded:
            pass  # So dies a worker thread.
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_JOIN_S)
    assert not thread.is_alive(), "a thread is stuck"


def _stack(frame: FrameType | None) -> list[str]:
    found: list[str] = []
    while frame is not None and frame.f_code.co_name != "process_message":
        found.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return found
