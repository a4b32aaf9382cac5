"""The pictures of the recipes and of the manual show what the code beside them finds."""

from __future__ import annotations

from pathlib import Path

import pytest

import pictures


@pytest.mark.parametrize("page", pictures.PAGES, ids=lambda page: page.stem)
def test_pictures_are_what_is_drawn(page: Path) -> None:
    drawn = pictures.pictures(page)
    assert drawn
    assert [path.name for path, picture in drawn.items() if path.read_text() != picture] == [], "make pictures"
