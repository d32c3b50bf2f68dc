"""Sameness: which messages have one digest, and which have not.

The digest has to be the same wherever it is computed: by the producer from the arguments as they were given, by a
worker from the arguments as they were delivered, in every process and every release.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from enum import IntEnum
from pathlib import Path
from typing import Any
from unittest import mock

import dramatiq
import pytest
from dramatiq import Encoder, GenericActor, JSONEncoder, PickleEncoder, get_encoder, set_encoder
from dramatiq.brokers.stub import StubBroker
from hypothesis import assume, example, given
from hypothesis import strategies as st

import dramatiq_unique.digest
from dramatiq_unique import InvalidLockOptions, outcome
from dramatiq_unique.actors import ActorView
from dramatiq_unique.digest import digest_of
from dramatiq_unique.lock_types import LOCK_TYPES
from dramatiq_unique.options import OptionRules
from dramatiq_unique.strategies import strategy_table


ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
"""What JSON gives back as it was."""

PYTHON = st.recursive(
    JSON | st.floats() | st.sampled_from(["\ud800", -0.0, 2**64, 10**30]),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans() | st.none() | st.floats(), inner, max_size=4)
    ),
    max_leaves=12,
)
"""What JSON takes, and gives back as something else: tuples, keys that are no strings."""


def digest(
    fn: Callable[..., Any],
    *args: Any,
    _name: str = "export",
    _queue: str = "default",
    _options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> str:
    """Compute the digest of a message to an actor that is this function."""
    actor = ActorView.of(_name, fn)
    options = OptionRules(LOCK_TYPES, strategy_table(), {}).for_actor(actor, _options or {})
    return digest_of(actor, options, message_id="an-id", queue_name=_queue, args=args, kwargs=kwargs)


def delivered(value: Any) -> Any:
    """Take a value through JSON, as a message does."""
    return json.loads(json.dumps(value))


def export(tenant: object, customer: object = None, *, full: object = False) -> None:
    """Stand for an actor."""


def anything(*args: object, **kwargs: object) -> None:
    """Stand for an actor that takes anything."""


MISSING = object()


def both_ways(tenant: object, customer: object = "", full: object = 1.5) -> None:
    """Stand for an actor all of whose parameters may be given by place and by name."""


def by_place_alone(tenant: object, /, customer: object = None) -> None:
    """Stand for an actor one of whose parameters has no name."""


def with_a_sentinel(tenant: object, customer: object = MISSING) -> None:
    """Stand for an actor that tells `None` from nothing."""


def flip(value: Any) -> Any:
    """Turn the order of every dict in a value around."""
    if isinstance(value, dict):
        return {key: flip(item) for key, item in reversed(value.items())}
    return [flip(item) for item in value] if isinstance(value, list) else value


class Secret:
    """An argument that cannot be encoded, and that nobody should see."""

    def __repr__(self) -> str:
        return "hunter2"

    __str__ = __repr__


def whole_text(error: BaseException) -> str:
    """Everything that a traceback shows of an error, its causes included."""
    return "".join(traceback.format_exception(error))


@pytest.fixture
def encoder() -> Iterator[Callable[[Encoder], None]]:
    """Change Dramatiq's global encoder, for one test."""
    before = get_encoder()
    yield set_encoder
    set_encoder(before)


class Word(str):
    """A string that is more than one."""

    __slots__ = ()


class Size(IntEnum):
    """A number that has a name."""

    BIG = 3


ANY = PYTHON | st.sampled_from([Size.BIG, Word("a"), "\ud83d\ude00", 10**5000, Secret(), b"x", {1}, MISSING])
"""What an argument may be, whether or not it has a canonical form."""
ACTORS = [export, anything, both_ways, by_place_alone, with_a_sentinel]


class TestTheShortWay:
    """Most arguments are seen to be canonical as they are, and to fit, without asking the encoder and `inspect`."""

    @given(
        st.sampled_from(ACTORS),
        st.lists(ANY, max_size=4),
        st.dictionaries(st.sampled_from(["tenant", "customer", "full", "other"]), ANY, max_size=3),
        st.sampled_from([JSONEncoder(), PickleEncoder(), type("Own", (JSONEncoder,), {})()]),
    )
    def test_leads_where_the_long_way_does(
        self, fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], chosen: Encoder
    ) -> None:
        """The same digest, or the same error, for whatever is passed in whatever way."""

        def found() -> str:
            try:
                return digest(fn, *args, **kwargs)
            except InvalidLockOptions as error:
                return str(error)

        before = get_encoder()
        set_encoder(chosen)
        try:
            short = found()
            with (
                mock.patch.object(ActorView, "_bound_plainly", return_value=None),
                mock.patch.object(dramatiq_unique.digest, "_comes_back_as_it_is", return_value=False),
            ):
                assert short == found()
        finally:
            set_encoder(before)


