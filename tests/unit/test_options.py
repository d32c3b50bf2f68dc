"""Options: what each one takes, which level wins, and what is said about a wrong one.

A wrong option is told where it is written: at the actor's declaration, when the middleware is made, or from the send
that carries it. The text names the actor (or the message, or the middleware) and the option, and says what is right.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import dramatiq
import fakeredis
import pytest
import redis
import redis.asyncio
from dramatiq import Actor, GenericActor, Message
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware

from dramatiq_unique import InvalidLockOptions, LockType, UniqueError, UniqueMiddleware, outcome
from dramatiq_unique.lock_types import LOCK_TYPES, Until
from dramatiq_unique.options import OPTION_NAMES, LockOptions, OptionRules
from dramatiq_unique.strategies import Action, Conflict, strategy_table
from tests.unit.conftest import as_text


NO_DURATION = r"takes seconds \(int or float\) or a timedelta, not "
MORE_THAN_NOTHING = "must be more than 0 seconds, not "
NOT_NEGATIVE = "must be 0 or more seconds, not "
AT_MOST = "must be at most ten years"
COUNT = "must be a whole number, {} or more, not "
FLAG = "must be True or False, not "
NAMES = "must be a list of parameter names, not "
KEY = "must be a callable of the actor's arguments, or the name of a method, not "
HOOK = "must be callable, not "
LOCKS = "must be one of 'until_and_while_executing', 'until_executed', 'until_executing', 'until_expired', "
STRATEGIES = "must be one of 'log', 'raise', 'reject', 'replace', 'reschedule', not "

# Each option, a value that is wrong anywhere, and what is said of it.
WRONG: list[tuple[str, object, str]] = [
    ("lock", "until_executd", LOCKS + r"'while_executing', not 'until_executd'; did you mean 'until_executed'\?$"),
    ("lock", "While_Executing", LOCKS + r"'while_executing', not 'While_Executing'; did you mean 'while_executing'\?$"),
    ("lock", "", LOCKS + "'while_executing', not ''$"),
    ("lock", True, LOCKS),
    ("lock", 3, LOCKS),
    ("lock", ["until_executed"], LOCKS),
    ("lock_ttl", 0, MORE_THAN_NOTHING + "0$"),
    ("lock_ttl", -1, MORE_THAN_NOTHING + "-1$"),
    ("lock_ttl", "10", NO_DURATION + "'10'$"),
    ("lock_ttl", math.nan, MORE_THAN_NOTHING + "nan$"),
    ("lock_ttl", math.inf, MORE_THAN_NOTHING + "inf$"),
    ("lock_ttl", True, NO_DURATION + "True$"),
    ("lock_ttl", False, NO_DURATION + "False$"),
    ("lock_ttl", [10], NO_DURATION),
    ("lock_ttl", 11 * 365 * 24 * 3600, AT_MOST),
    ("lock_ttl", 10**400, AT_MOST),
    ("lock_timeout", -1, NOT_NEGATIVE + "-1$"),
    ("lock_timeout", "10", NO_DURATION + "'10'$"),
    ("lock_timeout", math.nan, NOT_NEGATIVE),
    ("lock_timeout", math.inf, NOT_NEGATIVE),
    ("lock_timeout", True, NO_DURATION),
    ("lock_limit", 0, COUNT.format(1) + "0$"),
    ("lock_limit", -1, COUNT.format(1)),
    ("lock_limit", 1.0, COUNT.format(1)),
    ("lock_limit", "2", COUNT.format(1)),
    ("lock_limit", True, COUNT.format(1)),
    ("lock_limit", None, COUNT.format(1)),
    ("lock_args", "x", NAMES + r"the string 'x'; did you mean \['x'\]\?$"),
    ("lock_args", 0, NAMES + "0$"),
    ("lock_args", [0], NAMES),
    ("lock_args", {"x": 1}, NAMES),
    (
        "lock_args",
        ["tenant", "custommer"],
        r"names 'custommer', .* 'tenant', 'customer', 'full'; did you mean 'customer'\?$",
    ),
    ("lock_args_method", 0, KEY + "0$"),
    ("lock_args_method", ["x"], KEY),
    ("lock_args_method", "key", "names 'key', .* method o[fn] a class-based actor$"),
    ("unique_across_queues", 1, FLAG + "1$"),
    ("unique_across_queues", "yes", FLAG + "'yes'$"),
    ("unique_across_queues", None, FLAG),
    ("unique_across_actors", 0, FLAG + "0$"),
    ("unique_across_actors", "no", FLAG),
    ("on_conflict", "rais", STRATEGIES + r"'rais'; did you mean 'raise'\?$"),
    ("on_conflict", "discard", STRATEGIES + "'discard'"),
    ("on_conflict", True, STRATEGIES + "True$"),
    ("on_conflict", ["raise"], STRATEGIES),
    (
        "on_conflict",
        {"clent": "raise"},
        r"knows the sides 'client' and 'server', not 'clent'; did you mean 'client'\?$",
    ),
    ("on_conflict", {"client": "rejct"}, STRATEGIES + r"'rejct'; did you mean 'reject'\?$"),
    ("on_conflict", {"client": "raise", "server": 0}, STRATEGIES + "0$"),
    ("on_conflict", {"server": "replace"}, "cannot be 'replace' on the server side.* use 'log', 'raise', 'reject' or "),
    ("reschedule_delay", -1, NOT_NEGATIVE + "-1$"),
    ("reschedule_delay", "5", NO_DURATION),
    ("reschedule_delay", math.nan, NOT_NEGATIVE),
    ("reschedule_delay", True, NO_DURATION),
    ("reschedule_limit", -1, COUNT.format(0) + "-1$"),
    ("reschedule_limit", 2.0, COUNT.format(0)),
    ("reschedule_limit", "3", COUNT.format(0)),
    ("reschedule_limit", True, COUNT.format(0)),
    ("after_unlock", "notify", HOOK + "'notify'$"),
    ("after_unlock", 1, HOOK + "1$"),
    ("lock_info", 1, FLAG),
    ("lock_info", "yes", FLAG),
]


def repr_of(value: object) -> str:
    """Name a case, at most so long."""
    return f"{value!r:.40}"


def names_of(cases: list[tuple[str, object, str]]) -> list[str]:
    """Name cases by option and value."""
    return [f"{name}={value!r:.30}" for name, value, _ in cases]


# Options that no JSON carries don't stand on a message, and a default is not checked against any actor's parameters.
ON_A_MESSAGE = [case for case in WRONG if case[:2] != ("lock_ttl", 10**400)]
ON_THE_MIDDLEWARE = [case for case in WRONG if case[1:2] not in ((["tenant", "custommer"],), ("key",))]


def export(tenant: str, customer: int, *, full: bool = False) -> None:
    """Do the work of the actor in these tests."""


def declare(broker: StubBroker, fn: Callable[..., Any] = export, **options: Any) -> Actor[..., Any]:
    """Declare an actor."""
    return dramatiq.actor(fn, broker=broker, **options)  # type: ignore[call-overload, no-any-return]


def one(*_args: object) -> str:
    """Say what counts, one way."""
    return "one"


def two(*_args: object) -> str:
    """Say what counts, another way."""
    return "two"


def three(*_args: object) -> str:
    """Say what counts, a third way."""
    return "three"


async def later(_: object) -> None:
    """Be awaited by nobody."""


def yields(_: object) -> Any:
    """Be gone through by nobody."""
    yield


class TestAWrongOptionOnAnActor:
    """It is told at the declaration, and there is no such actor."""

    @pytest.mark.parametrize(("name", "value", "text"), WRONG, ids=names_of(WRONG))
    def test_names_actor_and_option_and_says_what_is_right(
        self, broker: StubBroker, name: str, value: Any, text: str
    ) -> None:
        """One error for wrong types, ranges and names, with a guess where something near is right."""
        with pytest.raises(InvalidLockOptions, match=rf"^actor 'export': option {name} {text}"):
            declare(broker, **{name: value})

        assert not broker.actors

    def test_a_window_needs_an_end(self, broker: StubBroker) -> None:
        """`until_expired` has no meaning without `lock_ttl`."""
        with pytest.raises(
            InvalidLockOptions, match=r"^actor 'export': lock='until_expired' needs lock_ttl, the seconds"
        ):
            declare(broker, lock="until_expired")

    def test_a_window_that_is_given_its_end_by_the_middleware_is_right(self, memory: "redis.Redis") -> None:
        """What is required may stand on any level."""
        broker = StubBroker(middleware=[UniqueMiddleware(memory, lock_ttl=60)])

        declare(broker, lock="until_expired")

        assert "export" in broker.actors

    def test_two_ways_to_say_what_counts_are_one_too_many(self, broker: StubBroker) -> None:
        """`lock_args` and `lock_args_method` contradict each other."""
        with pytest.raises(
            InvalidLockOptions,
            match=r"^actor 'export': lock_args and lock_args_method do not go together; keep the one",
        ):
            declare(broker, lock_args=["tenant"], lock_args_method=one)

    def test_an_actor_without_parameters_has_none_to_name(self, broker: StubBroker) -> None:
        """The text says so instead of listing nothing."""
        with pytest.raises(InvalidLockOptions, match=r"^actor '<lambda>': option lock_args .* parameters \(none\)"):
            declare(broker, lambda: None, lock_args=["x"])

    def test_it_is_told_too_where_the_actor_was_declared_before_the_middleware(self, memory: "redis.Redis") -> None:
        """Adding the middleware checks the actors that are there."""
        earlier = UniqueMiddleware(memory)
        broker = StubBroker(middleware=[])
        broker.actor_options |= earlier.actor_options
        declare(broker, lock="until_executd")

        with pytest.raises(
            InvalidLockOptions, match=r"^actor 'export': option lock .* did you mean 'until_executed'\?"
        ):
            broker.add_middleware(UniqueMiddleware(memory))

    def test_it_is_told_too_where_nothing_is_locked(self, memory: "redis.Redis") -> None:
        """`enabled=False` turns the locks off, not the checks."""
        broker = StubBroker(middleware=[UniqueMiddleware(memory, enabled=False)])

        with pytest.raises(InvalidLockOptions, match=r"^actor 'export': option lock_limit "):
            declare(broker, lock_limit=0)

    @pytest.mark.parametrize("option", ["lock_args_method", "lock_ttl"])
    @pytest.mark.parametrize(
        ("takes", "function", "fits"),
        [
            (lambda a, b=1: None, lambda a, b: 7, False),
            (lambda a, b=1: None, lambda a: 7, False),
            (lambda a, b=1: None, lambda a, *_: 7, False),
            (lambda a, b=1: None, lambda a, **_: 7, False),
            (lambda a, b=1: None, lambda x, y=1: 7, False),
            (lambda a, b=1: None, lambda a, *, b=1: 7, False),
            (lambda a, b=1, c=2: None, lambda a, c=2, b=1: 7, False),
            (lambda a, b=1: None, lambda x, b=1: 7, True),
            (lambda a, b=1: None, lambda a, *_, **__: 7, True),
            (lambda a, b=1: None, lambda *_, **__: 7, True),
            (lambda a, *, b: None, lambda a: 7, False),
            (lambda a, *, b: None, lambda x, *, b: 7, True),
            (lambda a, *, b=1: None, lambda a: 7, False),
            (lambda a, *, b=1: None, lambda a, **_: 7, True),
            (lambda a, b=1, /: None, lambda x, y=1, /: 7, True),
            (lambda a: None, len, True),
            (lambda a: None, lambda: 7, False),
            (lambda: None, lambda: 7, True),
            (lambda a, *_, **__: None, lambda a: 7, True),
        ],
        ids=lambda value: str(inspect.signature(value)) if callable(value) else None,
    )
    def test_a_function_of_the_arguments_takes_each_call_that_the_actor_takes(
        self, broker: StubBroker, option: str, takes: Any, function: Any, *, fits: bool
    ) -> None:
        """Else a send would be told one day; what has no default may have another name, since it is given by place."""
        if fits:
            declare(broker, takes, actor_name="export", lock="until_executed", **{option: function})
            return
        with pytest.raises(
            InvalidLockOptions,
            match=rf"^actor 'export': option {option} is called .* the parameters 'a'.*; give it the same, or ",
        ):
            declare(broker, takes, actor_name="export", lock="until_executed", **{option: function})
        assert "export" not in broker.actors

    def test_an_option_that_cannot_even_be_shown_leaves_no_actor_without_its_lock(self, broker: StubBroker) -> None:
        """Whatever is raised on the way, it reaches whoever declares the actor."""

        class Unspeakable:
            def __repr__(self) -> str:
                raise RuntimeError("no")

        with pytest.raises(UniqueError, match=r"^the options of actor 'export' could not be checked: RuntimeError: no"):
            dramatiq.actor(broker=broker, actor_name="export", lock="until_executed", lock_ttl=Unspeakable())(print)
        assert "export" not in broker.actors

    def test_nor_does_an_error_that_cannot_be_shown(self, broker: StubBroker) -> None:
        """Its type is told."""

        class Unspeakable(Exception):
            def __repr__(self) -> str:
                raise self

            __str__ = __repr__

        with pytest.raises(UniqueError, match=r"^the options of actor 'export' could not be checked: Unspeakable"):
            dramatiq.actor(broker=broker, actor_name="export", lock="until_executed", lock_ttl=Unspeakable())(print)
        assert "export" not in broker.actors


class TestAWrongOptionOnAMessage:
    """It is told by the send, and nothing is enqueued or locked."""

    @pytest.mark.parametrize(("name", "value", "text"), ON_A_MESSAGE, ids=names_of(ON_A_MESSAGE))
    def test_names_message_actor_and_option_and_says_what_is_right(
        self, broker: StubBroker, memory: "redis.Redis", name: str, value: Any, text: str
    ) -> None:
        """The same error as at a declaration, with the message before the actor."""
        actor = declare(broker, lock="until_executed")
        message = actor.message_with_options(args=("acme", 1), **{name: value})

        with pytest.raises(
            InvalidLockOptions, match=rf"^message {message.message_id} of actor 'export': option {name} {text}"
        ):
            broker.enqueue(message)

        assert broker.queues["default"].empty()
        assert not memory.keys()

    def test_it_reaches_the_caller_of_send_with_options(self, broker: StubBroker) -> None:
        """Whoever wrote it hears of it."""
        actor = declare(broker, lock="until_executed")

        with pytest.raises(
            InvalidLockOptions, match=r"^message [0-9a-f-]{36} of actor 'export': option lock_ttl must be"
        ):
            actor.send_with_options(args=("acme", 1), lock_ttl=0)

    def test_a_window_needs_an_end(self, broker: StubBroker) -> None:
        """A combination is checked as it results from all three levels."""
        actor = declare(broker, lock="until_executed")

        with pytest.raises(InvalidLockOptions, match="of actor 'export': lock='until_expired' needs lock_ttl"):
            actor.send_with_options(args=("acme", 1), lock="until_expired")

    @pytest.mark.parametrize(
        ("typo", "meant"),
        [
            ("locks", "lock"),
            ("lock_tll", "lock_ttl"),
            ("lock_timeut", "lock_timeout"),
            ("lock_arg", "lock_args"),
            ("lock_limits", "lock_limit"),
            ("unique_across_queue", "unique_across_queues"),
            ("unique_accross_queues", "unique_across_queues"),
            ("on_conflicts", "on_conflict"),
            ("reschedule_delays", "reschedule_delay"),
            ("after_unlocked", "after_unlock"),
        ],
    )
    def test_a_name_that_is_nearly_an_option_is_refused_with_a_guess(
        self, broker: StubBroker, typo: str, meant: str
    ) -> None:
        """A message may carry anything, so Dramatiq says nothing of a typing error; the lock would be another."""
        actor = declare(broker, lock="until_executed")

        with pytest.raises(
            InvalidLockOptions, match=rf"of actor 'export': there is no option '{typo}'; did you mean '{meant}'\?$"
        ):
            actor.send_with_options(args=("acme", 1), **{typo: cast("Any", "log")})

    def test_the_options_of_other_middleware_are_passed_over(self, broker: StubBroker) -> None:
        """Other middleware has options too, some with names that are near ours."""

        class Others(Middleware):
            actor_options = frozenset({"block", "lock_limits", "reschedule"})  # type: ignore[assignment]

        broker.add_middleware(Others())
        actor = declare(broker, lock="until_executed")

        message = actor.send_with_options(
            args=("acme", 1), max_retries=3, block=True, lock_limits=1, reschedule="never"
        )

        assert outcome(message).action == "enqueued"

    def test_what_is_nobodys_option_is_passed_over(self, broker: StubBroker) -> None:
        """A message may carry anything, as long as it isn't nearly an option of ours."""
        actor = declare(broker, lock="until_executed")

        message = actor.send_with_options(args=("acme", 1), trace_id="t", lock_key="k")

        assert outcome(message).action == "enqueued"


