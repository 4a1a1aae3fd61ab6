"""The rules of the house. Each takes a source tree and returns complaints, one line each; none means the rule holds.

A rule that stands in the way is changed here, with a page in docs/decisions that says why; it is not worked around.
"""

import ast
import re
from pathlib import Path

from horae.ports.store import Store
from tests.architecture.reading import Module, modules

# Who may import whom, by floor. FOUNDATION is open to all. A module that is not listed has no place in the house yet.
FOUNDATION = {"errors", "words", "version"}
VERBS = {"core", "ports", "actions"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors words version core": set(),
    "ports": {"core"},
    "clock settings": {"core", "ports"},
    "stores actions": {"core", "ports"},
    "api": VERBS,
    "runtime": VERBS | {"api"},  # a worker may take its jobs from a room
    "service": VERBS | {"api"},
    "console": {"core", "api", "service"},  # pages over the rooms: no verb, no store, no world of its own
    "client": {"core", "clock", "api"},  # speaks HTTP only: what it knows of the house is its words
    "alembic limits": {"core", "ports", "clock", "stores"},  # works without an app, so it brings its own clock and log
    "executors": {"core", "ports", "clock", "settings", "runtime"},  # where handlers run; the other side of a worker
    "declare telemetry": VERBS | {"runtime", "settings", "executors"},
    "alerts bus outgoing webhooks": VERBS | {"api", "runtime", "declare", "telemetry", "outgoing"},  # as users would
}
# Above them: each may import everything below, and those that stand before it here.
ROOF = ["doctor", "server", "mcp", "app", "attention", "adapters", "django", "testing", "cli", "__init__", "__main__"]


def allowed_imports() -> dict[str, set[str]]:
    """Return for each floor what it may import."""
    allowed = {floor: may | {floor} | FOUNDATION for line, may in MAY_IMPORT.items() for floor in line.split()}
    below = set(allowed)
    for floor in ROOF:
        below = below | {floor}
        allowed[floor] = below
    return allowed


ALLOWED = allowed_imports()

# What the core may import: parts of the standard library that compute and nothing else.
PURE = {
    "__future__", "abc", "base64", "binascii", "bisect", "calendar", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "graphlib", "hashlib", "heapq", "hmac", "itertools",
    "json", "math", "numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "types", "typing",
    "unicodedata", "zlib", "zoneinfo",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "breakpoint", "globals", "vars"}

CLOCK_READERS = {"clock.py"}  # and testing/, where time is virtual
CLOCK = {
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.process_time", "time.process_time_ns", "time.thread_time", "time.thread_time_ns", "time.clock_gettime",
    "time.clock_gettime_ns", "time.localtime", "time.gmtime", "time.ctime", "datetime.datetime.now",
    "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
}  # fmt: skip

SLEEPERS = {"clock.py", "runtime/loop.py"}
EVENTS = {"threading.Event", "asyncio.Event", "anyio.Event"}
SLEEP = {"time.sleep", "asyncio.sleep", "anyio.sleep", "anyio.sleep_until", "trio.sleep"}

UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
UNSAFE_NAMES = {"eval", "exec", "compile", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "os.system", "os.popen"}

# Functions of the core that stores may call: they turn one form of a value into another.
CODECS = {
    "audit.entries.without_floats", "cluster.numbers.first_draw", "cluster.numbers.job_id",
    "cluster.numbers.number_from", "cluster.numbers.read_number", "cluster.numbers.vshard_in",
    "cluster.sent_jobs.read_job", "cluster.sent_jobs.write_job", "dataclass.dataclass",
    "histograms.histogram_from", "histograms.histogram_text", "jobs.job.band_of", "jobs.job.make_job",
    "jobs.parameters.parameter_from", "jobs.parameters.parameter_json", "jobs.payloads.name",
    "schedules.schedule.make_schedule", "time.instants",
    "time.instants.instant", "time.instants.micros", "time.spans.span", "timeouts.client_limit",
    "timeouts.milliseconds",
}  # fmt: skip