class TestTheSame:
    """What is the same job has one digest."""

    @given(PYTHON, PYTHON)
    @example((1, (2, 3)), {1: {None: "x"}, 2.5: [()]})
    @example({1: "one", "1": "also one"}, {"b": 1, "a": 2})
    def test_before_and_after_it_travelled(self, one: Any, other: Any) -> None:
        """A worker finds in the delivered message what the producer found in the arguments."""
        for fn in (export, anything):
            assert digest(fn, one, full=other) == digest(fn, delivered(one), full=delivered(other))

    @given(JSON, JSON, JSON)
    def test_however_the_arguments_are_passed(self, tenant: Any, customer: Any, full: Any) -> None:
        """By position, by keyword, in any order."""
        assert (
            digest(export, tenant, customer, full=full)
            == digest(export, tenant, customer=customer, full=full)
            == digest(export, tenant=tenant, customer=customer, full=full)
            == digest(export, full=full, customer=customer, tenant=tenant)
        )

    @given(JSON)
    def test_with_a_default_left_out_or_spelled_out(self, tenant: Any) -> None:
        """A default is an argument like any other."""
        assert (
            digest(export, tenant)
            == digest(export, tenant, None)
            == digest(export, tenant, full=False)
            == digest(export, customer=None, full=False, tenant=tenant)
        )

    @given(JSON)
    def test_whatever_the_order_of_keys(self, value: Any) -> None:
        """A dict is what is in it, at every depth."""
        assert digest(export, value) == digest(export, flip(value))

    @given(st.lists(JSON))
    def test_as_a_tuple_and_as_a_list(self, value: list[Any]) -> None:
        """JSON makes them the same."""
        assert digest(export, value) == digest(export, tuple(value))

    def test_whatever_the_encoder_makes_the_same(self) -> None:
        """JSON writes an enum of ints as its number, and a key that is a number as a string."""

        class Size(IntEnum):
            BIG = 3

        assert digest(export, Size.BIG) == digest(export, 3)
        assert digest(export, {3: "x"}) == digest(export, {"3": "x"})

    def test_on_the_queue_and_its_delay_queue(self) -> None:
        """A delay queue's name never counts."""
        assert digest(export, 1, _queue="default.DQ") == digest(export, 1, _queue="default")

    def test_whether_anything_is_taken_by_keyword_in_one_order_or_another(self) -> None:
        """Under `**kwargs` too."""
        assert digest(anything, a=1, b=2) == digest(anything, b=2, a=1)

    @pytest.mark.parametrize("seed", ["0", "1", "4242"])
    def test_in_every_process(self, seed: str) -> None:
        """Whatever the seed of Python's own hashes; sets of names included."""
        program = (
            "from tests.unit.test_digest import digest, export\n"
            "names = {'tenant', 'customer', 'full'}\n"
            "print(digest(export, {'b': 1, 'a': [{'d': 2, 'c': 3}]}, 'x', _options={'lock_args': names}))"
        )

        ran = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )

        assert ran.stdout.strip() == digest(
            export, {"b": 1, "a": [{"d": 2, "c": 3}]}, "x", _options={"lock_args": ["customer", "full", "tenant"]}
        )

    @pytest.mark.parametrize(
        ("found", "pinned"),
        [
            (lambda: digest(export, "acme", 42), "c74fa86845a0e40d600d548010d53d8ffe770a3f"),
            (
                lambda: digest(export, {"b": [1, 2.5, None], "a": "ü"}, full=True),
                "9e66b998b5263bd016fca7dc90e461372074c734",
            ),
            (
                lambda: digest(export, "acme", 42, _options={"lock_args": ["tenant"]}),
                "d9c0c020e7adcaa6acb6e7790f9374765516ef65",
            ),
            (
                lambda: digest(export, "acme", _options={"unique_across_queues": True}),
                "6e150f3a10170ef3bd03f01941bbb26a8e3c9cf5",
            ),
            (
                lambda: digest(export, "acme", _options={"unique_across_actors": True}),
                "6b020bef92a37d5b07a589a22f9cf24a43c44370",
            ),
            (
                lambda: digest(export, "acme", _options={"lock_args_method": lambda *_, **__: 7}),
                "d89b5d8c6e5f0a4f390ab27b053da7a34d0e79c6",
            ),
            (lambda: digest(anything, 1, 2, three=3), "cb80f5fd23147dd6ac33330bfdccf9fe3abe46d1"),
            (lambda: digest(export), "028d0940d8d492c61f454caf6fe8e91ad81b57d2"),
        ],
        ids=["plain", "nested", "lock_args", "across queues", "across actors", "method", "variadic", "does not fit"],
    )
    def test_in_every_release(self, found: Callable[[], str], pinned: str) -> None:
        """The rule is pinned: a change of it lets one more copy in while producers of both releases run.

        If that is meant, say so in the changelog.
        """
        assert found() == pinned

    def test_is_forty_hexadecimal_characters(self) -> None:
        """160 bits: no two jobs meet by accident, and no key in Redis is long."""
        assert len(digest(export, "x" * 10_000)) == 40
        assert set(digest(export, 1)) <= set("0123456789abcdef")