class TestAWrongOptionOnTheMiddleware:
    """It is told when the middleware is made."""

    @pytest.mark.parametrize(("name", "value", "text"), ON_THE_MIDDLEWARE, ids=names_of(ON_THE_MIDDLEWARE))
    def test_names_middleware_and_option_and_says_what_is_right(
        self, memory: "redis.Redis", name: str, value: Any, text: str
    ) -> None:
        """Every option may be a default, and is checked as one."""
        with pytest.raises(InvalidLockOptions, match=rf"^UniqueMiddleware: option {name} {text}"):
            UniqueMiddleware(memory, **{name: value})

    @pytest.mark.parametrize(
        ("typo", "meant"),
        [("lock_tll", "lock_ttl"), ("on_conflicts", "on_conflict"), ("leese", "lease"), ("ulr", "url")],
    )
    def test_an_option_that_does_not_exist_is_refused_with_a_guess(
        self, memory: "redis.Redis", typo: str, meant: str
    ) -> None:
        """A typing error isn't silently a default that nobody has."""
        options: dict[str, Any] = {typo: 5}

        with pytest.raises(InvalidLockOptions, match=rf"^UniqueMiddleware: .*'{typo}'; did you mean '{meant}'\?$"):
            UniqueMiddleware(memory, **options)

    def test_an_option_that_is_like_no_other_is_refused_too(self, memory: "redis.Redis") -> None:
        """Where nothing is near, there is no guess."""
        with pytest.raises(InvalidLockOptions, match=r"^UniqueMiddleware: .*'colour'"):
            UniqueMiddleware(memory, colour="red")

    @pytest.mark.parametrize(
        ("lease", "text"),
        [
            (0, MORE_THAN_NOTHING + "0$"),
            (-1, MORE_THAN_NOTHING),
            ("30", NO_DURATION),
            (True, NO_DURATION),
            (None, NO_DURATION),
            (0.5, "must be at least 1 second, not 0.5$"),
            (math.nan, MORE_THAN_NOTHING),
            (math.inf, MORE_THAN_NOTHING),
        ],
    )
    def test_a_lease_is_a_duration(self, memory: "redis.Redis", lease: Any, text: str) -> None:
        """A run lock without an end would outlive a worker that was killed."""
        with pytest.raises(InvalidLockOptions, match=r"^UniqueMiddleware: .*lease " + text):
            UniqueMiddleware(memory, lease=lease)

    @pytest.mark.parametrize("value", ["ignored", "", None, True])
    def test_on_store_error_is_one_of_two(self, memory: "redis.Redis", value: Any) -> None:
        """Anything else might go on without a lock, or not."""
        with pytest.raises(
            InvalidLockOptions, match=r"^UniqueMiddleware: .*on_store_error must be 'raise' or 'ignore', not "
        ):
            UniqueMiddleware(memory, on_store_error=value)

    @pytest.mark.parametrize(
        ("argument", "value", "text"),
        [
            ("client", redis.asyncio.Redis(), "client must be a synchronous client such as redis.Redis, not Redis"),
            ("prefix", "", "prefix must be a string, not empty"),
            ("prefix", "{a}", "prefix must be a string, not empty, and without braces"),
            ("client", redis.Redis, "client must be a synchronous client such as redis.Redis, not the class Redis"),
            (
                "client",
                redis.Redis().pipeline(),
                "client must be a synchronous client such as .*, not Pipeline",
            ),
            ("lock_types", ["until_executed"], r"lock_types takes rows, LockType\(...\), not 'until_executed'"),
            ("lock_types", {"mine": LockType("mine", run=True)}, r"lock_types takes rows, .*, not 'mine'"),
            (
                "lock_types",
                LockType("mine", run=True),
                r"lock_types takes a list of rows, .*, not LockType",
            ),
            ("lock_types", None, r"lock_types takes a list of rows, \[LockType\(...\)\], not None"),
            ("lock_types", [LockType("mine", run=True)] * 2, "lock_types has 2 rows of the name 'mine'; keep one"),
            ("strategies", {1: lambda _: None}, "strategies takes callables by name, and 1 is no name"),
            ("strategies", {"": lambda _: None}, "strategies takes callables by name, and '' is no name"),
            ("strategies", {"mine": lambda: None}, "strategy 'mine' must be a plain function that takes one argument"),
            ("strategies", {"mine": list}, "strategy 'mine' must be a plain function that takes one argument"),
            ("strategies", {"mine": later}, "strategy 'mine' must be a plain function that takes one argument"),
            ("url", "redis://:p@ssw0rd#1@localhost:6379/5", "url is no address of a Redis; .* percent-encoded"),
            ("url", "redis://app:12345#67@localhost:6379/5", "url is no address of a Redis; .* percent-encoded"),
            ("url", "redis://:pass?word@localhost:6379/5", "url is no address of a Redis; .* percent-encoded"),
            ("url", "redis://:pass/word@localhost:6379/5", "url is no address of a Redis; .* percent-encoded"),
            ("url", "redis://localhost:6379/first", "url is no address of a Redis; .* the database is a number"),
            ("url", "redis://localhost:6379/5?protocol=9", "url is no address of a Redis"),
            ("url", "rediss://localhost:6379/5?ssl_cert_reqs=some", "url is no address of a Redis"),
            ("url", "redis://localhost:6379/5?socket_timeout=-1", "url is no address of a Redis"),
            ("url", "redis://localhost:6379/5?encoding=none", "url is no address of a Redis"),
            ("url", "redis://localhost:6379/5?retry=3", "url is no address of a Redis"),
            ("url", "unix://:p@ssword#1@/run/redis.sock", "url is no address of a Redis; .* percent-encoded"),
            ("url", "unix://app:12345/x@/run/redis.sock", "url is no address of a Redis; .* percent-encoded"),
            ("url", "unix://app:12345?x@/run/redis.sock", "url is no address of a Redis; .* percent-encoded"),
            ("strategies", {"mine": "raise"}, "strategies takes callables by name, and 'mine' is 'raise'"),
            ("lease", 0.5, "lease must be at least 1 second, not 0.5"),
        ],
    )
    def test_what_would_fail_later_is_refused_at_once(self, argument: str, value: Any, text: str) -> None:
        """Nothing is discovered in production that could be told where the middleware is made."""
        arguments: dict[str, Any] = {argument: value}
        with pytest.raises(InvalidLockOptions, match=f"^UniqueMiddleware: {text}") as caught:
            UniqueMiddleware(**arguments)
        assert "word" not in str(caught.value).replace("password", "")
        assert "12345" not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            "redis://:p%23ss%3Fw%2Frd@localhost:6379/5",
            "redis://:p@ss@[::1]:6379",
            "redis://localhost?db=5&protocol=3&socket_timeout=0.5",
            "rediss://localhost:6379/5?ssl_cert_reqs=none",
            "unix:///run/a@redis.sock?db=5",
            "unix://app:12345@/run/redis.sock",
        ],
    )
    def test_an_address_that_the_driver_understands_as_it_is_meant_is_taken(self, url: str) -> None:
        """With a password in it that is percent-encoded, or a socket."""
        UniqueMiddleware(url=url)

    def test_client_and_url_contradict_each_other(self, memory: "redis.Redis") -> None:
        """One of them says where the locks are."""
        with pytest.raises(
            InvalidLockOptions, match=r"^UniqueMiddleware: client and url do not go together; keep one$"
        ):
            UniqueMiddleware(memory, url="redis://127.0.0.1")

    @pytest.mark.parametrize(
        ("columns", "text"),
        [
            ({"name": "", "run": True}, "the name of a lock type must be a string, not empty; not ''"),
            ({"name": 1, "run": True}, "the name of a lock type must be a string, not empty; not 1"),
            ({"name": "mine", "queue": "end"}, "lock type 'mine': queue must be Until.START, Until.END, .*, not 'end'"),
            ({"name": "mine", "queue": True}, "lock type 'mine': queue must be Until.START, Until.END, .*, not True"),
            ({"name": "mine", "run": 1}, "lock type 'mine': run must be True or False, not 1"),
        ],
    )
    def test_a_lock_type_that_cannot_be_read_is_refused(self, columns: dict[str, Any], text: str) -> None:
        """Its messages would never run, and keep their locks."""
        with pytest.raises(ValueError, match=text):
            LockType(**columns)

    def test_rows_may_come_from_anything_that_gives_them(self, memory: "redis.Redis") -> None:
        """Any iterable of them, as the type says."""
        broker = StubBroker()
        broker.add_middleware(UniqueMiddleware(memory, lock_types=iter([LockType("mine", run=True)])))

        declare(broker, lock="mine")

    @pytest.mark.parametrize("function", [None, 1, "x", lambda: None, later, yields])
    def test_a_subscriber_that_would_hear_nothing_is_refused(self, memory: "redis.Redis", function: Any) -> None:
        """It is told where it subscribes, and not once for each event."""
        with pytest.raises(InvalidLockOptions, match=r"^UniqueMiddleware.subscribe takes a plain function of one arg"):
            UniqueMiddleware(memory).subscribe(function)

    def test_a_lock_type_that_locks_nothing_is_refused(self) -> None:
        """A row takes the queue lock, the run lock, or both."""
        with pytest.raises(
            ValueError, match="'nothing' takes neither a queue lock nor a run lock: give it queue=Until"
        ):
            LockType("nothing")


