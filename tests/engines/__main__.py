"""The whole suite on each server at hand, one after the other: what `test_each` runs a part of.

    python -m tests.engines

Ends with 1 where a test failed on one of them. Arguments are passed to pytest.
"""

import os
import subprocess
import sys

from tests.servers import URL_VARIABLE, RedisServer, executables


SUITE = ["tests/unit/test_store.py", "tests/unit/test_locks.py", "tests/life", "tests/cost"]


def main() -> int:
    """Run it."""
    failed = []
    for name, executable in sorted(executables().items()):
        print(f"== {name}: {executable}", flush=True)  # noqa: T201 - it talks to a terminal
        with RedisServer(executable) as server:
            command = [sys.executable, "-m", "pytest", "-q", "-k", "redis and not fakeredis", *SUITE, *sys.argv[1:]]
            # One server has one database for the tests, so they run one at a time.
            ended = subprocess.run(command, env=os.environ | {URL_VARIABLE: server.url}, check=False)
        if ended.returncode:
            failed.append(name)
    print("failed on: " + ", ".join(failed) if failed else "passed on each")  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