# Where a vendor may be named: the facts, and migrations, which are frozen and must not follow facts that change later.
VENDOR_PLACES = ("stores/databases/dialects.py", "stores/migrations/")
VENDOR = re.compile(r"dialect\.name|\.drivername|get_backend_name\(\)")
LONGEST = 400  # lines


def arrows_that_point_up(source: Path) -> list[str]:
    complaints = []
    for module in modules(source):
        if module.floor not in ALLOWED:
            complaints.append(f"{module.place}: {module.floor} is on no floor; give it a line in MAY_IMPORT")
            continue
        allowed = ALLOWED[module.floor]
        for imported in module.imports:
            package, _, rest = imported.name.partition(".")
            if imported.is_relative:
                complaints.append(f"{module.place}:{imported.line}: relative import; write it as horae.…")
            elif package == "horae" and module.floor != "__init__" and not (rest and is_floor(rest, source)):
                complaints.append(f"{module.place}:{imported.line}: import the floor, not the package's public names")
            elif package == "horae" and rest.split(".")[0] not in allowed and is_floor(rest, source):
                complaints.append(
                    f"{module.place}:{imported.line}: {module.floor} must not import {rest.split('.')[0]}"
                )
    return complaints


def is_floor(rest: str, source: Path) -> bool:
    floor = rest.split(".")[0]
    return floor in ALLOWED or (source / floor).is_dir() or (source / f"{floor}.py").is_file()


# Where the command line and the MCP server go past the rooms, and why (decision 0147). All else stands on rooms.
PAST_THE_ROOMS = {
    "cli/attention/serve.py": "is the process that drives lanes",
    "cli/attention/top.py": "waits between two pictures",
    "cli/demo/": "is an application that shows its own inside",
    "cli/imports/": "reads the tables of other schedulers",
    "cli/installation/": "works on databases as such: their tables, their map, copies of them",
    "cli/jobs/job.py": "builds the request of a declared job as its application would",
    "cli/jobs/top.py": "waits between two pictures",
    "cli/logs.py": "sets up the log of a process",
    "cli/process/": "puts processes together",
    "cli/terminal.py": "opens the database, once for all commands",
    "cli/verbs.py": "holds the local sender",
    "mcp/confirmations.py": "reads the confirmations of several lanes as of one moment",
    "mcp/http.py": "authenticates, which comes before a caller is known",
    "mcp/lane_sessions.py": "drives a lane",
    "mcp/turns.py": "drives a lane",
    "mcp/long_calls.py": "sleeps until a lane changes",
}
VERBS_BEHIND_ROOMS = ("horae.actions", "horae.runtime", "horae.stores")


def tools_beside_the_rooms(source: Path) -> list[str]:
    """A command, or a tool of the MCP server, that calls verbs by itself, where an operation of a room would do."""
    return [
        f"{module.place}:{imported.line}: use an operation of a room instead of {imported.name}"
        for module in modules(source)
        if module.floor in ("cli", "mcp") and not module.place.startswith(tuple(PAST_THE_ROOMS))
        for imported in module.imports
        if imported.name.startswith(VERBS_BEHIND_ROOMS)
    ]


def impurities_of_the_core(source: Path) -> list[str]:
    complaints = []
    for module in modules(source):
        if module.floor != "core":
            continue
        for imported in module.imports:
            package = imported.name.split(".")[0]
            if package != "horae" and package not in PURE and not imported.is_relative:
                complaints.append(f"{module.place}:{imported.line}: the core must not import {package}")
        complaints += [
            f"{module.place}:{node.lineno}: the core does not wait: no async, no await" for node in every_wait(module)
        ]
        complaints += [
            f"{module.place}:{node.lineno}: the core must not call {node.func.id}()"
            for node in module.every(ast.Call)
            if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
        ]
        complaints += [
            f"{module.place}:{line}: the core must not read the clock ({name})" for line, name in clock_reads(module)
        ]
    return complaints