class TestTheLifeOfALock:
    """`lock_ttl` in every form; never "no expiry by accident" (sidekiq-unique-jobs 882, 908)."""

    @pytest.mark.parametrize(
        "ttl",
        [10, 10.0, timedelta(seconds=10), lambda *_, **__: 10, lambda *_, **__: timedelta(seconds=10)],
        ids=["int", "float", "timedelta", "callable", "callable giving a timedelta"],
    )
    def test_is_given_in_any_form(self, broker: StubBroker, memory: "redis.Redis", ttl: object) -> None:
        """The lock in Redis expires then, in each case."""
        declare(broker, lock="until_expired", lock_ttl=ttl).send("acme", 1)

        assert [0 < memory.pttl(key) <= 10_000 for key in memory.scan_iter()] == [True]

    def test_may_depend_on_the_arguments(self, broker: StubBroker, memory: "redis.Redis") -> None:
        """A callable is called like the actor."""
        actor = declare(broker, lock="until_executed", lock_ttl=lambda _tenant, customer, **_: customer)

        message = actor.send("acme", customer=7)

        (key,) = memory.keys()
        assert str(outcome(message).digest) in as_text(key)
        assert 0 < memory.pttl(key) <= 7_000

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (0, MORE_THAN_NOTHING + "0$"),
            (-1, MORE_THAN_NOTHING + "-1$"),
            ("10", NO_DURATION.removesuffix(", not ") + "$"),
            (None, NO_DURATION + "None$"),
            (math.nan, MORE_THAN_NOTHING),
            (math.inf, MORE_THAN_NOTHING),
            (True, NO_DURATION),
            (11 * 365 * 24 * 3600, AT_MOST),
            (10**400, AT_MOST),
        ],
        ids=repr_of,
    )
    def test_is_refused_where_a_callable_returns_none(
        self, broker: StubBroker, memory: "redis.Redis", given: object, text: str
    ) -> None:
        """What a callable gives is checked like what is written down; nothing is enqueued or locked."""
        actor = declare(broker, lock="until_executed", lock_ttl=lambda *_, **__: given)

        with pytest.raises(
            InvalidLockOptions, match="of actor 'export': the lock_ttl callable returned .*; it " + text
        ):
            actor.send("acme", 1)

        assert broker.queues["default"].empty()
        assert not memory.keys()

    def test_is_refused_where_a_callable_raises(self, broker: StubBroker, memory: "redis.Redis") -> None:
        """The callable's own error is the cause."""
        actor = declare(broker, lock="until_executed", lock_ttl=lambda tenant, customer, **_: tenant + customer)

        with pytest.raises(InvalidLockOptions, match="'export': the lock_ttl callable raised TypeError") as raised:
            actor.send("acme", 1)

        assert isinstance(raised.value.__cause__, TypeError)
        assert broker.queues["default"].empty()
        assert not memory.keys()

    @pytest.mark.parametrize("lock", ["until_executed", None], ids=["with a lock", "without one"])
    def test_may_be_a_timedelta_on_a_message(self, broker: StubBroker, lock: str | None) -> None:
        """JSON carries no timedelta, so it travels as seconds, whether or not this message asks for a lock."""
        actor = declare(broker)

        actor.send_with_options(
            args=("acme", 1), lock=lock, lock_ttl=timedelta(minutes=1), reschedule_delay=timedelta(milliseconds=500)
        )

        stored = Message.decode(broker.queues["default"].get_nowait())
        assert stored.options["lock_ttl"] == 60
        assert stored.options["reschedule_delay"] == 0.5


