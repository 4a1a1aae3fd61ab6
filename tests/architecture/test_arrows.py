"""The shape of the house: each rule holds for our sources, and each rule can fail."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import rules
from tests.architecture.reading import SOURCE, modules

Rule = Callable[[Path], list[str]]

RULES: list[Rule] = [
    rules.arrows_that_point_up,
    rules.clocks_outside_the_port,
    rules.crowded_root,
    rules.decisions_imported_by_stores,
    rules.impurities_of_the_core,
    rules.modules_too_long,
    rules.public_names_in_disorder,
    rules.rooms_without_a_sentence,
    rules.sleeps_outside_the_loop,
    rules.tools_beside_the_rooms,
    rules.objects_written_beside_their_store,
    rules.unsafe_reading,
    rules.stores_called_outside_the_verbs,
    rules.stores_reached_without_a_route,
    rules.tables_read_outside_the_stores,
    rules.vendors_asked_by_name,
]

# (rule, the file, what is planted in it)
PLANTED: list[tuple[Rule, str, str]] = [
    (rules.arrows_that_point_up, "core/jobs/job.py", "from horae.stores.rows import row"),
    (rules.arrows_that_point_up, "core/jobs/job.py", "def f():\n    from horae import ports"),
    (rules.arrows_that_point_up, "core/jobs/job.py", "if TYPE_CHECKING:\n    import horae.actions.jobs.jobs"),
    (rules.arrows_that_point_up, "core/jobs/job.py", "importlib.import_module('horae.runtime.worker.worker')"),
    (rules.arrows_that_point_up, "core/jobs/job.py", "from horae import App"),
    (rules.arrows_that_point_up, "core/jobs/job.py", "import horae"),
    (rules.arrows_that_point_up, "core/jobs/job.py", "from . import retry"),
    (rules.arrows_that_point_up, "core/jobs/job.py", "from .retry import Retry"),
    (rules.arrows_that_point_up, "ports/jobs.py", "from horae.stores import jobs"),
    (rules.arrows_that_point_up, "actions/jobs/jobs.py", "from horae.stores.jobs.jobs import insert"),
    (rules.arrows_that_point_up, "stores/jobs/jobs.py", "from horae.actions.jobs.jobs import ack"),
    (rules.arrows_that_point_up, "runtime/worker/worker.py", "from horae.stores.jobs.jobs import claim"),
    (rules.arrows_that_point_up, "runtime/worker/worker.py", "from horae.declare.definitions import Registry"),
    (rules.arrows_that_point_up, "service/jobs.py", "from horae.runtime.worker.worker import Worker"),
    (rules.arrows_that_point_up, "console/pages/jobs.py", "from horae.actions.jobs.jobs import cancel"),
    (rules.arrows_that_point_up, "actions/jobs/jobs.py", "from horae.app import Horae"),
    (rules.arrows_that_point_up, "app.py", "from horae.testing.lab import Lab"),
    (rules.arrows_that_point_up, "errors.py", "from horae.core.jobs.job import Job"),
    (rules.arrows_that_point_up, "helpers.py", "x = 1"),
    (rules.tools_beside_the_rooms, "mcp/schedules.py", "from horae.actions.schedules import schedules"),
    (rules.tools_beside_the_rooms, "cli/schedules/schedule.py", "from horae.actions.schedules import schedules"),
    (rules.tools_beside_the_rooms, "cli/jobs/queue.py", "def f():\n    from horae.stores.queues import pause"),
    (rules.tools_beside_the_rooms, "mcp/schedules.py", "def f():\n    from horae.runtime.lanes.lease import Keeper"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "import random"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "from uuid import uuid4"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "import secrets"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "import os"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "import logging"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "def f():\n    import sqlalchemy"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "x = open('file')"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "print('hello')"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "async def f() -> None: ..."),
    (rules.impurities_of_the_core, "core/jobs/job.py", "from datetime import datetime\nx = datetime.now()"),
    (rules.clocks_outside_the_port, "runtime/worker/worker.py", "import time\nx = time.time()"),
    (rules.clocks_outside_the_port, "runtime/worker/worker.py", "import time as t\nx = t.monotonic()"),
    (rules.clocks_outside_the_port, "runtime/worker/worker.py", "from time import perf_counter as tick\nx = tick()"),
    (
        rules.clocks_outside_the_port,
        "runtime/worker/worker.py",
        "import time\nx = field(default_factory=time.monotonic)",
    ),
    (rules.clocks_outside_the_port, "service/wire.py", "import datetime as dt\nx = dt.datetime.now(dt.UTC)"),
    (rules.clocks_outside_the_port, "service/wire.py", "from datetime import datetime\nx = datetime.utcnow()"),
    (rules.clocks_outside_the_port, "service/wire.py", "from datetime import date\nx = date.today()"),
    (rules.clocks_outside_the_port, "cli/main.py", "x = asyncio.get_running_loop().time()"),
    (rules.sleeps_outside_the_loop, "runtime/worker/worker.py", "import asyncio\nasyncio.sleep(1)"),
    (rules.sleeps_outside_the_loop, "stores/databases/sqlite.py", "from time import sleep\nsleep(0)"),
    (rules.sleeps_outside_the_loop, "stores/databases/sqlite.py", "from time import sleep\nwork(sleep)"),
    (rules.sleeps_outside_the_loop, "api/senders/local.py", "import threading\nthreading.Event().wait(1)"),
    (rules.sleeps_outside_the_loop, "api/senders/local.py", "import asyncio\nwait_for(asyncio.Event().wait(), 1)"),
    (rules.unsafe_reading, "stores/rows.py", "import pickle"),
    (rules.unsafe_reading, "stores/rows.py", "from marshal import loads"),
    (rules.unsafe_reading, "stores/rows.py", "x = eval('1')"),
    (rules.unsafe_reading, "cli/main.py", "exec('1')"),
    (rules.unsafe_reading, "settings.py", "import yaml\nyaml.load('')"),
    (rules.unsafe_reading, "cli/main.py", "subprocess.run('ls', shell=True)"),
    (rules.stores_called_outside_the_verbs, "runtime/lanes/driver.py", "x = self.world.store.peek([])"),
    (
        rules.stores_called_outside_the_verbs,
        "runtime/chores/janitor.py",
        "x = call(self._world.store.let_in_forgotten)",
    ),
    (rules.stores_called_outside_the_verbs, "service/routes/jobs.py", "x = world.route().store.read(f)"),
    (rules.stores_called_outside_the_verbs, "cli/process/foreground.py", "def f(store): return store.read(g)"),
    (rules.stores_called_outside_the_verbs, "mcp/tasks.py", "with self._store.moment(): ..."),
    (rules.stores_reached_without_a_route, "actions/jobs/jobs.py", "def f(world): return world.store.read(g)"),
    (rules.decisions_imported_by_stores, "stores/jobs/jobs.py", "from horae.core.schedules.decisions import decide"),
    (rules.decisions_imported_by_stores, "stores/jobs/jobs.py", "from horae.core.jobs import reasons"),
    (rules.decisions_imported_by_stores, "stores/jobs/jobs.py", "import horae.core.schedules.rules as rules"),
    (rules.decisions_imported_by_stores, "stores/limits/memory.py", "from horae.core.jobs.job import settlement"),
    (
        rules.objects_written_beside_their_store,
        "stores/health.py",
        "from horae.stores.tables.governance import objects",
    ),
    (rules.objects_written_beside_their_store, "stores/jobs/jobs.py", "x = 'UPDATE horae_objects SET state = 1'"),
    (rules.tables_read_outside_the_stores, "doctor/work.py", "from horae.stores.tables import jobs"),
    (rules.tables_read_outside_the_stores, "doctor/work.py", "from horae.stores import tables"),
    (rules.tables_read_outside_the_stores, "doctor/bundle.py", "def f():\n    from sqlalchemy import select"),
    (rules.tables_read_outside_the_stores, "cli/main.py", "rows = tx.connection.execute(query)"),
    (rules.tables_read_outside_the_stores, "doctor/database.py", "x = lambda driver: driver.rows('SELECT 1')"),
    (rules.vendors_asked_by_name, "stores/jobs/jobs.py", "if engine.dialect.name == 'sqlite': ..."),
    (rules.vendors_asked_by_name, "app.py", "x = url.get_backend_name() in ('mysql', 'mariadb')"),
    (rules.vendors_asked_by_name, "app.py", "match self.dialect.name:\n    case 'sqlite': ..."),
    (rules.vendors_asked_by_name, "app.py", "x = 'sqlite' == engine.dialect.name"),
    (rules.crowded_root, "helpers.py", "x = 1"),
    (rules.rooms_without_a_sentence, "core/jobs/__init__.py", "from horae.core.jobs import job"),
    (rules.modules_too_long, "core/jobs/job.py", "x = 1\n" * 401),
    (rules.modules_too_long, "core/jobs/job.py", "# size:\n" + "x = 1\n" * 401),
    (rules.public_names_in_disorder, "__init__.py", "from horae.app import Horae\n__all__ = ['b', 'a']"),
    (rules.public_names_in_disorder, "__init__.py", "__all__ = ['a', 'a']"),
    (rules.public_names_in_disorder, "__init__.py", "from horae.app import Horae"),
    (rules.public_names_in_disorder, "testing/__init__.py", "def helper(): ..."),
]

INNOCENT: list[tuple[Rule, str, str]] = [
    (
        rules.arrows_that_point_up,
        "core/jobs/job.py",
        "from horae.core.jobs.retry import Retry\nfrom horae.errors import LeaseLost",
    ),
    (
        rules.arrows_that_point_up,
        "actions/jobs/jobs.py",
        "from horae.ports.world import World\nfrom horae.core import jobs",
    ),
    (rules.arrows_that_point_up, "__init__.py", "from horae.app import Horae"),
    (rules.impurities_of_the_core, "core/jobs/job.py", "import re\nfrom datetime import datetime\nx = re.compile('a')"),
    (rules.clocks_outside_the_port, "clock.py", "import time\nx = time.monotonic()"),
    (rules.clocks_outside_the_port, "testing/clock.py", "import time\nx = time.monotonic()"),
    (rules.clocks_outside_the_port, "runtime/worker/worker.py", "x = world.clock.now()\ny = asyncio.timeout(5)"),
    (rules.sleeps_outside_the_loop, "runtime/loop.py", "import asyncio\nasyncio.sleep(1)"),
    (rules.sleeps_outside_the_loop, "runtime/worker/worker.py", "import asyncio\nasyncio.sleep(0)"),
    (rules.sleeps_outside_the_loop, "runtime/worker/worker.py", "import asyncio\nx = asyncio.Event()\nx.wait()"),
    (rules.unsafe_reading, "core/jobs/job.py", "import re\nx = re.compile('a')"),
    (rules.stores_called_outside_the_verbs, "actions/jobs/claims.py", "x = world.route().store.peek([])"),
    (rules.stores_called_outside_the_verbs, "doctor/work.py", "x = world.store.read(f)"),
    (rules.stores_called_outside_the_verbs, "service/long_poll.py", "if world.store is not self._store: ..."),
    (rules.stores_called_outside_the_verbs, "cli/terminal.py", "store.close()"),
    (rules.stores_called_outside_the_verbs, "runtime/worker/worker.py", "x = self._source.claim('a', 1)"),
    (rules.stores_reached_without_a_route, "actions/jobs/jobs.py", "x = world.route(id=job_id).store.read(g)"),
    (
        rules.decisions_imported_by_stores,
        "stores/jobs/jobs.py",
        "from horae.core.jobs.job import CLOSED, Job\nfrom horae.core.time.instants import micros",
    ),
    (rules.decisions_imported_by_stores, "stores/limits/database.py", "from horae.core.limits import Limit"),
    (rules.decisions_imported_by_stores, "actions/jobs/jobs.py", "from horae.core.schedules.decisions import decide"),
    (
        rules.objects_written_beside_their_store,
        "stores/governance/objects.py",
        "from horae.stores.tables.governance import objects",
    ),
    (rules.tables_read_outside_the_stores, "stores/health.py", "from horae.stores.tables import jobs"),
    (rules.tables_read_outside_the_stores, "doctor/work.py", "x = store.read(lambda tx: tx.health.count_dead())"),
    (rules.tables_read_outside_the_stores, "doctor/engine.py", "from sqlalchemy import Engine"),
    (rules.vendors_asked_by_name, "stores/databases/dialects.py", "if engine.dialect.name == 'sqlite': ..."),
    (rules.vendors_asked_by_name, "stores/migrations/v1.py", "x = bind.dialect.name == 'sqlite'"),
    (rules.vendors_asked_by_name, "stores/declare/opening.py", "x = url.get_backend_name() in BY_NAME"),
    (rules.vendors_asked_by_name, "stores/declare/opening.py", "x = '+' in url.drivername"),
    (rules.modules_too_long, "core/jobs/job.py", "# size: one table, unreadable in halves\n" + "x = 1\n" * 401),
    (
        rules.public_names_in_disorder,
        "__init__.py",
        "from horae.app import Horae, cron\n__all__ = ['MAX', 'Horae', 'cron']",
    ),
]


def planted(place: str, text: str, house: Path) -> Path:
    file = house / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")
    return house


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_sources_keep_the_rule(rule: Rule) -> None:
    assert "\n".join(rule(SOURCE)) == ""


@pytest.mark.parametrize(("rule", "place", "text"), PLANTED)
def test_a_planted_violation_is_found(rule: Rule, place: str, text: str, tmp_path: Path) -> None:
    assert len(rule(planted(place, text, tmp_path))) == 1


@pytest.mark.parametrize(("rule", "place", "text"), INNOCENT)
def test_what_is_allowed_is_not_reported(rule: Rule, place: str, text: str, tmp_path: Path) -> None:
    assert rule(planted(place, text, tmp_path)) == []


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _, _ in PLANTED} == set(RULES)


def test_every_exception_from_the_rooms_is_needed() -> None:
    past = [
        place
        for place in rules.PAST_THE_ROOMS
        for module in modules(SOURCE)
        if module.place.startswith(place)
        if any(imported.name.startswith(rules.VERBS_BEHIND_ROOMS) for imported in module.imports)
    ]
    assert set(past) == set(rules.PAST_THE_ROOMS)


def test_the_sources_are_really_read() -> None:
    assert (SOURCE / "core").is_dir()
