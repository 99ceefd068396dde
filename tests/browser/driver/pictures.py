"""Shoots the console's pages into docs/images."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from pages import DESKTOP, PHONE, Scheme, Stage, browser_of, new_page
from PIL import Image
from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parents[3] / "docs" / "images"

_COLOURS = 96
_TALLEST = {DESKTOP: 1_250, PHONE: 900}
"""Pixels of CSS after which a long page is cut."""

_POINTS = 6
"""Points of a chart that is worth a look; there is one each five seconds or more."""

_ALL_THERE = "() => !document.getElementById('main').innerText.includes('AWS has not answered yet')"
"""True once AWS has answered all that a page asked."""

_IN_DARK = ("overview", "job-running")


def main() -> None:
    """Shoot each page on a desktop and a phone, some of them in the dark too."""
    stage = Stage.of_arguments()
    with browser_of(stage) as browser:
        _wait_for_charts(browser, stage)
        for name in stage.paths:
            _shoot(browser, stage, name)
            _shoot(browser, stage, name, size=PHONE)
            if name in _IN_DARK:
                _shoot(browser, stage, name, scheme="dark")
    whole = sum(each.stat().st_size for each in FOLDER.glob("console-*.png"))
    print(f"{whole / 1024:,.0f} KB in {FOLDER}")


def _wait_for_charts(browser: Browser, stage: Stage) -> None:
    page = new_page(browser, stage)
    page.goto("/")
    print("waiting until all charts have a past: a minute or two")
    page.wait_for_function(
        """least => [...document.querySelectorAll('.chart polyline')]
            .filter(each => each.points.length >= least).length == 7""",
        arg=_POINTS,
        timeout=300_000,
    )
    page.context.close()


def _shoot(
    browser: Browser,
    stage: Stage,
    name: str,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Scheme = "light",
) -> None:
    page = new_page(browser, stage, size=size, scheme=scheme, scale=1.5 if size == PHONE else 1)
    page.goto(stage.paths[name])
    page.wait_for_function(_ALL_THERE, timeout=60_000)
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > size[0]:
        print(f"{name} is {width} pixels wide, more than the screen's {size[0]}")
    suffix = ("-phone" if size == PHONE else "") + ("-dark" if scheme == "dark" else "")
    _save(page, FOLDER / f"console-{name}{suffix}.png", size)
    page.context.close()


def _save(page: Page, path: Path, size: tuple[int, int]) -> None:
    height = min(page.evaluate("document.documentElement.scrollHeight"), _TALLEST[size])
    page.set_viewport_size({"width": size[0], "height": height})  # what sticks is at its bottom
    shot = Image.open(BytesIO(page.screenshot()))
    few = shot.convert("RGB").quantize(palette=_palette(shot), dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KB")


def _palette(shot: Image.Image) -> Image.Image:
    """Return the commonest colours as they are: a mean would turn the few red pixels brown."""
    rgb = shot.convert("RGB")
    counted = rgb.getcolors(rgb.width * rgb.height) or []
    commonest = sorted(counted, key=lambda each: each[0], reverse=True)[:_COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in commonest for part in colour])
    return palette


if __name__ == "__main__":
    main()