@dataclass(frozen=True)
class Facts:
    """An actor, as the options are checked against it."""

    actor_name: str = "export"
    parameters: tuple[str, ...] = ("tenant", "customer", "full")
    methods: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def can_be_given_to(self, function: Callable[..., Any]) -> bool:
        """Let every function take the arguments."""
        return True

    def method(self, name: str) -> Callable[..., Any] | None:
        """Find a method."""
        return self.methods.get(name)


def resolve(
    *,
    middleware: Mapping[str, object] | None = None,
    actor: Mapping[str, object] | None = None,
    message: Mapping[str, object] | None = None,
) -> LockOptions:
    """Resolve the options of a message from its three levels."""
    rules = OptionRules(LOCK_TYPES, strategy_table(), middleware or {})
    if message is None:
        return rules.for_actor(Facts(), actor or {})
    return rules.for_message("an id", Facts(), actor or {}, message)


ROWS = {row.name: row for row in LOCK_TYPES}

# Each option: what it is where nobody says anything, and a value and what it comes to on each of the levels.
LEVELS: dict[str, tuple[object, list[tuple[object, object]]]] = {
    "lock": (
        None,
        [(name, ROWS[name]) for name in ("until_executing", "until_executed", "while_executing")],
    ),
    "lock_ttl": (None, [(10, 10_000), (2.5, 2_500), (timedelta(minutes=1), 60_000)]),
    "lock_timeout": (0, [(10, 10_000), (0, 0), (timedelta(seconds=1), 1_000)]),
    "lock_limit": (1, [(2, 2), (3, 3), (1, 1)]),
    "lock_args": (
        None,
        [(["tenant"], ("tenant",)), (("tenant", "customer"), ("customer", "tenant")), ({"full"}, ("full",))],
    ),
    "lock_args_method": (None, [(one, one), (two, two), (three, three)]),
    "unique_across_queues": (False, [(True, True), (False, False), (True, True)]),
    "unique_across_actors": (False, [(True, True), (False, False), (True, True)]),
    "reschedule_delay": (5_000, [(1, 1_000), (0, 0), (0.25, 250)]),
    "reschedule_limit": (None, [(3, 3), (0, 0), (None, None)]),
    "after_unlock": (None, [(one, one), (two, two), (three, three)]),
    "lock_info": (False, [(True, True), (False, False), (True, True)]),
}