class TestAnother:
    """What is another job has another digest."""

    @given(JSON, JSON)
    @example(1, 1.0)
    @example(one=1, other=True)
    @example(one=0, other=False)
    @example(1, "1")
    @example(None, "null")
    @example([], {})
    @example([1], 1)
    @example([1, [2]], [[1], 2])
    @example({"a": "b"}, ["a", "b"])
    @example("ab", ["a", "b"])
    @example("", None)
    @example(0.0, -0.0)
    def test_for_other_arguments(self, one: Any, other: Any) -> None:
        """Values that JSON tells apart."""
        assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))

        assert digest(export, one) != digest(export, other)

    @given(JSON, JSON)
    def test_for_the_same_values_in_other_places(self, one: Any, other: Any) -> None:
        """Arguments count with their parameter."""
        assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))

        assert digest(export, one, other) != digest(export, other, one)

    def test_where_one_takes_them_apart_and_the_other_together(self) -> None:
        """`f("a", "b")`, `f("ab")` and `f(["a", "b"])` are three jobs."""
        assert len({digest(anything, "a", "b"), digest(anything, "ab"), digest(anything, ["a", "b"])}) == 3
        assert digest(anything, 1, 2) != digest(anything, 1, two=2)

    def test_for_another_actor(self) -> None:
        """Two actors that take the same arguments do different work."""
        assert digest(export, 1, _name="export") != digest(export, 1, _name="import")

    def test_on_another_queue(self) -> None:
        """A queue may stand for a tenant or a region."""
        assert digest(export, 1, _queue="fast") != digest(export, 1, _queue="slow")

    def test_where_names_of_actor_and_queue_run_together(self) -> None:
        """`ab` on `c` isn't `a` on `bc`."""
        assert digest(export, 1, _name="ab", _queue="c") != digest(export, 1, _name="a", _queue="bc")


class TestAcross:
    """The queue or the actor's name can be left out."""

    def test_queues(self) -> None:
        """One job, whichever queue it is sent to; another actor's stays another."""
        across = {"unique_across_queues": True}

        assert digest(export, 1, _queue="a", _options=across) == digest(export, 1, _queue="b", _options=across)
        assert digest(export, 1, _name="a", _options=across) != digest(export, 1, _name="b", _options=across)

    def test_actors(self) -> None:
        """One job, whichever of the actors does it; on another queue it is another."""
        across = {"unique_across_actors": True}

        assert digest(export, 1, _name="a", _options=across) == digest(export, 1, _name="b", _options=across)
        assert digest(export, 1, _queue="a", _options=across) != digest(export, 1, _queue="b", _options=across)

    def test_both(self) -> None:
        """Only the arguments are left."""
        across = {"unique_across_queues": True, "unique_across_actors": True}

        assert digest(export, 1, _name="a", _queue="a", _options=across) == digest(
            export, 1, _name="b", _queue="b", _options=across
        )
        assert digest(export, 1, _options=across) != digest(export, 2, _options=across)


