"""The page on limiting calls does what it says: its blocks run, in order, as one program."""

import re
from pathlib import Path

import pytest

from horae.limits import RateLimiter

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "limit-calls.md"


class Provider:
    """Refuses once, as providers do."""

    refused = False

    def daily(self, day: str) -> str:
        if not self.refused:
            self.refused = True
            raise RuntimeError("rate limit")
        return f"{day}: 42"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    slept: list[float] = []
    text = PAGE.read_text(encoding="utf-8").replace("@backoff(limiter", "@backoff(pause=slept.append, limiter")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    scope: dict[str, object] = {"provider": Provider(), "slept": slept, "__name__": "page"}

    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)

    assert slept == [3]
    assert isinstance(scope["shared"], RateLimiter)
    scope["app"].close()  # type: ignore[attr-defined]