class TestLevels:
    """Message beats actor beats middleware, option by option."""

    def test_every_option_is_in_the_table(self) -> None:
        """An option that is added is tested here; `on_conflict` below."""
        assert set(LEVELS) | {"on_conflict"} == OPTION_NAMES

    @pytest.mark.parametrize("name", LEVELS)
    def test_the_nearest_level_wins(self, name: str) -> None:
        """A default, then the middleware, then the actor, then the message."""
        default, [(low, low_is), (middle, middle_is), (high, high_is)] = LEVELS[name]

        assert getattr(resolve(), name) == default
        assert getattr(resolve(middleware={name: low}), name) == low_is
        assert getattr(resolve(middleware={name: low}, actor={name: middle}), name) == middle_is
        assert getattr(resolve(middleware={name: low}, actor={name: middle}, message={name: high}), name) == high_is
        assert getattr(resolve(middleware={name: low}, message={}), name) == low_is
        assert getattr(resolve(actor={name: middle}, message={"max_retries": 1}), name) == middle_is

    @pytest.mark.parametrize("name", ["lock_ttl", "lock_args", "lock_args_method", "reschedule_limit", "after_unlock"])
    def test_none_on_a_nearer_level_takes_the_option_back(self, name: str) -> None:
        """What another level asks for can be unset."""
        _, [(value, _), *_] = LEVELS[name]

        assert getattr(resolve(middleware={name: value}, actor={name: None}), name) is None
        assert getattr(resolve(actor={name: value}, message={name: None}), name) is None

    def test_a_nearer_way_to_say_what_counts_displaces_the_other(self) -> None:
        """`lock_args` and `lock_args_method` contradict each other on one level only."""
        by_names = resolve(middleware={"lock_args_method": one}, actor={"lock_args": ["tenant"]})
        by_method = resolve(actor={"lock_args": ["tenant"]}, message={"lock_args_method": one})

        assert (by_names.lock_args, by_names.lock_args_method) == (("tenant",), None)
        assert (by_method.lock_args, by_method.lock_args_method) == (None, one)

    def test_a_lock_type_of_ones_own_has_a_name_like_the_others(self) -> None:
        """A row that is registered can be asked for, and is guessed at."""
        row = LockType("until_executed_alone", queue=Until.END, run=True)
        rules = OptionRules((*LOCK_TYPES, row), strategy_table(), {})

        assert rules.for_actor(Facts(), {"lock": "until_executed_alone"}).lock is row
        with pytest.raises(InvalidLockOptions, match=r"did you mean 'until_executed_alone'\?$"):
            rules.for_actor(Facts(), {"lock": "until_executed_alon"})

    def test_a_strategy_of_ones_own_has_a_name_like_the_others(self) -> None:
        """A strategy that is registered can be asked for, and is guessed at."""
        rules = OptionRules(LOCK_TYPES, strategy_table({"patient": lambda _: Action.RESCHEDULE}), {})

        assert rules.for_actor(Facts(), {"on_conflict": {"server": "patient"}}).server == "patient"
        with pytest.raises(InvalidLockOptions, match=r"did you mean 'patient'\?$"):
            rules.for_actor(Facts(), {"on_conflict": "patent"})


