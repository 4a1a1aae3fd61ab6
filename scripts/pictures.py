"""Take the pictures of README and the documentation: ``python -m scripts.pictures [PAGE …]``.

The top of a few pages of the console, light and dark, in English and Chinese, as WebP in ``docs/img``. A Chinese one is
called ``name.zh.webp``, where the documentation site looks for it.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts.screenshots import PAGES, Look, need_chinese_font, open_page, shop
from tests.support.browsing import chromium

FOLDER = Path(__file__).parents[1] / "docs" / "img"
PICTURES = {"home": "home", "jobs": "jobs", "job": "job-dead", "schedules": "schedules"}  # name, page of screenshots.py
LOOKS = [Look("wide", theme, lang) for theme in ("light", "dark") for lang in ("en", "zh")]
TOP: dict[str, float] = {"x": 0, "y": 0, "width": 1280, "height": 750}
MOST_BYTES = 100_000
TO_WEBP = """async ([png, quality]) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").drawImage(image, 0, 0);
    const bytes = new Uint8Array(await (await canvas.convertToBlob({type: "image/webp", quality})).arrayBuffer());
    return btoa(Array.from(bytes, each => String.fromCharCode(each)).join(""));
}"""


def as_webp(page: Any, png: bytes) -> bytes:
    """Let the browser write a picture as WebP, which keeps text sharp at a third of the size."""
    return base64.b64decode(page.evaluate(TO_WEBP, [base64.b64encode(png).decode(), 0.85]))


def main() -> None:
    need_chinese_font()
    wanted = sys.argv[1:] or list(PICTURES)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, shop(Path(place)) as (url, app, _), chromium() as browser:
        dead = next(iter(app.jobs.list(state="dead", limit=1))).id
        converter = browser.new_page()  # a page without a content security policy
        for look in LOOKS:
            page = open_page(browser, url, app, look)
            for name in wanted:
                page.goto(f"{url}/console{PAGES[PICTURES[name]].format(dead=dead)}")
                page.wait_for_load_state("networkidle")
                file = FOLDER / f"{name}-{look.theme}{'.zh' if look.lang == 'zh' else ''}.webp"
                file.write_bytes(as_webp(converter, page.screenshot(clip=TOP)))
                size = file.stat().st_size
                assert size <= MOST_BYTES, f"{file.name} has {size:,} bytes; a repository keeps every version of it"
                print(file.name, f"{size:,} bytes")
            page.context.close()


if __name__ == "__main__":
    main()