def every_wait(module: Module) -> list[ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await]:
    loops: list[ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await] = [*module.every(ast.AsyncFor)]
    return [*loops, *module.every(ast.AsyncFunctionDef), *module.every(ast.AsyncWith), *module.every(ast.Await)]


def clock_reads(module: Module) -> list[tuple[int, str]]:
    """Where a module reads the time, or hands on a function that does (`default_factory=time.time`)."""
    reads = [(node.lineno, name) for node, name in module.names_used if name in CLOCK]
    for node in module.every(ast.Attribute):
        if node.attr == "time" and "loop" in ast.unparse(node.value).lower():
            reads.append((node.lineno, ast.unparse(node)))
    return reads


def clocks_outside_the_port(source: Path) -> list[str]:
    return [
        f"{module.place}:{line}: only the clock port reads time ({name}); take `now` as a parameter or ask the clock"
        for module in modules(source)
        if module.place not in CLOCK_READERS and module.floor != "testing"
        for line, name in clock_reads(module)
    ]


def sleeps_outside_the_loop(source: Path) -> list[str]:
    complaints = []
    for module in modules(source):
        if module.place in SLEEPERS:
            continue
        complaints += [
            f"{module.place}:{line}: {name} outside {', '.join(sorted(SLEEPERS))}" for line, name in sleeps(module)
        ]
    return complaints


def sleeps(module: Module) -> list[tuple[int, str]]:
    """Where a module sleeps: by name, or by a timeout on an event that is made on the spot, so that nothing sets it."""
    if "sleep" not in module.text and ".wait(" not in module.text:
        return []
    calls = module.every(ast.Call)
    yields = {id(node.func) for node in calls if is_zero(node.args)}
    unset = {id(event) for node in calls if (event := event_timed_out(node)) is not None}
    return [
        (node.lineno, name)
        for node, name in module.names_used
        if isinstance(getattr(node, "ctx", None), ast.Load)
        and (
            (name in SLEEP and not (name == "asyncio.sleep" and id(node) in yields))
            or (name in EVENTS and id(node) in unset)
        )
    ]