class TestOnConflict:
    """One name means both sides; a dict says each side, and the sides are resolved one by one."""

    @pytest.mark.parametrize("name", ["log", "raise", "reject", "replace", "reschedule"])
    def test_one_name_means_both_sides(self, name: str) -> None:
        """The same strategy at enqueue and at the worker."""
        options = resolve(actor={"on_conflict": name})

        assert (options.client, options.server) == (name, name)

    def test_where_one_name_is_not_possible_the_default_stands(self) -> None:
        """`replace` at the worker comes to a reschedule: what was accepted is not dropped."""
        strategy = strategy_table()["replace"]
        conflict = {
            "message_id": "",
            "actor_name": "",
            "queue_name": "",
            "digest": "",
            "holder_id": "",
            "rescheduled": 0,
        }

        assert strategy(Conflict(side="client", **conflict)) is Action.REPLACE  # type: ignore[arg-type]
        assert strategy(Conflict(side="server", **conflict)) is Action.RESCHEDULE  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("levels", "sides"),
        [
            ([{}, {"client": "raise"}, {}], ("raise", None)),
            ([{}, {"server": "log"}, {}], (None, "log")),
            ([{"server": "log"}, {"client": "raise"}, {}], ("raise", "log")),
            (["reject", {"client": "raise"}, {}], ("raise", "reject")),
            (["log", {"client": "raise"}, {"server": "reject"}], ("raise", "reject")),
            ([{"client": "raise"}, "reject", {"client": "log"}], ("log", "reject")),
            (["reject", {}, {}], ("reject", "reject")),
            (["reject", {"client": None}, {}], (None, "reject")),
            (["reject", None, {}], (None, None)),
            (["log", "raise", None], (None, None)),
            ([None, "raise", {}], ("raise", "raise")),
        ],
    )
    def test_each_side_is_taken_from_the_nearest_level_that_has_it(
        self, levels: list[object], sides: tuple[str | None, str | None]
    ) -> None:
        """What a level says of one side leaves the other as it is; `None` stands for the default."""
        middleware, actor, message = ({"on_conflict": level} for level in levels)

        options = resolve(middleware=middleware, actor=actor, message=message)

        assert (options.client, options.server) == sides

    def test_a_level_that_says_nothing_changes_nothing(self) -> None:
        """An option that isn't there isn't `None`."""
        options = resolve(middleware={"on_conflict": "reject"}, actor={"lock_limit": 2}, message={"lock_limit": 3})

        assert (options.client, options.server) == ("reject", "reject")