class TestLockArgs:
    """Some of the parameters count."""

    def test_only_those_that_are_named_count(self) -> None:
        """The others may be anything, even what has no canonical form."""
        by_tenant = {"lock_args": ["tenant"]}

        assert digest(export, 1, 2, _options=by_tenant) == digest(export, 1, object(), full=3, _options=by_tenant)
        assert digest(export, 1, 2, _options=by_tenant) != digest(export, 2, 2, _options=by_tenant)

    def test_none_of_them_may_count(self) -> None:
        """An empty list: one lock for the actor, whatever its arguments."""
        assert digest(export, 1, _options={"lock_args": []}) == digest(export, 2, _options={"lock_args": []})

    def test_the_order_of_names_means_nothing(self) -> None:
        """A list, a tuple or a set; one name twice is one name."""
        spellings = [["tenant", "full"], ("full", "tenant"), {"tenant", "full"}, ["full", "tenant", "full"]]

        assert len({digest(export, 1, 2, full=3, _options={"lock_args": names}) for names in spellings}) == 1

    def test_all_that_is_taken_by_keyword_has_one_name(self) -> None:
        """`args` and `kwargs` are parameters too."""
        by_kwargs = {"lock_args": ["kwargs"]}

        assert digest(anything, 1, a=2, _options=by_kwargs) == digest(anything, 3, a=2, _options=by_kwargs)
        assert digest(anything, 1, a=2, _options=by_kwargs) != digest(anything, 1, a=3, _options=by_kwargs)


class TestLockArgsMethod:
    """A callable of the arguments says what counts."""

    def test_it_is_called_like_the_actor(self) -> None:
        """With the arguments as they were sent."""
        calls = []

        def key(*args: object, **kwargs: object) -> str:
            calls.append((args, kwargs))
            return "key"

        digest(export, 1, full=2, _options={"lock_args_method": key})

        assert calls == [((1,), {"full": 2})]

    def test_what_it_returns_counts_and_nothing_else(self) -> None:
        """Two messages with one key are the same."""

        def domain(address: str, *_: object, **__: object) -> str:
            return address.rpartition("@")[2]

        options = {"lock_args_method": domain}

        assert digest(export, "ann@example.com", _options=options) == digest(
            export, "bob@example.com", _options=options
        )
        assert digest(export, "ann@example.com", _options=options) != digest(
            export, "ann@example.net", _options=options
        )

    @pytest.mark.parametrize("key", [0, "", False, [], {}, 0.0])
    def test_an_empty_key_is_a_key(self, key: object) -> None:
        """Only `None` is none."""
        assert digest(export, 1, _options={"lock_args_method": lambda *_, **__: key})

    def test_a_key_is_not_taken_for_arguments(self) -> None:
        """A key that looks like the arguments of another message locks nothing of its."""
        by_key = {"lock_args_method": lambda tenant, *_, **__: {"tenant": tenant, "customer": None, "full": False}}

        assert digest(export, 1, _options=by_key) != digest(export, 1)

    def test_it_may_be_a_method_of_a_class_based_actor(self, broker: StubBroker) -> None:
        """Named in `Meta`, and found on the instance."""

        class Export(GenericActor):
            prefix = "tenant"
            Meta = type(  # type: ignore[assignment]
                "Meta", (), {"broker": broker, "lock": "until_executed", "lock_args_method": "key"}
            )

            def perform(self, tenant: str, customer: int) -> None: ...

            def key(self, tenant: str, customer: int) -> str:
                return f"{self.prefix} {tenant}"

        actor: Any = Export
        first = actor.send("acme", 1)

        assert outcome(actor.send("acme", 2)).holder_id == first.message_id
        assert outcome(actor.send("umbrella", 1)).action == "enqueued"

    def test_it_that_raises_is_named(self, broker: StubBroker) -> None:
        """An error of the user's own code is told as the cause; nothing is enqueued."""

        def key_of_export(tenant: str, *_: object, **__: object) -> str:
            raise KeyError(tenant)

        actor = dramatiq.actor(broker=broker, lock="until_executed", lock_args_method=key_of_export)(export)

        with pytest.raises(
            InvalidLockOptions,
            match=r"^message [0-9a-f-]{36} of actor 'export': lock_args_method 'key_of_export' raised KeyError",
        ) as raised:
            actor.send("acme")

        assert isinstance(raised.value.__cause__, KeyError)
        assert broker.queues["default"].empty()

    def test_it_that_returns_none_is_named(self, broker: StubBroker) -> None:
        """A forgotten `return` would be one lock for every message."""

        def key_of_export(tenant: str, *_: object, **__: object) -> None: ...

        actor = dramatiq.actor(broker=broker, lock="until_executed", lock_args_method=key_of_export)(export)

        with pytest.raises(
            InvalidLockOptions,
            match=r"^message [0-9a-f-]{36} of actor 'export': lock_args_method 'key_of_export' returned None, .* retu",
        ):
            actor.send("acme")

        assert broker.queues["default"].empty()

    def test_it_that_returns_what_has_no_canonical_form_is_told(self) -> None:
        """What counts has to be told from another."""
        with pytest.raises(InvalidLockOptions, match="what lock_args_method returned has no canonical form") as raised:
            digest(export, 1, _options={"lock_args_method": lambda *_, **__: Secret()})

        assert "hunter2" not in whole_text(raised.value)


