"""What it costs: one run that measures side by side, and writes docs/cost.md.

::

    python -m tests.benchmarks            # all of it, into docs/cost.md and docs/cost/
    python -m tests.benchmarks --quick    # the same in small, to see that it works; writes nothing unless told where

Nothing here is asserted: a machine that is busy makes no test red. What is to be said of the figures, the page says.
"""
