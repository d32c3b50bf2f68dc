"""The command line, ``dramatiq-unique``: who holds which lock, why a job did not run, and freeing a lock by hand.

::

    dramatiq-unique list 'ship*' --url redis://localhost:6379/0
    dramatiq-unique explain ship_order 7 --broker shop

Whatever stands in Redis may have been written by anybody: it is escaped before it reaches a terminal. A password never
does. Tables have colours where ``rich`` is installed (the extra ``cli``); everything else works without it.
"""

from dramatiq_unique.cli.command import main


__all__ = ["main"]