class TestWithoutACanonicalForm:
    """Arguments that no encoder tells apart are refused, and what to do is said."""

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            (Secret(), "Secret"),
            ({1, 2}, "set"),
            (b"x", "bytes"),
            (1j, "complex"),
            ([{"deep": Secret()}], "list"),
            ({(1, 2): 3}, "dict"),
        ],
        ids=["object", "set", "bytes", "complex", "nested", "key"],
    )
    def test_the_parameter_and_its_type_are_named_and_never_the_value(self, value: object, kind: str) -> None:
        """The text points at `lock_args`, and shows nothing of what may be secret."""
        with pytest.raises(
            InvalidLockOptions,
            match=rf"^message an-id of actor 'export': argument 'customer' \({kind}\) has no canonical form .* lock_a",
        ) as raised:
            digest(export, 1, value)

        assert "hunter2" not in whole_text(raised.value)

    def test_what_is_nested_without_end_is_refused(self) -> None:
        """A list that holds itself, and one that is deeper than the encoder goes."""
        endless: list[Any] = []
        endless.append(endless)
        deep: list[Any] = []
        for _ in range(200_000):
            deep = [deep]

        for value in (endless, deep):
            with pytest.raises(InvalidLockOptions, match=r"argument 'tenant' \(list\) has no canonical form"):
                digest(export, value)

    def test_what_fits_no_parameter_is_refused_without_a_name(self) -> None:
        """Arguments that don't fit have no parameter to name."""
        with pytest.raises(InvalidLockOptions, match="its arguments have no canonical form") as raised:
            digest(export, 1, 2, 3, 4, Secret())

        assert "hunter2" not in whole_text(raised.value)

    def test_the_sender_hears_of_it_and_nothing_is_enqueued(self, broker: StubBroker) -> None:
        """Under a lock it is our error that points at `lock_args`, not the encoder's."""
        actor = dramatiq.actor(broker=broker, lock="until_executed")(export)

        with pytest.raises(InvalidLockOptions, match=r"argument 'tenant' \(Secret\)"):
            actor.send(Secret())

        assert broker.queues["default"].empty()

    def test_a_default_that_no_message_could_spell_out_is_left_out(self) -> None:
        """A sentinel says nothing about sameness, and travels with nobody."""
        unset = object()

        def fn(tenant: int, since: object = unset, until: object = unset) -> None: ...

        assert digest(fn, 1) == digest(fn, tenant=1)
        assert digest(fn, 1) != digest(fn, 1, since=5)
        assert digest(fn, 1, since=5) != digest(fn, 1, until=5)
        with pytest.raises(InvalidLockOptions, match=r"argument 'since' \(object\)"):
            digest(fn, 1, since=object())


