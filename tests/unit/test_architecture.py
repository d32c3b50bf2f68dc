"""The listing of the folder is the architecture, and imports in it point one way."""

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

import dramatiq_unique


PACKAGE = "dramatiq_unique"
FOLDER = Path(str(dramatiq_unique.__file__)).parent
MODULES = {
    ".".join((PACKAGE, *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in FOLDER.rglob("*.py")
}
SCRIPTS = sorted(path for path in FOLDER.rglob("*.lua") if not path.name.startswith("_"))
"""Each operation; what several begin with has a name that begins with an underscore."""

# The names of the contract, section 12.
NAMES = {
    "UniqueMiddleware",
    "LockType",
    "outcome",
    "Outcome",
    "original",
    "DuplicateMessage",
    "InvalidLockOptions",
    "LockStoreUnavailable",
    "UniqueError",
}


def imports_of(module: str) -> set[str]:
    """Name the modules that a module imports, ours with their whole name; inside functions and blocks too."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            name = str(node.module)
            submodules = {f"{name}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= submodules or {name}
    return found


IMPORTS = {module: imports_of(module) for module in MODULES}


def ours(*modules: str) -> set[str]:
    """Name what modules of ours import from the package, without its prefix."""
    return {
        name.removeprefix(f"{PACKAGE}.") for module in modules for name in IMPORTS[module] if name.startswith(PACKAGE)
    }


def inside(folder: str) -> list[str]:
    """Name the modules of a folder of the package."""
    return [module for module in MODULES if f"{module}.".startswith(f"{PACKAGE}.{folder}.")]


def others(*modules: str) -> set[str]:
    """Name the packages of others that modules of ours import."""
    return {name.partition(".")[0] for module in modules for name in IMPORTS[module] if not name.startswith(PACKAGE)}


class TestImports:
    """They point one way."""

    def test_there_is_no_circle(self) -> None:
        """Take away what needs nothing that is left, again and again: nothing stays."""
        left = {module: {name for name in names if name in MODULES} for module, names in IMPORTS.items()}
        while ready := {module for module, needs in left.items() if not needs}:
            left = {module: needs - ready for module, needs in left.items() if module not in ready}

        assert left == {}

    @pytest.mark.parametrize("module", ["errors", "durations", "lock_types", "strategies", "signatures"])
    def test_the_words_know_nobody(self, module: str) -> None:
        """What everything else is said in."""
        assert ours(f"{PACKAGE}.{module}") == set()

    def test_options_know_the_words_only(self) -> None:
        """Values, durations, errors, lock types, signatures, strategies; neither Dramatiq nor Redis."""
        module = f"{PACKAGE}.options"

        assert ours(module) <= {"durations", "errors", "lock_types", "option_values", "signatures", "strategies"}
        assert not others(module) & {"dramatiq", "redis"}

    def test_the_digest_knows_options(self) -> None:
        """And how an actor looks; not Redis."""
        module = f"{PACKAGE}.digest"

        assert ours(module) <= {"actors", "errors", "options"}
        assert "redis" not in others(module)

    def test_the_store_knows_redis_and_not_dramatiq(self) -> None:
        """Of ours, it knows itself and its error."""
        modules = inside("store")

        assert len(modules) > 1
        assert "redis" in others(*modules)
        assert "dramatiq" not in others(*modules)
        assert {name for name in ours(*modules) if name.partition(".")[0] != "store"} <= {"errors"}

    def test_the_broker_adapters_know_dramatiq_and_not_the_locks(self) -> None:
        """Of ours, they know each other."""
        modules = inside("brokers")

        assert len(modules) > 1
        assert "dramatiq" in others(*modules)
        assert {name for name in ours(*modules) if name.partition(".")[0] != "brokers"} == set()

    def test_the_driver_of_one_broker_is_imported_by_its_adapter_alone(self) -> None:
        """Whoever uses Redis needs no RabbitMQ driver."""
        assert [module for module in MODULES if "pika" in others(module)] == [f"{PACKAGE}.brokers.rabbitmq"]

    def test_what_is_looked_at_knows_the_store_only(self) -> None:
        """A lock and its holders, and on top of them an explanation, are words for who looks."""
        assert ours(f"{PACKAGE}.holders") == {"store"}
        assert ours(f"{PACKAGE}.explanation") == {"holders"}
        assert others(f"{PACKAGE}.explanation", f"{PACKAGE}.holders") - STANDARD <= {"dramatiq"}

    def test_who_foretells_carries_nothing_out(self) -> None:
        """The decisions are asked for where they are taken; sending, keeping and letting go are another's."""
        asked = {"claim", "errors", "explanation", "holders", "parts", "store", "strategies"}

        assert ours(f"{PACKAGE}.explaining") <= asked
        assert not ours(f"{PACKAGE}.locks") & {"enqueueing", "processing", "holding", "conflicts", "guard", "binding"}

    def test_nobody_knows_the_middleware(self) -> None:
        """It joins the others; only the package itself offers it, and helpers for tests take it."""
        knowing = {module for module in MODULES if f"{PACKAGE}.middleware" in IMPORTS[module]}

        assert knowing == {PACKAGE, f"{PACKAGE}.testing", f"{PACKAGE}.switch"}

    def test_metrics_know_events_only(self) -> None:
        """Neither Redis nor Dramatiq: what is counted costs no round trip. The client is imported here alone."""
        module = f"{PACKAGE}.prometheus"

        assert ours(module) == {"events"}
        assert others(module) - STANDARD == {"prometheus_client"}
        assert [name for name in MODULES if "prometheus_client" in others(name)] == [module]

    def test_the_command_line_is_nobodys_need_and_knows_neither_redis_nor_the_middleware(self) -> None:
        """It uses what a user has; colours are an extra, imported in one module, and nobody needs that one."""
        modules = inside("cli")

        assert len(modules) > 1
        knowing = {name for name in MODULES if any(of in modules for of in IMPORTS[name])}
        assert knowing - set(modules) == {f"{PACKAGE}.__main__"}
        assert [name for name in MODULES if "rich" in others(name)] == [f"{PACKAGE}.cli.colours"]
        assert others(*modules) - STANDARD == {"dramatiq", "rich"}
        above = {"enqueueing", "processing", "holding", "conflicts", "guard", "binding", "middleware", "keeper"}
        assert not ours(*modules) & above

    def test_helpers_for_tests_need_nothing_else(self) -> None:
        """No test runner and no fake; of ours, what a user has, and two places that look into the store."""
        module = f"{PACKAGE}.testing"

        assert ours(module) == {"errors", "glimpse", "middleware", "outcome", "store.clearing", "switch"}
        assert others(module) - STANDARD == {"dramatiq"}
        assert ours(f"{PACKAGE}.glimpse") == {"parts", "store"}

    @pytest.mark.parametrize("module", ["glimpse", "prometheus", "store.clearing", "testing"])
    def test_nobody_needs_what_is_imported_by_name(self, module: str) -> None:
        """Whoever has no use for it does not import it."""
        knowing = {name for name in MODULES if f"{PACKAGE}.{module}" in IMPORTS[name]}

        assert knowing <= {f"{PACKAGE}.testing"}

    def test_only_the_store_and_what_is_redis_by_name_know_redis(self) -> None:
        """The middleware reads like the life of a message; where the locks are is another's business."""
        knowing = {module.removeprefix(f"{PACKAGE}.") for module in MODULES if "redis" in others(module)}

        assert {name for name in knowing if not name.startswith("store.")} == {"brokers.redis"}
        assert "hashlib" not in others(f"{PACKAGE}.middleware")

    def test_the_package_needs_what_it_says_it_needs(self) -> None:
        """Dramatiq, redis and structlog; pika comes with a broker, valkey with a client, the rest is an extra."""
        declared = re.findall(
            r"^dependencies = \[(.*)\]", (FOLDER.parent / "pyproject.toml").read_text("utf-8"), re.MULTILINE
        )
        needed = {"dramatiq", "redis", "structlog"}

        assert set(re.findall(r'"([a-z]+)', declared[0])) == needed
        assert not others(*MODULES) - needed - {"pika", "valkey", "prometheus_client", "rich"} - STANDARD


STANDARD = {
    "abc",
    "ast", "collections", "contextlib", "dataclasses", "datetime", "difflib", "enum", "errno", "fnmatch", "functools",
    "hashlib", "importlib", "inspect", "io", "itertools", "json", "logging", "math", "operator", "os", "pathlib",
    "queue", "random",
    "re", "secrets", "socket", "sys", "threading", "time", "traceback", "types", "typing", "uuid", "weakref",
    "__future__",
    "argparse", "heapq", "shutil", "unicodedata", "urllib",
}  # fmt: skip
"""What may be used of the standard library."""


class TestFiles:
    """One noun per file."""

    @pytest.mark.parametrize("module", sorted(MODULES))
    def test_a_module_opens_with_what_it_is_for(self, module: str) -> None:
        """A docstring, that is a sentence or more."""
        docstring = ast.get_docstring(ast.parse(MODULES[module].read_text(encoding="utf-8")))

        assert docstring
        assert re.match(r"[A-Z`].*[.:?]$", docstring.partition("\n\n")[0], re.DOTALL)

    def test_no_module_is_a_bucket(self) -> None:
        """A name says what is in a file."""
        buckets = {"utils", "util", "helpers", "common", "core", "base", "misc", "shared"}

        assert not {module.rpartition(".")[2].strip("_") for module in MODULES} & buckets

    @pytest.mark.parametrize("module", sorted(MODULES))
    def test_what_a_module_exports_is_there(self, module: str) -> None:
        """Each name in `__all__` exists, and stands there once, in order."""
        loaded = importlib.import_module(module)
        names = list(getattr(loaded, "__all__", []))

        assert [name for name in names if not hasattr(loaded, name)] == []
        assert len(names) == len(set(names))

    def test_the_package_is_typed(self) -> None:
        """Type checkers of users look at it."""
        assert (FOLDER / "py.typed").is_file()


class TestScripts:
    """One operation in Redis is one file."""

    def test_there_are_some(self) -> None:
        """The tests below look at something."""
        assert {path.stem for path in SCRIPTS} >= {
            "acquire",
            "begin",
            "finish",
            "release",
            "renew",
            "restore",
            "withdraw",
        }

    @pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.stem))
    def test_one_fits_on_a_page(self, path: Path) -> None:
        """Forty lines at most, its contract included."""
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 40

    @pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.stem))
    def test_one_opens_with_its_contract(self, path: Path) -> None:
        """Its name, its keys, its arguments, its answer, and why it must be atomic."""
        lines = path.read_text(encoding="utf-8").splitlines()
        contract = "\n".join(lines[: next(number for number, line in enumerate(lines) if not line.startswith("--"))])

        assert contract.startswith(f"-- {path.stem}: ")
        for word in ("KEYS", "ARGV", "gives", "Atomic because"):
            assert re.search(rf"^-- {word} ", contract, re.MULTILINE), word

    @pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.stem))
    def test_one_uses_the_keys_and_arguments_that_its_contract_names(self, path: Path) -> None:
        """None is used that isn't told, and none is told that isn't used."""
        contract, code = split(path)
        for kind in ("KEYS", "ARGV"):
            told = re.search(rf"^-- {kind} (.*?)(?=^-- (?:[A-Z]+|gives) |^--$|\Z)", contract, re.MULTILINE | re.DOTALL)
            assert told is not None
            numbers = numbered(told[1])
            assert numbers == sorted({int(number) for number in re.findall(rf"{kind}\[(\d+)\]", code)}), kind

    @pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.stem))
    def test_one_takes_its_keys_from_keys(self, path: Path) -> None:
        """A cluster has to know them: none is written down or put together inside a script."""
        _, code = split(path)

        for command, key in re.findall(r"redis\.call\('(\w+)', ([^,)]+)", code):
            assert command == "PUBLISH" or re.fullmatch(r"KEYS\[\d\]|[a-z]+", key), f"{command} {key}"


