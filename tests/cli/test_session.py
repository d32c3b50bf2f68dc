"""The session in ``docs/how-to/free-a-lock.md`` is a real one: this test runs it, and compares it with the page.

Where it differs on purpose, have the page rewritten::

    DRAMATIQ_UNIQUE_REWRITE_DOCS=1 make test PYTEST_ARGS=tests/cli/test_session.py

Ids, digests, times, hosts and processes are replaced by others that stay the same.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from dramatiq_unique.locks import Locks
from tests.cli.shell import COMMAND, ROOT, environment
from tests.processes.workers import DramatiqWorker
from tests.rig import eventually
from tests.servers import GivenRedis, RedisServer


PAGE = ROOT / "docs" / "how-to" / "free-a-lock.md"
REWRITE = os.environ.get("DRAMATIQ_UNIQUE_REWRITE_DOCS") == "1"

SEND = """python -c 'from shop import *; print(outcome(ship_order.send(7)).action)'"""
SESSION = [
    SEND,
    "dramatiq-unique explain ship_order 7 --broker shop",
    "dramatiq-unique show <digest> --broker shop",
    "dramatiq-unique release <digest> --broker shop --yes",
    SEND,
]
DIGEST = "1c8e0f1f7a0d2b6f3f3f2f0c51a9d6a1b5c0a4be"
STEADY = [
    (r"\b[0-9a-f]{40}\b", DIGEST),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "5c9b8f5e-3a43-4a5e-9d0c-6b6a8f4d2f10"),
    (r"(?<=runs on )\S+ \(pid \d+\)|(?<=process  )\S+ \(pid \d+\)", "worker-1 (pid 4711)"),
    (r"(?<=lock for )\d+ s", "12 s"),
    (r"(?<=since    ).*", "2026-12-01 09:30:00 UTC, 12 s ago"),
    (r"(?<=seen     ).*", "2026-12-01 09:30:10 UTC, 2 s ago"),
    (r"(?<=until    ).*(?=, unless)", "2026-12-31 09:30:10 UTC, in 30 days"),
]


def test_the_session_on_the_page_is_what_happens(
    server: RedisServer | GivenRedis, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """A job is refused, `explain` names the holder, `show` where it runs, `release` frees it, the next is accepted."""
    page = PAGE.read_text(encoding="utf-8")
    [module] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "shop.py").write_text(module, encoding="utf-8")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    known = environment(server.url, REDIS_URL=server.url, PYTHONPATH=path, dramatiq_worker_timeout="100")
    del known["DRAMATIQ_UNIQUE_URL"]
    assert run(SEND, known, tmp_path) == "enqueued\n"
    worker = DramatiqWorker("shop", known)
    try:
        eventually(lambda: running(redis_client), 40)
        [digest] = running(redis_client)
        told = [(line, run(line.replace("<digest>", digest), known, tmp_path)) for line in SESSION]
    finally:
        worker.kill()

    assert (told[0][1], told[-1][1]) == ("discarded\n", "enqueued\n")
    transcript = "".join(f"$ {line.replace('<digest>', DIGEST)}\n{steady(out)}" for line, out in told)
    before, after = re.split(r"(?<=<!--- transcript --->\n\n```console\n).*?(?=```)", page, maxsplit=1, flags=re.DOTALL)
    if REWRITE:
        PAGE.write_text(f"{before}{transcript}{after}", encoding="utf-8")
        pytest.skip("the page was rewritten")
    assert page == f"{before}{transcript}{after}"


def run(line: str, known: dict[str, str], folder: Path) -> str:
    """Run a line of the session as a shell would, and give what it prints."""
    program, *arguments = shlex.split(line)
    command = {"python": [sys.executable], "dramatiq-unique": COMMAND}[program]
    done = subprocess.run(
        [*command, *arguments], env=known, cwd=folder, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.stderr == ""
    return done.stdout


def running(client: "redis.Redis") -> list[str]:
    """List the digests of what runs."""
    return [lock.digest for lock in Locks(client).iter() if lock.holders[0].state == "running"]


def steady(text: str) -> str:
    """Replace what differs from run to run."""
    for pattern, instead in STEADY:
        text = re.sub(pattern, instead, text)
    return text
