"""What a run took place on, without a name of anybody's."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib import metadata, util
from pathlib import Path
from typing import Any


__all__ = ["described", "missing"]

OTHERS = {
    "celery_singleton": "celery-singleton",
    "celery_once": "celery-once",
    "taskiq_deduplication": "taskiq-deduplication",
}
"""Packages for other queues, by the module that has to be there."""


def described(client: Any) -> dict[str, str]:
    """Describe machine, interpreter, server, and what is compared.

    Args:
        client: A client of a private Redis, which says what it is.
    """
    server = client.info("server")
    name = "Valkey" if "valkey_version" in server else "Redis"
    version = server.get("valkey_version") or server["redis_version"]
    return {
        "date": f"{datetime.now(timezone.utc).date()}",
        "cores": str(os.cpu_count()),
        "CPU": _cpu(),
        "system": f"{platform.system()}, {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "server": f"{name} {version}, on the same machine, nothing on disk",
        "driver": f"redis-py {_version('redis')}, {'with' if util.find_spec('hiredis') else 'without'} hiredis",
        "Dramatiq": _version("dramatiq"),
        "dramatiq-unique": _version("dramatiq-unique"),
        **{package: _version(package) for module, package in OTHERS.items() if util.find_spec(module)},
    }


def missing() -> dict[str, str]:
    """Name what is to be compared and is not installed."""
    found = {package: "it is not installed here" for module, package in OTHERS.items() if not util.find_spec(module)}
    return found | ({} if util.find_spec("matplotlib") else {"plots": "matplotlib is not installed here"})


def _version(package: str) -> str:
    return metadata.version(package)


def _cpu() -> str:
    """Name the model of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"
