"""Take pictures of the console: ``python -m scripts.screenshots [FOLDER] [PAGE …] [--look LOOK …]``.

Every page, wide and at 360 pixels, light and dark, in English and Chinese, over the same made-up day. A look is called
after these, such as ``wide-dark-zh``.
"""

from __future__ import annotations

import subprocess
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from horae import Horae
from horae.actions.access.sessions import log_in
from horae.actions.access.tokens import create_token
from horae.core.jobs.job import State
from horae.core.time.instants import from_iso
from horae.service.auth.sessions import cookie_name
from horae.settings import Settings
from horae.testing.clock import VirtualClock
from tests.console.agents import make_agents, make_pile
from tests.console.ground import make_batches, make_calendars, make_day, make_known_errors
from tests.console.memories import remember, suspect
from tests.support.browsing import chromium
from tests.support.serving import answering
from tests.support.templates import put_tables

# The name of each picture, and where it is taken.
PAGES = {
    "home": "/",
    "jobs": "/jobs",
    "jobs-dead": "/jobs?q=state:dead",
    "job-dead": "/jobs/{dead}",
    "job-running": "/jobs/{running}",
    "job-waiting": "/jobs/{queued}",
    "new-job": "/jobs/new?handler=orders.charge",
    "bulk": "/jobs/bulk?verb=cancel&all=yes&q=state:queued",
    "job-after": "/jobs/{after}",
    "batches": "/batches",
    "batch": "/batches/{batch}",
    "schedules": "/schedules",
    "schedule": "/schedules/newsletter",
    "schedule-calendar": "/schedules/payroll",
    "calendars": "/calendars",
    "calendar": "/calendars/bank",
    "errors": "/errors",
    "error": "/errors/{error}",
    "queues": "/queues",
    "queue": "/queues/images",
    "queue-quiet": "/queues/orders",
    "workers": "/workers",
    "audit": "/audit",
    "forecast": "/forecast",
    "forecast-hour": "/forecast?hour=2030-01-14T03:00:00Z",
    "attention": "/attention",
    "attention-lane": "/attention/ops",
    "attention-past": "/attention/ops?at=12",
    "attention-ask": "/attention/support?owner=acme",
    "attention-task": "/attention/ops/tasks/{task}",
    "attention-asking": "/attention/support/tasks/{asking}?owner=acme",
    "tasks": "/tasks",
    "task": "/tasks/{own}",
    "task-new": "/tasks/new",
    "task-edit": "/tasks/{own}/edit",
    "governance": "/governance",
    "governance-object": "/governance/objects/{tea}",
    "governance-suspected": "/governance/objects/{forged}",
    "governance-new": "/governance/new",
    "governance-reviews": "/governance/reviews",
    "governance-review": "/governance/reviews/{review}",
    "governance-decisions": "/governance/decisions",
    "governance-decision": "/governance/decisions/{decision}",
    "governance-budgets": "/governance/budgets",
    "governance-budget": "/governance/budgets/llm/calls",
    "governance-rules": "/governance/rules",
    "governance-persona": "/governance/personas/concierge",
    "governance-policy": "/governance/policies/memory",
    "governance-report": "/governance/report",
    "settings": "/settings",
    "settings-tokens": "/settings/tokens",
    "settings-sessions": "/settings/sessions",
    "settings-owners": "/settings/owners",
    "settings-server": "/settings/server",
    "settings-doctor": "/settings/doctor",
    "settings-retention": "/settings/retention",
}
SIZES = {"wide": (1280, 860), "narrow": (360, 780)}
TENANT = "alice"  # whose tasks are shown
REMEMBERS = "2030-01-01T08:00:00Z"
BEGINS = "2030-01-07T00:05:00Z"


@dataclass(frozen=True)
class Look:
    """How a picture is taken."""

    size: str
    theme: str
    lang: str

    def __str__(self) -> str:
        return f"{self.size}-{self.theme}-{self.lang}"


LOOKS = [Look(size, theme, lang) for size in SIZES for theme in ("light", "dark") for lang in ("en", "zh")]


