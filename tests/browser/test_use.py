"""The dashboard for everyone: by keys alone, in light and dark, without motion, by ear."""

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser.stage import VIEWS, Stage
from tests.support import parts

from holdfast.control.policies.aliases import Author
from holdfast.web import tokens
from holdfast.web.tokens import Role

SCHEMES = ("light", "dark")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("path", VIEWS)
def test_axe_finds_nothing_serious(page: Page, stage: Stage, path: str, scheme: str) -> None:
    axe = parts.axe().read_text()
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    with stage.case(1, "localise", "audit 3 failed"):
        page.goto(path)
    page.locator("details").evaluate_all("all => all.forEach((details) => (details.open = true))")
    # As a debugger would, for the page's own policy lets no other script in.
    page.evaluate(axe)
    report = page.evaluate("axe.run()")
    serious = [
        (violation["id"], [node["html"] for node in violation["nodes"]])
        for violation in report["violations"]
        if violation["impact"] in {"serious", "critical"}
    ]
    assert serious == []


@pytest.mark.slow
@pytest.mark.parametrize("key", ["f", "p", "e", "c", "d", "a"])
def test_two_keys_lead_to_each_view(page: Page, key: str) -> None:
    page.goto("/alerts" if key == "f" else "/")
    wanted = page.locator(f"nav a[data-key={key}]").get_attribute("href")
    page.keyboard.press("g")
    page.keyboard.press(key)
    page.wait_for_url(f"**{wanted}")


@pytest.mark.slow
def test_all_can_be_done_without_a_mouse(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("000004")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=000004**")
    link = page.get_by_role("link", name="holding-000004")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("holding-000004")
    page.wait_for_load_state()  # else a key may come before the script that waits for it
    page.get_by_role("button", name="Audit now").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Reason, for the evidence")).to_be_focused()
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("is due now")


@pytest.mark.slow
def test_what_has_the_focus_can_be_seen(page: Page) -> None:
    page.goto("/")
    for _ in range(6):
        page.keyboard.press("Tab")
        width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert width >= 2


@pytest.mark.slow
def test_the_focus_stays_where_it_is_when_a_page_renews_itself(page: Page, stage: Stage) -> None:
    page.goto("/")
    page.get_by_role("link", name="holding-000002").focus()
    before = page.locator("#summary").inner_text()
    stage.pass_days(2)
    page.wait_for_function(
        "before => document.getElementById('summary').innerText !== before", arg=before
    )
    expect(page.get_by_role("link", name="holding-000002")).to_be_focused()


@pytest.mark.slow
def test_a_question_mark_shows_the_shortcuts_which_can_be_switched_off(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.get_by_label("Use these shortcuts").uncheck()
    page.get_by_role("button", name="Close").click()
    page.reload()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_are_as_light_as_the_system_until_chosen_otherwise(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto("/")
    assert _dark(page) is (scheme == "dark")
    page.get_by_role("button", name="Light or dark").click()
    assert _dark(page) is (scheme == "light")
    page.goto("/alerts")
    assert _dark(page) is (scheme == "light"), "the choice is remembered"


@pytest.mark.slow
def test_nothing_moves_for_who_wants_no_motion(page: Page) -> None:
    page.goto("/")
    expect(page.locator("#live")).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.slow
def test_pages_are_whole_without_scripts(browser: Browser, stage: Stage) -> None:
    with browser.new_context(base_url=stage.url, java_script_enabled=False) as plain:
        page = plain.new_page()
        page.goto("/")
        assert page.locator("#holdings tbody tr").count() >= 6
        page.get_by_role("link", name="holding-000001").click()
        expect(page.locator("#timeline li").first).to_be_visible()


@pytest.mark.slow
def test_who_comes_from_afar_signs_in_and_sees_what_the_role_allows(
    browser: Browser, stage: Stage
) -> None:
    author = Author("ada", stage.operation.clock.now)
    token = tokens.create(stage.operation.engine, "guest", Role.VIEWER, author)
    # A proxy on this machine, which speaks for someone elsewhere.
    far = {"x-forwarded-for": "203.0.113.9"}
    with browser.new_context(base_url=stage.url, extra_http_headers=far) as context:
        page = context.new_page()
        page.goto("/")
        page.get_by_label("Token").fill("holdfast_1_" + "x" * 43)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("main")).to_contain_text("The token is not valid")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("h1")).to_have_text("Fleet")
        expect(page.locator("#live-words")).to_have_text("live")
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        page.goto("/holdings/1")
        expect(page.get_by_role("button", name="Audit now")).to_have_count(0)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()


# A proxy on this machine, which speaks for someone elsewhere.
FROM_AFAR = {"x-forwarded-for": "203.0.113.9"}
MAIL = "https://mail.example/inbox"


def read_mail(page: Page, markup: str) -> None:
    """Show a page of another site."""
    page.route(MAIL, lambda route: route.fulfill(body=markup, content_type="text/html"))
    page.goto(MAIL)


@pytest.mark.slow
def test_a_link_in_a_mail_leads_to_its_page_also_through_signing_in(
    browser: Browser, stage: Stage
) -> None:
    author = Author("ada", stage.operation.clock.now)
    token = tokens.create(stage.operation.engine, "reader", Role.OPERATOR, author)
    with browser.new_context(extra_http_headers=FROM_AFAR) as context:
        page = context.new_page()
        link = f"{stage.url}/holdings/3?before=9000"
        read_mail(page, f"<a href='{link}'>holding-000002 is damaged</a>")
        page.get_by_role("link").click()
        page.get_by_label("Token").fill("holdfast_1_" + "x" * 43)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("main")).to_contain_text("The token is not valid")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(link)
        expect(page.locator("h1")).to_have_text("holding-000002")
        page.goto(MAIL)
        page.get_by_role("link").click()
        expect(page.locator("h1")).to_have_text("holding-000002")
        expect(page.get_by_role("button", name="Audit now")).to_be_visible()


