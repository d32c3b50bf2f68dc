"""How a command ends: the exit codes, the same for each, and the error that ends one with a line."""

from __future__ import annotations

import enum


__all__ = ["Exit", "Stop"]


class Exit(enum.IntEnum):
    """What a script can tell by."""

    DONE = 0
    """Done, or all is well."""

    NO = 1
    """The answer is no: nobody found, nothing released, it would be refused, ``doctor`` found a fault."""

    USAGE = 2
    """What was asked makes no sense: options, address, module, actor, arguments, terminal."""

    REDIS = 3
    """Redis cannot be reached, or refuses."""

    UNREADABLE = 4
    """Somebody else wrote into a key of ours."""

    INTERRUPTED = 130
    """Ctrl-C."""

    PIPE_CLOSED = 141
    """Whoever read the output stopped reading, as ``head`` does; what a shell says of a program that this killed."""


class Stop(Exception):
    """Ends a command with one line for the person at the terminal.

    Arguments:
        text: What is wrong, and what to do.
        code: The exit code.
    """

    def __init__(self, text: str, code: Exit) -> None:
        super().__init__(text)
        self.code = code
