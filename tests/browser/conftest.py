"""The dashboard in headless Chromium, over a fleet that has lived for some weeks.

Every page is watched: an error in its console, or a request to another host, fails its test.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)
from tests.browser.stage import WIDE, Stage, staged
from tests.support import parts


# Until the module ends and no longer: while the driver lives, its event loop runs in this thread,
# and nobody else's could.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = parts.chromium()
    with sync_playwright() as driver:
        # Tests may run as root, where Chromium's own sandbox does not start.
        launched = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("stage"), holdings=6, days=17) as running:
        yield running


@pytest.fixture
def troubles() -> list[str]:
    """Return what went wrong in the browser; a test that means it to takes it out."""
    return []


@pytest.fixture
def context(browser: Browser, stage: Stage, troubles: list[str]) -> Iterator[BrowserContext]:
    opened = browser.new_context(base_url=stage.url, viewport=WIDE, reduced_motion="reduce")

    def heard(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            troubles.append(message.text)

    def asked(request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(stage.url).netloc:
            troubles.append(f"a request to {request.url}")

    opened.on("console", heard)
    opened.on("request", asked)
    opened.on("weberror", lambda error: troubles.append(str(error.error)))
    yield opened
    opened.close()
    assert troubles == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_default_timeout(20_000)
    return page