def event_timed_out(node: ast.Call) -> ast.expr | None:
    """Return the class in `Event().wait(1)` and in `wait_for(Event().wait(), 1)`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="wait", value=ast.Call(func=event)), args=args, keywords=keywords):
            return event if args or keywords else None
        case ast.Call(func=ast.Attribute(attr="wait_for") | ast.Name(id="wait_for"), args=[ast.Call() as waited, *_]):
            match waited.func:
                case ast.Attribute(attr="wait", value=ast.Call(func=event)):
                    return event
    return None


def is_zero(arguments: list[ast.expr]) -> bool:
    """`asyncio.sleep(0)` only lets others run; it is not a sleep."""
    match arguments:
        case [ast.Constant(value=0)]:
            return True
    return False


def unsafe_reading(source: Path) -> list[str]:
    """Ways for stored or received bytes to become code."""
    complaints = []
    for module in modules(source):
        complaints += [
            f"{module.place}:{imported.line}: {imported.name} turns data into code"
            for imported in module.imports
            if imported.name.split(".")[0] in UNSAFE_MODULES
        ]
        complaints += [
            f"{module.place}:{node.lineno}: {name} turns data into code"
            for node, name in module.names_used
            if name in UNSAFE_NAMES
        ]
        complaints += [
            f"{module.place}:{node.lineno}: shell=True turns data into code"
            for node in module.every(ast.keyword)
            if node.arg == "shell" and ast.unparse(node.value) == "True"
        ]
    return complaints


def stores_reached_without_a_route(source: Path) -> list[str]:
    """`world.store` in a verb: with several shards it would be the wrong one."""
    return [
        f"{module.place}:{node.lineno}: write world.route(owner=…, key=…, id=…).store with what the verb knows"
        for module in modules(source)
        if module.floor == "actions"
        for node in module.every(ast.Attribute)
        if node.attr == "store" and not is_routed(node.value)
    ]


def decisions_imported_by_stores(source: Path) -> list[str]:
    """A store decides nothing: it takes values, constants and codecs from the core, and is handed the decisions."""
    complaints = []
    for module in modules(source):
        if module.floor != "stores":
            continue
        complaints += [
            f"{module.place}:{each.line}: {each.name} is no value and no codec; let the verb decide and hand it over"
            for each in module.imports
            if is_core_function(each.name) and each.name.removeprefix("horae.core.") not in CODECS
        ]
    return complaints


def is_core_function(name: str) -> bool:
    """Classes and constants begin with a capital letter; functions, and whole modules, do not."""
    return name.startswith("horae.core.") and not name.rpartition(".")[2].lstrip("_")[:1].isupper()


def is_routed(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="route" | "route_job")):
            return True
    return False


# Who may read tables: the stores, and tests of a user's database, which prove what the stores write.
TABLE_READERS = {"stores", "testing"}
TABLES = "horae.stores.tables"
STATEMENTS = {f"sqlalchemy.{name}" for name in ("select", "insert", "update", "delete", "func", "text")}


def tables_read_outside_the_stores(source: Path) -> list[str]:
    """A check or a command that reads tables by itself: a query of the store, behind `tx`, is what it should ask."""
    complaints = []
    for module in modules(source):
        if module.floor in TABLE_READERS:
            continue
        complaints += [
            f"{module.place}:{imported.line}: only the stores read tables ({imported.name}); add a query to a store"
            for imported in module.imports
            if imported.name in STATEMENTS or f"{imported.name}.".startswith(f"{TABLES}.")
        ]
        complaints += [
            f"{module.place}:{node.lineno}: only stores speak SQL ({ast.unparse(node.func)}); add a query to a store"
            for node in module.every(ast.Call)
            if isinstance(node.func, ast.Attribute)
            and node.func.attr in ("execute", "rows")
            and ast.unparse(node.func).endswith((".connection.execute", "driver.rows"))
        ]
    return complaints


GOVERNED = "horae.stores.tables.governance"
# Who may touch the tables of governed objects: their stores, and what makes and lists tables.
GOVERNED_WRITERS = ("stores/governance/", "stores/tables/governance.py", "stores/metadata.py", "stores/migrations/")


def objects_written_beside_their_store(source: Path) -> list[str]:
    """A raw change of a governed object: nothing but its store writes it, so that no edge misses its entry (S0-28)."""
    complaints = []
    for module in modules(source):
        if module.place.startswith(GOVERNED_WRITERS):
            continue
        complaints += [
            f"{module.place}:{imported.line}: only stores/governance writes governed objects"
            for imported in module.imports
            if f"{imported.name}.".startswith(f"{GOVERNED}.")
        ]
        raw = re.finditer(r"(?:INSERT INTO|UPDATE|DELETE FROM) (?:horae_objects|horae_object_versions)", module.text)
        complaints += [f"{module.place}: {found[0]}: only stores/governance writes governed objects" for found in raw]
    return complaints


# Who may call a store: verbs, stores, tests' tools, and the roof, where stores are opened, examined and copied.
STORE_CALLERS = (
    "actions/", "stores/", "testing/", "doctor/", "server/", "cli/installation/", "app.py", "clock.py",
    "declare/opening.py",
)  # fmt: skip
STORE_METHODS = {name for name in vars(Store) if not name.startswith("_")} - {"close"}  # who opens one may close it


def stores_called_outside_the_verbs(source: Path) -> list[str]:
    """`world.store.read(…)` above the verbs: a second way in, which no route, audit or shard would see."""
    return [
        f"{module.place}:{node.lineno}: calls the store ({node.attr}); write a verb in actions/ and call that"
        for module in modules(source)
        if not module.place.startswith(STORE_CALLERS)
        for node in module.every(ast.Attribute)
        if node.attr in STORE_METHODS and is_store(node.value)
    ]


def is_store(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="store" | "_store") | ast.Attribute(attr="store" | "_store"):
            return True
    return False


def vendors_asked_by_name(source: Path) -> list[str]:
    """`dialect.name == "sqlite"` anywhere but where the differences between databases are named."""
    return [
        f"{module.place}:{node.lineno}: asks for the vendor; ask for a fact of stores/databases/dialects.py instead"
        for module in modules(source)
        if not module.place.startswith(VENDOR_PLACES)
        if VENDOR.search(module.text)
        for node in comparisons(module)
        if compares_a_vendor(node)
    ]


def comparisons(module: Module) -> list[ast.Compare | ast.Match]:
    matches: list[ast.Compare | ast.Match] = [*module.every(ast.Match)]
    return [*matches, *module.every(ast.Compare)]


def compares_a_vendor(node: ast.Compare | ast.Match) -> bool:
    """Compared with a literal, that is; looking a name up in a table of facts is how it should be done."""
    match node:
        case ast.Match(subject=subject):
            return names_a_vendor(subject)
        case ast.Compare(left=left, comparators=[right], ops=[operator]):
            if names_a_vendor(left):
                return is_literal(right)
            return names_a_vendor(right) and is_literal(left) and isinstance(operator, ast.Eq | ast.NotEq)
    return False


def names_a_vendor(node: ast.expr) -> bool:
    return bool(re.search(rf"({VENDOR.pattern})$", ast.unparse(node)))


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.Tuple | ast.List | ast.Set)


def modules_too_long(source: Path) -> list[str]:
    return [
        f"{module.place}: {lines} lines; above {LONGEST} a module needs a line `# size: <reason>`"
        for module in modules(source)
        if (lines := module.text.count("\n")) > LONGEST and not re.search(r"^# size: \S+", module.text, re.MULTILINE)
    ]


ROOT = {
    "__init__", "__main__", "app", "attention", "clock", "errors", "settings", "version", "webhooks"
}  # fmt: skip


def crowded_root(source: Path) -> list[str]:
    """A module beside the floors that is not one of the ten that a newcomer meets first."""
    return [f"{each.name}: move it into a folder" for each in sorted(source.glob("*.py")) if each.stem not in ROOT]


def rooms_without_a_sentence(source: Path) -> list[str]:
    """A folder whose ``__init__`` does not say what it is for."""
    return [
        f"{module.place}: say in one sentence what belongs here"
        for module in modules(source)
        if module.place.endswith("__init__.py") and not ast.get_docstring(module.tree)
    ]


def public_names_in_disorder(source: Path) -> list[str]:
    """An `__init__` lists its public names, sorted (constants, classes, functions), and holds no code."""
    complaints = []
    for module in modules(source):
        if not module.place.endswith("__init__.py"):
            continue
        for node in module.tree.body:
            if not belongs_in_init(node):
                complaints.append(f"{module.place}:{node.lineno}: code in __init__; move it to a module")
        listed = public_names(module)
        if listed is None:
            if module.place == "__init__.py" and module.imports:
                complaints.append(f"{module.place}: says nothing about its public names; write __all__")
        elif listed != sorted(set(listed), key=public_order):
            complaints.append(f"{module.place}: __all__ is not sorted or says a name twice")
    return complaints


def belongs_in_init(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name.startswith("_")
        case ast.FunctionDef(name=name):
            return name in ("__getattr__", "__dir__")  # for names that are imported on first use
        case ast.If(test=test):
            return ast.unparse(test) == "TYPE_CHECKING"
    return False


def public_names(module: Module) -> list[str] | None:
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names) | ast.Tuple(elts=names)):
                return [str(name.value) for name in names if isinstance(name, ast.Constant)]
    return None


def public_order(name: str) -> tuple[int, str]:
    rank = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return rank, name
