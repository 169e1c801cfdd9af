"""Draws the pictures of docs/dashboard.md: every view, light and dark, and two on a phone."""

import io
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright
from tests.browser.stage import PHONE, WIDE, Stage, staged
from tests.support import parts

from holdfast.control.settings.models import Conditions

OUT = Path(__file__).parents[2] / "docs" / "screens"
VIEWS = {
    "fleet": "/",
    "holding": "/holdings/2",
    "policies": "/policies",
    "evidence": "/evidence",
    "cost": "/cost",
    "plan": "/plan",
    "alerts": "/alerts",
}
ON_A_PHONE = ("fleet", "holding")
TALLEST = 1500  # pixels: the rest of a long list tells no more
QUALITY = 80
CONDITIONS = Conditions(ceiling=0.65, stress=1.2, episodes=256, decisions=50)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        staged(Path(folder), holdings=14, days=33, conditions=CONDITIONS) as stage,
    ):
        stage.answer()
        stage.infer()
        stage.observe_nodes(30)
        with stage.case(9, "repair", "31 blocks are damaged"):
            draw_all(stage)


def draw_all(stage: Stage) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=parts.chromium(), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(
                base_url=stage.url, viewport=WIDE, color_scheme=scheme, reduced_motion="reduce"
            )
            page = context.new_page()
            for name, path in VIEWS.items():
                _visit(page, path)
                _draw(page, f"{name}-{scheme}")
            page.set_viewport_size(PHONE)
            for name in ON_A_PHONE:
                _visit(page, VIEWS[name])
                _draw(page, f"{name}-phone-{scheme}")
        browser.close()


def _visit(page: Page, path: str) -> None:
    """Go there, and do what makes the view show all that it can."""
    page.goto(path)
    page.locator("#live:not([hidden])").wait_for()
    match path:
        case "/cost" | "/plan" | "/holdings/2":
            expect(page.locator("[data-pending]")).to_have_count(0, timeout=600_000)
        case "/evidence":
            page.get_by_role("button", name="Verify all of it").click()
            page.locator("#verifying .is-good").wait_for(timeout=120_000)
        case "/policies" if not page.locator("#checks table").count():
            page.get_by_role("button", name="Judge the challenger").click()
            page.locator("#checks table").wait_for(timeout=120_000)
        case _:
            pass


def _draw(page: Page, name: str) -> None:
    page.evaluate("scrollTo(0, 0)")
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    width, height = picture.size
    picture.crop((0, 0, width, min(height, TALLEST))).save(OUT / f"{name}.webp", quality=QUALITY)


if __name__ == "__main__":
    main()
