"""Running a command, and ending it: whatever goes wrong is one line and an exit code."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TextIO

from dramatiq_unique import InvalidLockOptions, LockStoreUnavailable, UniqueError
from dramatiq_unique.cli.arguments import parsed
from dramatiq_unique.cli.doctor import doctor
from dramatiq_unique.cli.exits import Exit, Stop
from dramatiq_unique.cli.looking import explain, list_locks, show
from dramatiq_unique.cli.releasing import release
from dramatiq_unique.cli.screen import Screen, standard
from dramatiq_unique.cli.site import Site
from dramatiq_unique.cli.troubles import in_words
from dramatiq_unique.cli.watching import watch


__all__ = ["main"]

_COMMANDS: dict[str, Callable[..., Exit]] = {
    "list": list_locks,
    "show": show,
    "explain": explain,
    "release": release,
    "watch": watch,
    "doctor": doctor,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``dramatiq-unique``.

    Arguments:
        argv: The arguments after the command's name; the process's own by default.

    Returns:
        The exit code (:class:`~dramatiq_unique.cli.exits.Exit`).
    """
    out, err = standard()
    plain = Screen(out, err)
    try:
        arguments = parsed(None if argv is None else list(argv))
        screen = Screen(out, err, as_json="json" in arguments)
        # What the user's modules print, or log to standard output, is none of what was asked for.
        with contextlib.redirect_stdout(err):
            code = _run(arguments.command, Site.of(arguments), screen, arguments)
        out.flush()
    except SystemExit as exc:
        return int(exc.code or 0)
    except Stop as exc:
        plain.complain(str(exc))
        return int(exc.code)
    except KeyboardInterrupt:
        plain.complain("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _abandon(out)
        return Exit.PIPE_CLOSED
    except OSError as exc:
        plain.complain(f"the output could not be written: {exc.strerror}")
        return Exit.NO
    return int(code)


def _run(command: str, site: Site, screen: Screen, arguments: object) -> Exit:
    try:
        site = site.whole()
        return _COMMANDS[command](site, screen, arguments)
    except LockStoreUnavailable as exc:
        raise Stop(in_words(exc, site.name), Exit.REDIS) from exc
    except InvalidLockOptions as exc:
        raise Stop(str(exc), Exit.USAGE) from exc
    except UniqueError as exc:
        raise Stop(str(exc), Exit.UNREADABLE) from exc
    except UnicodeEncodeError as exc:
        raise Stop("an argument is no text that Redis could hold; is the terminal set to UTF-8?", Exit.USAGE) from exc
    finally:
        site.close()


def _abandon(out: TextIO) -> None:
    """Have nothing be written any more, so that Python's own flush at the end finds no fault."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)
