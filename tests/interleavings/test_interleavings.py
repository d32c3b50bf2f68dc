"""Whatever the order in which things happen to a few messages of one digest or two, every promise is kept.

Some hundreds of sequences, always the same ones; 10,000 new ones with ``DRAMATIQ_UNIQUE_NIGHTLY=1``.
``DRAMATIQ_UNIQUE_SEED`` gives the same ones again.
"""

import os
from collections.abc import Callable
from random import SystemRandom

import pytest

from dramatiq_unique.lock_types import LOCK_TYPES
from tests.interleavings.machine import run_sequences


NIGHTLY = os.environ.get("DRAMATIQ_UNIQUE_NIGHTLY") == "1"
SEQUENCES = 10_000 if NIGHTLY else 350
LOCKS = [row.name for row in LOCK_TYPES]


@pytest.fixture(scope="module")
def seed() -> int:
    """What the sequences are made from."""
    given = os.environ.get("DRAMATIQ_UNIQUE_SEED")
    return int(given) if given else SystemRandom().getrandbits(32) if NIGHTLY else 1


@pytest.mark.timeout(7200 if NIGHTLY else 600)  # A sequence that fails is shortened, for five minutes at most.
@pytest.mark.parametrize("lock", LOCKS)
def test_no_interleaving_breaks_a_promise(lock: str, seed: int, record_property: Callable[[str, object], None]) -> None:
    """Holders within the limit, no overlap within a live lease, one outcome for each message, nothing left over."""
    record_property("seed", seed)

    sequences = run_sequences(lock, SEQUENCES // len(LOCKS), seed)

    record_property("sequences", sequences)
    assert sequences >= SEQUENCES // len(LOCKS)
