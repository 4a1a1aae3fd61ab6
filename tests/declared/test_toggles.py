"""A toggle that is not for good ends when a worker starts, and not before (C-16, S3-42)."""

from pathlib import Path

from horae import Horae
from horae.actions.schedules import schedules
from horae.actions.schedules.toggles import switch
from tests.support.waiting import eventually


def make(tmp_path: Path) -> Horae:
    (tmp_path / "jobs.conf").touch()
    app = Horae(f"sqlite:///{tmp_path / 'horae.db'}", name="shop", config=tmp_path / "jobs.conf")
    app.job("clean", cron="0 3 * * *")(lambda: None)
    return app


async def test_a_toggle_outlives_a_reload_and_ends_with_a_restart(tmp_path: Path) -> None:
    with make(tmp_path) as app:
        async with app.running():
            await eventually(lambda: schedules.find(app.world))
            switch(app.world, "clean", False, ephemeral=True)
            version = schedules.get(app.world, "clean").version
            (tmp_path / "jobs.conf").write_text('[[jobs.items]]\nid = "clean"\ncron = "0 4 * * *"\n')
            app.declare_schedules()
            assert schedules.get(app.world, "clean").version > version
            assert schedules.get(app.world, "clean").toggled is False

        async with app.running():
            await eventually(lambda: schedules.get(app.world, "clean").toggled is None)

    assert [entry.verb for entry in schedules.versions(app.world, "clean")] == [
        "toggle",
        "declare",
        "toggle",
        "declare",
    ]