@pytest.mark.slow
def test_another_site_orders_nothing_for_who_is_signed_in(browser: Browser, stage: Stage) -> None:
    author = Author("ada", stage.operation.clock.now)
    token = tokens.create(stage.operation.engine, "victim", Role.ADMIN, author)
    order = f"{stage.url}/api/v1/holdings/1/audit-now"
    with browser.new_context(extra_http_headers=FROM_AFAR) as context:
        page = context.new_page()
        page.goto(stage.url)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("h1")).to_have_text("Fleet")
        read_mail(page, f"<form method=post action='{order}'><button>Win</button></form>")
        with page.expect_response(order) as ordered:
            page.get_by_role("button").click()
        assert ordered.value.status == 403
        page.goto(MAIL)
        sent = page.evaluate(
            "to => fetch(to, {method: 'POST', mode: 'no-cors', credentials: 'include', "
            "body: '{}'}).then(() => 'sent', () => 'blocked')",
            order,
        )
        assert sent in {"sent", "blocked"}, "nobody can read the answer"
        read_mail(page, f"<iframe src='{stage.url}/'></iframe>")
        assert page.frames[-1].url.startswith("chrome-error:"), "it is not shown in a frame"
    assert stage.orders_of("victim") == []


@pytest.mark.slow
def test_a_holding_under_repair_is_never_shown_as_nothing_to_see(page: Page, stage: Stage) -> None:
    with stage.case(2, "repair", "31 blocks are damaged"):
        for path in ("/", "/alerts", "/holdings/2"):
            page.goto(path)
            panel = page.locator("#under-way")
            expect(panel).to_contain_text("damaged blocks are being repaired")
            expect(panel).to_contain_text("31 blocks are damaged")
            expect(page.locator(".headline").first).to_have_class("headline is-bad")
    expect(page.locator("#under-way")).to_be_hidden(timeout=20_000)


@pytest.mark.slow
def test_a_case_appears_and_goes_while_one_watches(page: Page, stage: Stage) -> None:
    page.goto("/alerts")
    expect(page.locator("#live-words")).to_have_text("live")
    expect(page.locator("#under-way")).to_be_hidden()
    with stage.case(2, "localise", "audit 9 failed"):
        stage.alerts.raise_alert("node-offline", "a moment", "nobody listens")
        expect(page.locator("#under-way")).to_contain_text("the damage is being localised")
    expect(page.locator("#under-way")).to_be_hidden(timeout=20_000)


def _dark(page: Page) -> bool:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(colour.partition("(")[2].partition(",")[0])
    return red < 128