class TestOtherEncoders:
    """What the message encoder makes the same is the same, whichever encoder it is."""

    def test_pickle_tells_as_much_apart_as_json(self, encoder: Callable[[Encoder], None]) -> None:
        """Numbers, strings, lists, dicts: as under JSON."""
        encoder(PickleEncoder())

        assert len({digest(export, value) for value in (1, 1.0, True, "1", None, [1], {"1": 1})}) == 7
        assert digest(export, (1, (2,))) == digest(export, [1, [2]])
        assert digest(export, {"a": 1, "b": 2}) == digest(export, {"b": 2, "a": 1})

    @given(JSON)
    def test_pickle_finds_the_same_before_and_after(self, value: Any) -> None:
        """A worker under the same encoder agrees with the producer."""
        before = get_encoder()
        set_encoder(PickleEncoder())
        try:
            message: dramatiq.Message[Any] = dramatiq.Message("default", "export", (value,), {}, {})
            (arrived,) = dramatiq.Message.decode(message.encode()).args
            assert digest(export, arrived) == digest(export, value)
        finally:
            set_encoder(before)

    @pytest.mark.parametrize(
        "value", [Secret(), {1, 2}, b"x", NOW, {1: 2}], ids=["object", "set", "bytes", "time", "key"]
    )
    def test_what_pickle_carries_has_no_canonical_form_all_the_same(
        self, encoder: Callable[[Encoder], None], value: object
    ) -> None:
        """A pickle of two equal things need not be the same, so they count only where `lock_args` leaves them out."""
        encoder(PickleEncoder())

        with pytest.raises(
            InvalidLockOptions, match=r"argument 'customer' .* has no canonical form .* lock_args"
        ) as raised:
            digest(export, 1, value)
        assert "hunter2" not in whole_text(raised.value)
        assert digest(export, 1, value, _options={"lock_args": ["tenant"]})

    def test_an_encoder_of_ones_own_says_what_its_values_are(self, encoder: Callable[[Encoder], None]) -> None:
        """One that writes a time as a string makes it the same as that string, as the worker will see it."""

        class TimesToo(Encoder):
            def encode(self, data: Any) -> bytes:
                return json.dumps(data, default=datetime.isoformat).encode()

            def decode(self, data: bytes) -> Any:
                return json.loads(data)

        encoder(TimesToo())

        assert digest(export, NOW) == digest(export, NOW.isoformat())
        assert digest(export, 1) != digest(export, "1")
        with pytest.raises(InvalidLockOptions, match=r"argument 'tenant' \(Secret\)"):
            digest(export, Secret())

    def test_a_json_encoder_of_ones_own_gives_the_digests_of_json(self, encoder: Callable[[Encoder], None]) -> None:
        """Where the output is the same, so is the digest: changing the encoder's class changes no lock."""

        class Spaced(JSONEncoder):
            def encode(self, data: Any) -> bytes:
                return json.dumps(data, indent=2).encode()

        before = digest(export, {"b": (1, 2.5), "a": None}, "x")
        encoder(Spaced())

        assert digest(export, {"b": (1, 2.5), "a": None}, "x") == before


class TestSignatures:
    """Arguments are bound to the actor's own signature where they fit."""

    def test_arguments_that_do_not_fit_are_taken_as_they_were_given(self) -> None:
        """The actor will complain, not the lock."""
        assert digest(export, 1, 2, 3, 4) == digest(export, 1, 2, 3, 4)
        assert digest(export, 1, 2, 3, 4) != digest(export, 1, 2, 3, 5)
        assert digest(export, unknown=1) != digest(export, unknown=2)
        assert digest(export) == digest(export)

    def test_an_async_actor_has_the_signature_of_its_function(self, broker: StubBroker) -> None:
        """Dramatiq wraps it; a default spelled out is still the default."""

        async def fetch(url: str, retries: int = 3) -> None: ...

        actor = dramatiq.actor(broker=broker, lock="until_executed")(fetch)
        first = actor.send("/")

        assert outcome(actor.send(url="/", retries=3)).holder_id == first.message_id
        assert outcome(actor.send("/", 4)).action == "enqueued"

    def test_a_class_based_actor_has_the_signature_of_perform(self, broker: StubBroker) -> None:
        """Without `self`."""

        class Export(GenericActor):
            Meta = type("Meta", (), {"broker": broker, "lock": "until_executed"})  # type: ignore[assignment]

            def perform(self, tenant: str, customer: int = 1) -> None: ...

        actor: Any = Export
        first = actor.send("acme")

        assert outcome(actor.send(tenant="acme", customer=1)).holder_id == first.message_id
        assert outcome(actor.send("acme", 2)).action == "enqueued"

    def test_an_actor_that_this_process_does_not_know_is_locked_by_what_it_is_given(self, broker: StubBroker) -> None:
        """A producer may send to an actor by name; the lock is then on the message alone."""
        broker.declare_queue("default")

        def send(*args: object) -> str:
            message: dramatiq.Message[Any] = dramatiq.Message("default", "far", args, {}, {"lock": "until_executed"})
            return outcome(broker.enqueue(message)).action

        assert [send(1), send(1), send(2)] == ["enqueued", "discarded", "enqueued"]