class TestTheLockOfOneMessage:
    """A message may ask for another lock than its actor, or for none."""

    @pytest.mark.parametrize("nothing", [None, False])
    def test_none_sends_it_without_a_lock(
        self, broker: StubBroker, memory: "redis.Redis", nothing: bool | None
    ) -> None:
        """It goes in beside the one that holds the lock, and is no duplicate of it."""
        actor = declare(broker, lock="until_executed")
        actor.send("acme", 1)
        keys = memory.keys()

        message = actor.send_with_options(args=("acme", 1), lock=nothing)

        assert (outcome(message).action, outcome(message).digest) == ("enqueued", None)
        assert broker.queues["default"].qsize() == 2
        assert memory.keys() == keys

    def test_it_may_have_a_lock_where_its_actor_has_none(self, broker: StubBroker) -> None:
        """An actor need not say anything."""
        actor = declare(broker)
        first = actor.send_with_options(args=("acme", 1), lock="until_executed")

        second = actor.send_with_options(args=("acme", 1), lock="until_executed")

        assert outcome(second).holder_id == first.message_id
        assert broker.queues["default"].qsize() == 1

    def test_its_options_hold_for_it_alone(self, broker: StubBroker) -> None:
        """The actor's own stand for the next message."""
        actor = declare(broker, lock="until_executed", lock_args=["tenant"])
        actor.send("acme", 1)

        other = actor.send_with_options(args=("acme", 2), lock_args=["customer"])
        same = actor.send("acme", 3)

        assert outcome(other).action == "enqueued"
        assert outcome(same).action == "discarded"

    def test_a_method_is_named_in_json(self, broker: StubBroker) -> None:
        """No JSON carries a callable; a class-based actor's method has a name."""
        options = {"broker": broker, "lock": "until_executed"}

        class Export(GenericActor):
            Meta = type("Meta", (), options)  # type: ignore[assignment]

            def perform(self, tenant: str, customer: int) -> None: ...

            def by_tenant(self, tenant: str, customer: int) -> str:
                return tenant

        actor: Any = Export
        actor.send_with_options(args=("acme", 1), lock_args_method="by_tenant")
        second = actor.send_with_options(args=("acme", 2), lock_args_method="by_tenant")

        assert outcome(second).action == "discarded"


