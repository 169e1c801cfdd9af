"""One event stream per browser: any number of tabs load, stay live, and outlive each other."""

from contextlib import ExitStack

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.stage import Stage

from holdfast.web.context import MAX_STREAMS_PER_CALLER

POLL_MILLISECONDS = 5_000
TABS = 8  # a browser has six connections to a server


def open_tabs(context: BrowserContext, count: int) -> list[Page]:
    tabs = [context.new_page() for _ in range(count)]
    for tab in tabs:
        tab.set_default_timeout(20_000)
        tab.goto("/alerts")
        expect(tab.locator("#live-words")).to_have_text("live")
    return tabs


@pytest.mark.slow
def test_more_tabs_than_connections_are_live_with_one_stream(
    context: BrowserContext, stage: Stage
) -> None:
    tabs = open_tabs(context, TABS)
    stage.alerts.raise_alert("node-offline", "tabs", "nobody listens")
    for tab in tabs:
        expect(tab.locator(".alerts li", has_text="tabs")).to_be_visible()
    with ExitStack() as stack:  # all callers on this machine have these streams together
        statuses = [
            stack.enter_context(httpx.stream("GET", f"{stage.url}/api/v1/events")).status_code
            for _ in range(MAX_STREAMS_PER_CALLER)
        ]
    assert statuses == [httpx.codes.OK] * (MAX_STREAMS_PER_CALLER - 1) + [
        httpx.codes.TOO_MANY_REQUESTS
    ]


@pytest.mark.slow
def test_a_tab_stays_live_when_the_first_one_is_closed(
    context: BrowserContext, stage: Stage
) -> None:
    first, second, third = open_tabs(context, 3)
    first.close()
    second.goto("/")
    stage.alerts.raise_alert("node-offline", "orphan", "nobody listens")
    expect(third.locator(".alerts li", has_text="orphan")).to_be_visible()
    expect(third.locator("#live-words")).to_have_text("live")


@pytest.mark.slow
@pytest.mark.parametrize(
    "without",
    [
        "delete globalThis.SharedWorker",
        "globalThis.SharedWorker = class { constructor() { throw new Error('forbidden'); } }",
    ],
)
def test_a_browser_without_shared_workers_polls(
    context: BrowserContext, stage: Stage, without: str
) -> None:
    context.add_init_script(without)
    tab = context.new_page()
    tab.clock.install()
    tab.goto("/alerts")
    name = f"polled {len(without)}"
    stage.alerts.raise_alert("node-offline", name, "nobody listens")
    tab.clock.fast_forward(POLL_MILLISECONDS)
    expect(tab.locator(".alerts li", has_text=name)).to_be_visible(timeout=20_000)
    expect(tab.locator("#live-words")).to_have_text("live")


@pytest.mark.slow
def test_the_number_of_open_alerts_appears_while_one_watches(page: Page, stage: Stage) -> None:
    page.goto("/policies")
    expect(page.locator("#live-words")).to_have_text("live")
    before = int(page.locator("#open-alerts").inner_text().split()[0])
    stage.alerts.raise_alert("node-offline", "counted", "nobody listens")
    expect(page.locator("#open-alerts")).to_contain_text(str(before + 1))