def split(path: Path) -> tuple[str, str]:
    """Split a script into its contract and its code."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    inside = {f"--[[{other.stem}]]": other for other in SCRIPTS if other is not path}
    return "".join(lines[:end]), "".join(
        split(inside[line.strip()])[1] if line.strip() in inside else line for line in lines[end:]
    )


def numbered(told: str) -> list[int]:
    """List the numbers that a contract gives to its keys or arguments, ranges spelled out."""
    numbers: list[int] = []
    for first, last in re.findall(r"(?:^|\s)(\d+)(?:-(\d+))? (?=\S)", told.replace("\n--", "\n")):
        if int(first) == len(numbers) + 1:
            numbers += range(int(first), int(last or first) + 1)
    return numbers


class TestNames:
    """What users import."""

    def test_the_package_offers_the_names_of_the_contract(self) -> None:
        """Neither more nor fewer."""
        assert set(dramatiq_unique.__all__) == NAMES

    def test_what_it_offers_is_all_that_can_be_imported(self) -> None:
        """Besides its modules, there is no name that isn't meant to be used."""
        public = {
            name
            for name, value in vars(dramatiq_unique).items()
            if not name.startswith("_") and not isinstance(value, ModuleType)
        }

        assert public == NAMES
        for name in dramatiq_unique.__all__:
            assert hasattr(dramatiq_unique, name)
