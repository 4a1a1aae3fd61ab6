"""Generated pages say what the code says."""

import pytest

from scripts.docs import PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs` and commit the result"