def _pay(broker: StubBroker, options: Mapping[str, Any] | None = None, **methods: Any) -> dict[str, Any]:
    """The body of a class-based actor."""
    meta = type("Meta", (), {"broker": broker, "actor_name": "Pay", "lock": "until_executed", **(options or {})})
    return {"Meta": meta, "perform": lambda _self, account: account, **methods}


class TestAClassBasedActor:
    """Its methods may stand for callables."""

    def test_its_method_after_unlock_is_the_hook(self) -> None:
        """Unless the option says otherwise."""
        rules = OptionRules(LOCK_TYPES, strategy_table(), {})
        actor = Facts(methods={"after_unlock": one})

        assert rules.for_actor(actor, {}).after_unlock is one
        assert rules.for_actor(actor, {"after_unlock": two}).after_unlock is two

    @pytest.mark.parametrize("hook", [lambda _, __, ___: None, later, yields])
    def test_a_method_after_unlock_that_is_no_hook_is_refused(self, broker: StubBroker, hook: Any) -> None:
        """Dramatiq would only log any other error, and declare the actor without its lock."""
        with pytest.raises(InvalidLockOptions, match=r"^actor 'Pay': option after_unlock "):
            type("Pay", (GenericActor,), _pay(broker, after_unlock=hook))

    def test_a_method_for_the_key_that_nobody_would_await_is_refused(self, broker: StubBroker) -> None:
        """Each send would be told that a coroutine has no canonical form."""

        async def key(_: object, account: object) -> object:
            return account

        with pytest.raises(InvalidLockOptions, match=r"^actor 'Pay': option lock_args_method must be a plain function"):
            type("Pay", (GenericActor,), _pay(broker, {"lock_args_method": "key"}, key=key))

    def test_its_method_is_found_by_name(self) -> None:
        """`lock_args_method="key"`."""
        rules = OptionRules(LOCK_TYPES, strategy_table(), {})

        assert rules.for_actor(Facts(methods={"key": one}), {"lock_args_method": "key"}).lock_args_method is one

    def test_a_method_that_it_lacks_is_refused(self, broker: StubBroker) -> None:
        """At the declaration of the class, naming actor and option; what every actor has is no method of its own."""
        for name in ("kee", "send", "missing"):
            with pytest.raises(InvalidLockOptions, match=rf"^actor 'Export': option lock_args_method names '{name}'"):

                class Export(GenericActor):
                    Meta = type("Meta", (), {"broker": broker, "lock_args_method": name})  # type: ignore[assignment]

                    def perform(self) -> None: ...

                    def key(self) -> str:
                        return ""


def test_redis_is_not_asked_at_declaration() -> None:
    """Actors can be declared where Redis cannot be reached, as a program does at import."""
    server = fakeredis.FakeServer()
    server.connected = False
    broker = StubBroker(middleware=[UniqueMiddleware(fakeredis.FakeRedis(server=server))])

    declare(broker, lock="until_executed")

    assert "export" in broker.actors
