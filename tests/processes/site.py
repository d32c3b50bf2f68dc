"""Where crashes happen: one broker, workers to kill, and what they have noted."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import redis
from dramatiq import Broker, Message
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import dq_name, xq_name

from tests.processes.gated import declare, make_broker
from tests.processes.workers import DramatiqWorker, environment
from tests.rig import PREFIX, eventually


__all__ = ["LEASE_S", "Site", "Step"]

LEASE_S = 2.0


@dataclass(frozen=True)
class Step:
    """What a job did: ``at_ms`` by the server's clock, ``run`` counted from 1 for each name."""

    at_ms: int
    what: str
    name: str
    run: int
    worker: str


class Site:
    """A broker with the actors of :mod:`tests.processes.gated`, and worker processes for it.

    Args:
        kind: ``"redis"`` or ``"rabbitmq"``.
        url: The Redis of the locks, and of the Redis broker.
        client: A client of it.
    """

    def __init__(self, kind: str, url: str, client: "redis.Redis") -> None:
        self._kind = kind
        self._url = url
        self.queue = "default" if kind == "redis" else f"dramatiq-unique-test-{uuid4()}"
        self.redis: Any = client
        self._broker: Broker
        self._broker, _ = make_broker(kind, url, LEASE_S)
        self._actors = declare(self._broker, self.queue, url)
        self._workers: list[DramatiqWorker] = []

    def worker(self, name: str, **more: str) -> DramatiqWorker:
        """Start a worker, with more of its environment if it takes that, and wait until it is ready."""
        own = {
            "TEST_BROKER": self._kind,
            "TEST_QUEUE": self.queue,
            "TEST_LEASE_S": str(LEASE_S),
            "TEST_WORKER": name,
            **more,
        }
        worker = DramatiqWorker("tests.processes.gated:from_environment", environment(self._url, **own))
        self._workers.append(worker)
        eventually(lambda: self.redis.sismember("ready", name), 30)
        return worker

    def send(self, lock: str, name: str, **options: Any) -> Message[Any]:
        """Send a job; all of them have the same key."""
        message: Message[Any] = self._actors[lock].send_with_options(args=("key", name), **options)
        return message

    def open(self, name: str, run: int) -> None:
        """Let a run of a job through, now or when it comes."""
        self.redis.set(f"open:{name}:{run}", 1)

    def now_ms(self) -> int:
        """Ask the server for the time."""
        seconds, microseconds = self.redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def kill(self, worker: DramatiqWorker, name: str) -> int:
        """Kill a worker; what comes back is when."""
        worker.kill()
        return int(self.redis.xadd("steps", {"what": "killed", "name": "", "run": 0, "worker": name}).split(b"-")[0])

    def steps(self, what: str = "", name: str = "") -> list[Step]:
        """List what the jobs have done, in order."""
        entries = self.redis.xrange("steps")
        steps = [Step(int(id_.split(b"-")[0]), **_step(fields)) for id_, fields in entries]
        return [step for step in steps if what in ("", step.what) and name in ("", step.name)]

    def wait_for(self, what: str, name: str, run: int, within_s: float = 15) -> Step:
        """Wait until a job has done something."""

        def found() -> list[Step]:
            return [step for step in self.steps(what, name) if step.run == run]

        eventually(found, within_s)
        return found()[0]

    def most_at_once(self) -> int:
        """Count how many ran at once at most; what a killed worker ran is over when it is killed."""
        most, running = 0, set()
        for step in self.steps():
            if step.what == "started":
                running.add((step.worker, step.name, step.run))
            elif step.what == "killed":
                running = {run for run in running if run[0] != step.worker}
            else:
                running.remove((step.worker, step.name, step.run))
            most = max(most, len(running))
        return most

    def told(self, name: str, message: Message[Any], **fields: Any) -> list[dict[str, Any]]:
        """List the events of one name about one message, as the workers told them."""
        events = [json.loads(line) for line in self.redis.lrange("told", 0, -1)]
        wanted = {"name": name, "message_id": message.message_id, **fields}
        return [event for event in events if wanted.items() <= event.items()]

    def record(self, message: Message[Any]) -> dict[str, Any] | None:
        """Look at a message in its run lock: since when, until when, by which delivery; ``None`` where it isn't."""
        for key in self.redis.scan_iter(f"{PREFIX}:*:run"):
            raw = self.redis.hget(key, f"o:{message.message_id}")
            if raw is not None:
                since, _touched, deadline, state, token = raw.decode().split(" ", 4)
                since_ms = int(since)
                return {"since_ms": since_ms, "deadline_ms": since_ms + int(deadline), "state": state, "token": token}
        return None

    def lock_keys(self) -> list[bytes]:
        """Name the keys in the lock store."""
        return list(self.redis.scan_iter(f"{PREFIX}:*"))

    def close(self) -> None:
        """Kill the workers, and leave nothing behind."""
        for worker in self._workers:
            worker.kill()
        if isinstance(self._broker, RabbitmqBroker):
            for name in (self.queue, dq_name(self.queue), xq_name(self.queue)):
                self._broker.channel.queue_delete(name)
        if isinstance(self._broker, RedisBroker):
            self._broker.client.close()  # Which Dramatiq leaves open.
        self._broker.close()


def _step(fields: dict[bytes, bytes]) -> dict[str, Any]:
    step: dict[str, Any] = {name.decode(): value.decode() for name, value in fields.items()}
    return step | {"run": int(step["run"])}
