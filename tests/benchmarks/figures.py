"""What a run has found: figures, each a ratio or a count, never seconds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path


__all__ = ["Figure", "Results", "Spread", "beside"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of the rounds, and the half of them that is around it.

    Args:
        median: The middle.
        low: The first quartile.
        high: The third quartile.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Compute it; one value alone has no spread."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured.

    Args:
        bench: The name of its bench.
        arm: What was measured.
        at: Under which condition (so many threads, locks, holders), 0 where there is none.
        ratios: For each round, its time beside that of the bench's reference in the same round; empty where nothing
            was timed.
        counts: What was counted for one operation, by name: ``trips`` and ``commands`` at Redis, ``bytes``, and shares.
    """

    bench: str
    arm: str
    at: int = 0
    ratios: list[float] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)

    @property
    def spread(self) -> Spread:
        """The middle of its ratios."""
        return Spread.of(self.ratios)


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that one run has found.

    Args:
        machine: What it ran on, by name.
        scale: ``"full"`` or ``"quick"``.
        minutes: How long it took.
        figures: The figures.
        missing: What was not measured, and why, by name.
    """

    machine: dict[str, str]
    scale: str
    minutes: float
    figures: list[Figure]
    missing: dict[str, str]

    def of(self, bench: str, *arms: str, at: int | None = None) -> Iterator[Figure]:
        """Choose the figures of a bench, of some arms or all, under one condition or all."""
        for figure in self.figures:
            if figure.bench == bench and (not arms or figure.arm in arms) and at in (None, figure.at):
                yield figure

    def one(self, bench: str, arm: str, at: int = 0) -> Figure:
        """Give the one figure that goes by these names."""
        [figure] = self.of(bench, arm, at=at)
        return figure

    def arms(self, bench: str) -> list[str]:
        """List the arms of a bench, in their order."""
        return list(dict.fromkeys(figure.arm for figure in self.of(bench)))

    def conditions(self, bench: str) -> list[int]:
        """List the conditions of a bench, in their order."""
        return list(dict.fromkeys(figure.at for figure in self.of(bench)))

    def write(self, path: Path) -> None:
        """Write them as JSON, one figure a line."""
        head = {"schema": SCHEMA, "machine": self.machine, "scale": self.scale, "minutes": round(self.minutes, 1)}
        head |= {"missing": self.missing}
        lines = [f'  "{name}": {json.dumps(value)},' for name, value in head.items()]
        figures = ",\n".join(f"    {json.dumps(_rounded(figure))}" for figure in self.figures)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["{", *lines, '  "figures": [', figures, "  ]", "}", ""]), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read them again.

        Raises:
            ValueError: Another version has written them.
        """
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("schema") != SCHEMA:
            raise ValueError(f"{path.name} was written by another version of the benchmark; run it again")
        return cls(**content | {"figures": [Figure(**figure) for figure in content["figures"]]})


def beside(times: dict[str, list[float]], reference: str) -> Iterable[tuple[str, list[float]]]:
    """Divide the time of each arm by that of the reference in the same round."""
    for arm, seconds in times.items():
        yield arm, [mine / other for mine, other in zip(seconds, times[reference], strict=True)]


def _rounded(figure: Figure) -> dict[str, object]:
    entry = asdict(figure) | {"ratios": [float(f"{ratio:.4g}") for ratio in figure.ratios]}
    return entry | {"counts": {name: float(f"{count:.4g}") for name, count in figure.counts.items()}}