@contextmanager
def shop(folder: Path) -> Iterator[tuple[str, Horae, dict[str, str]]]:
    """Serve the console over a made-up day; yield its address, the application, and the ids of what was made."""
    clock = VirtualClock(REMEMBERS)
    with Horae(put_tables(folder / "horae.db"), clock=clock) as app:
        made = live(app, clock, BEGINS)
        with answering(app.asgi(Settings(server_chores=False, instance="shop", instance_colour="green"))) as server:
            yield server.url, app, made


def live(app: Horae, clock: VirtualClock, begins: str, hours: int = 14) -> dict[str, str]:
    """Let the days before go by and then the made-up one, which begins at *begins*; return the ids of what was made."""
    made = remember(app.world, clock)
    make_known_errors(app.world)
    clock.move_to(from_iso(begins))
    make_pile(app.world)

    def talk() -> None:
        made.update(suspect(app.world, clock) | make_agents(app.world, clock))

    make_day(app.world, clock, hours=hours, meanwhile=talk)
    app.queues.resume("images", reason="the disk is changed")
    made.update(make_batches(app.world, clock))
    make_calendars(app.world)
    return made


def ids_of(app: Horae, made: dict[str, str]) -> dict[str, str]:
    """Return what stands in the paths of PAGES."""
    states: tuple[State, ...] = ("dead", "running", "queued")
    known = {state: next(iter(app.jobs.list(state=state, limit=1))).id for state in states} | made
    known["own"] = next(each.id for each in app.scheduled_tasks.list() if each.last_run_at)
    known["error"] = next(iter(app.error_groups.list(limit=1))).fingerprint
    return known


def need_chinese_font() -> None:
    """Refuse to take pictures in which Chinese would be empty boxes."""
    answer = subprocess.run(["fc-list", ":lang=zh"], capture_output=True, text=True, check=False)
    if not answer.stdout.strip():
        raise SystemExit("There is no Chinese font, so Chinese would be boxes. Run: apt-get install fonts-noto-cjk")


def main() -> None:
    parser = ArgumentParser(description="Take pictures of the console.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/screenshots"))
    parser.add_argument("pages", nargs="*", metavar="page", help="only these, by their names in PAGES")
    parser.add_argument("--look", action="append", choices=[str(each) for each in LOOKS], help="only these")
    asked = parser.parse_args()
    need_chinese_font()
    folder, wanted = asked.folder, set(asked.pages)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, shop(Path(place)) as (url, app, made), chromium() as browser:
        known = ids_of(app, made)
        for look in [each for each in LOOKS if not asked.look or str(each) in asked.look]:
            page, tenant = open_page(browser, url, app, look), open_page(browser, url, app, look, TENANT, "tasks")
            for name, path in PAGES.items():
                if not wanted or name in wanted:
                    take(
                        tenant if name.startswith("task") else page,
                        f"{url}/console{path.format(**known)}",
                        folder / f"{name}-{look}.png",
                    )
            page.context.clear_cookies()
            if not wanted or "login" in wanted:
                take(page, f"{url}/console/login", folder / f"login-{look}.png")
            page.context.close()
            tenant.context.close()


def open_page(browser: Any, url: str, app: Horae, look: Look, owner: str = "system", scope: str = "admin") -> Any:
    width, height = SIZES[look.size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=1,
        color_scheme=look.theme,
        locale="zh-CN" if look.lang == "zh" else "en-GB",
        timezone_id="Asia/Shanghai" if look.lang == "zh" else "Europe/Berlin",
        reduced_motion="reduce",
    )
    token, _ = create_token(app.world, owner=owner, scopes=[scope], title="console")
    _, cookie = log_in(app.world, token.caller)
    context.add_cookies([{"name": cookie_name(url.partition("//")[2]), "value": cookie, "url": f"{url}/console"}])
    return context.new_page()


def take(page: Any, url: str, file: Path) -> None:
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=file, full_page=True)
    print(file)


if __name__ == "__main__":
    main()
