"""The arguments of the command line."""

from __future__ import annotations

import argparse
import math
from typing import NoReturn

from dramatiq_unique.cli.exits import Exit, Stop
from dramatiq_unique.store import URL_VARIABLE


__all__ = ["parsed"]

_EPILOG = """\
exit codes:
  0    done, or all is well
  1    no: nobody found, nothing released, it would be refused, doctor found a fault
  2    bad input: options, address, module, actor, arguments, terminal
  3    Redis cannot be reached, or refuses
  4    somebody else wrote into a key of ours
  130  Ctrl-C

examples:
  dramatiq-unique list 'ship*' --url redis://localhost:6379/0
  dramatiq-unique explain ship_order 7 --broker shop:broker
  dramatiq-unique release --actor ship_order 7 --broker shop:broker
"""


class _Parser(argparse.ArgumentParser):
    """One that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """End the command."""
        raise Stop(f"{message}; see {self.prog} --help", Exit.USAGE)


def parsed(argv: list[str] | None) -> argparse.Namespace:
    """Read the arguments.

    Arguments:
        argv: Those after the command's own name; the process's by default.

    Raises:
        Stop: They are wrong.
        SystemExit: Only help or the version was asked for, and has been printed.
    """
    where = _where()
    parser = _Parser(
        prog="dramatiq-unique",
        description="Look at the locks of dramatiq-unique, and free them by hand.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[where],
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True, parser_class=_Parser)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", parents=[where], allow_abbrev=False
        )

    _filtered(add("list", "list who holds which lock"))
    _named(add("show", "show all that is known of one lock"))
    _explain(add("explain", "say what would happen to a message if it were sent now, and because of whom"))
    _release(add("release", "free a lock by hand; asks first"))
    _watch(add("watch", "watch the locks, live"))
    add("doctor", "check that Redis is fit for the locks, and that the locks are in order")
    return parser.parse_args(argv)


def _where() -> _Parser:
    """Make the options that every command has, before or after its name."""
    parser = _Parser(add_help=False, argument_default=argparse.SUPPRESS, allow_abbrev=False)
    group = parser.add_argument_group("which locks")
    group.add_argument(
        "--url",
        help=f"the Redis that holds the locks, as redis://host:6379/0; by default the environment's {URL_VARIABLE}",
    )
    group.add_argument(
        "--broker",
        metavar="MODULE[:ATTRIBUTE]",
        help="the broker whose locks they are, or a callable that makes it, named as for Dramatiq's own command",
    )
    group.add_argument(
        "--import",
        dest="modules",
        metavar="MODULE",
        action="append",
        help="import this too, for its actors; repeatable",
    )
    group.add_argument("--path", metavar="FOLDER", help="where modules are looked for first (default: this folder)")
    group.add_argument("--prefix", help="what the keys begin with, if it is not dramatiq-unique (with --url)")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    return parser


def _filtered(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pattern", nargs="?", help="a glob (*, ?, [abc]), compared with the actor's name and with the digest"
    )
    parser.add_argument("--queue", help="only holders on this queue")


def _named(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="*", metavar="DIGEST | ARGUMENT", help="the digest; with --actor, the arguments, each as JSON"
    )
    parser.add_argument("--actor", help="the lock that a message of this actor would ask for (with --broker)")
    parser.add_argument("--kwargs", metavar="JSON", help="keyword arguments of that message, as a JSON object")


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("actor", help="the actor's name")
    parser.add_argument(
        "what", nargs="*", metavar="ARGUMENT", help="an argument of the message, as JSON: 7, '\"text\"'"
    )
    parser.add_argument("--kwargs", metavar="JSON", help="keyword arguments of the message, as a JSON object")


def _release(parser: argparse.ArgumentParser) -> None:
    _named(parser)
    parser.add_argument("--pattern", help="every lock that this glob matches, as in list")
    parser.add_argument("--queue", help="only holders on this queue (with --pattern)")
    parser.add_argument("--message-id", metavar="ID", help="only this holder (not with --pattern)")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be released")


def _watch(parser: argparse.ArgumentParser) -> None:
    _filtered(parser)
    parser.add_argument(
        "--every", type=_seconds, default=2.0, metavar="SECONDS", help="how often to look (default: 2; at least 0.1)"
    )
    parser.add_argument("--times", type=_times, metavar="N", help="end after so many looks")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 86_400 or math.isnan(seconds):  # noqa: PLR2004 - as the help says; a day
        raise argparse.ArgumentTypeError(f"must be between 0.1 and 86400 seconds, not {text}")
    return seconds


def _times(text: str) -> int:
    times = int(text)
    if times < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return times
