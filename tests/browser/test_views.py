"""Each view on the real server: what it tells, that it is live, and that its orders are obeyed."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import delete, select, update
from tests.browser.stage import CHALLENGER, PHONE, SILENT, VIEWS, Stage

from holdfast.control.scheduling.schedule import Schedule
from holdfast.evidence.bundle import Bundle
from holdfast.evidence.verification import verify
from holdfast.pdp import SecretKey
from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import confidences
from holdfast.storage.schema import holdings, leaves

every_view = pytest.mark.parametrize("path", VIEWS)


@pytest.mark.slow
@every_view
def test_each_view_has_its_title_and_marks_its_place(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("h1")).to_have_text(VIEWS[path])
    expect(page.locator("nav [aria-current=page]")).to_have_count(1)
    expect(page).to_have_title(re.compile(r" · Holdfast$"))


@pytest.mark.slow
@every_view
def test_no_view_is_wider_than_a_phone(page: Page, path: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(path)
    wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide == 0


@pytest.mark.slow
def test_the_fleet_is_told_in_words_and_listed_worst_first(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".headline")).to_contain_text("of 6 holdings")
    healths = page.locator("#holdings tbody .badge").all_inner_texts()
    order = ["overdue", "quarantined", "damaged", "silent", "new", "sound"]
    assert len(healths) == 6
    assert healths == sorted(healths, key=order.index)


@pytest.mark.slow
def test_a_list_on_a_phone_is_cards_that_name_their_figures(page: Page) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/")
    cell = page.locator("#holdings td[data-label=Health]").first
    assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == '"Health"'
    assert (
        page.locator("#holdings tr").nth(1).evaluate("e => getComputedStyle(e).display") == "grid"
    )


@pytest.mark.slow
def test_holdings_are_found_by_name_and_sorted(page: Page) -> None:
    page.goto("/")
    page.get_by_role("searchbox").fill("000003")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#holdings tbody tr")).to_have_count(1)
    page.goto("/")
    page.get_by_role("link", name="Holding", exact=True).click()
    expect(page.locator("th[aria-sort]")).to_have_text("Holding")
    expect(page.locator("#holdings tbody th").first).to_contain_text("holding-000000")


@pytest.mark.slow
def test_a_page_renews_itself_after_an_audit(page: Page, stage: Stage) -> None:
    page.goto("/")
    before = page.locator("#summary").inner_text()
    expect(page.locator("#live-words")).to_have_text("live")
    page.locator("#days summary").click()
    stage.pass_days(2)
    page.wait_for_function(
        "before => document.getElementById('summary').innerText !== before", arg=before
    )
    expect(page.locator("#days details")).to_have_attribute("open", "")


@pytest.mark.slow
def test_a_holding_tells_its_decisions_with_reasons_and_hashes(page: Page) -> None:
    page.goto("/holdings/1")
    first = page.locator("#timeline li").first
    expect(first).to_contain_text("drqn-cmdp-plus chose")
    expect(first).to_contain_text(f"In shadow, {CHALLENGER} would have chosen")
    first.locator("summary").click()
    for fact in ("Policy", "Proof (Keccak-256)", "Transaction", "Gas", "Evidence"):
        expect(first.locator("dt", has_text=fact).first).to_be_visible()
    page.locator("#belief summary").click()
    rows = page.locator("#belief tbody tr").count()
    assert rows > 0
    expect(page.locator("#belief .area circle")).to_have_count(rows)


@pytest.mark.slow
def test_an_audit_is_ordered_confirmed_and_recorded(page: Page, stage: Stage) -> None:
    page.goto("/holdings/2")
    page.get_by_role("button", name="Audit now").click()
    page.get_by_label("Reason, for the evidence").fill("<b>a customer asks</b>")
    page.locator("#confirm-yes").click()
    expect(page.locator("#toast")).to_have_text("Done: holding-000001 is due now.")
    stage.operation.sequencer.sequence()
    assert json.loads(_body(stage))["reason"] == "<b>a customer asks</b>"


@pytest.mark.slow
def test_an_order_that_is_not_confirmed_is_not_given(page: Page) -> None:
    asked = []
    page.on("request", lambda request: asked.append(request.method))
    page.goto("/holdings/3")
    page.get_by_role("button", name="Audit now").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Audit now").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#confirm")).to_be_hidden()
    assert "POST" not in asked


@pytest.mark.slow
def test_rails_tell_what_they_changed_and_why(page: Page) -> None:
    page.goto("/rails")
    page.wait_for_url("**/cost#rails")
    expect(page.locator("#rails")).to_contain_text("the fail-safe decided")
    expect(page.locator("#overridden tbody tr").first).to_contain_text("fail-safe applies")
    assert page.locator("#rails .area rect").count() > 0


@pytest.mark.slow
def test_the_challenger_is_judged_promoted_and_rolled_back(page: Page, troubles: list[str]) -> None:
    page.goto("/policies")
    expect(page.locator(".headline").first).to_contain_text(f"{CHALLENGER} runs in shadow")
    expect(page.locator("#shadow tbody tr")).to_have_count(6)
    page.get_by_role("button", name="Promote").click()
    page.locator("#confirm-yes").click()
    expect(page.locator("#toast")).to_contain_text("Refused: it has not been judged")
    assert "409" in troubles.pop()
    page.get_by_role("button", name="Judge the challenger").click()
    expect(page.locator("#checks")).to_contain_text("may be promoted", timeout=60_000)
    page.get_by_role("button", name="Promote").click()
    expect(page.locator("#confirm-words")).to_contain_text("All checks held")
    page.locator("#confirm-yes").click()
    expect(page.locator("#summary .headline")).to_contain_text(f"{CHALLENGER} decides")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_label("Reason, for the evidence").fill("too dear")
    page.keyboard.press("Enter")
    expect(page.locator("#summary .headline")).to_contain_text("drqn-cmdp-plus decides")
    expect(page.locator("#history li").first).to_contain_text("rolled back")
    expect(page.locator("#history li").first).to_contain_text("too dear")


@pytest.mark.slow
def test_the_evidence_is_verified_while_one_watches(page: Page) -> None:
    page.goto("/evidence")
    page.get_by_role("button", name="Verify all of it").click()
    words = page.locator("#verifying-words")
    expect(words).to_contain_text("Everything fits", timeout=60_000)
    expect(words).to_contain_text("proofs checked again.")
    expect(page.locator("#verifying progress")).to_have_js_property("value", 1)


@pytest.mark.slow
def test_evidence_that_was_edited_does_not_verify(page: Page, stage: Stage) -> None:
    page.goto("/evidence")
    raw = stage.operation.engine.raw_connection()
    edit = (
        "update leaves set body = cast(replace(cast(body as text), ?, ?) as blob) where place = 3"
    )
    words = ("passed", "failed") if _body(stage, 3).count(b'"passed"') else ("failed", "passed")
    try:
        raw.cursor().execute(edit, words)
        raw.commit()
        page.get_by_role("button", name="Verify all of it").click()
        expect(page.locator("#verifying-words")).to_contain_text("does not fit", timeout=60_000)
        assert page.locator("#verifying li").count() > 0
    finally:
        raw.cursor().execute(edit, words[::-1])
        raw.commit()
        raw.close()


@pytest.mark.slow
def test_a_bundle_can_be_taken_along_and_checked(page: Page, tmp_path: Path) -> None:
    page.goto("/evidence")
    with page.expect_download() as taken:
        page.get_by_role("link", name="With proofs").click()
    path = tmp_path / taken.value.suggested_filename
    taken.value.save_as(path)
    bundle = Bundle.open(path)
    assert verify(bundle, bundle.verifier).findings == ()


@pytest.mark.slow
def test_the_cost_is_held_against_other_rules(page: Page) -> None:
    page.goto("/cost")
    expect(page.locator("#rules tbody tr")).to_have_count(7, timeout=120_000)
    expect(page.locator("#summary .headline")).to_contain_text("than fixed high-frequency auditing")
    expect(page.locator("tr.chosen th")).to_contain_text("drqn-cmdp-plus")


@pytest.mark.slow
def test_turning_the_dial_shows_what_each_setting_costs_and_misses(page: Page) -> None:
    page.goto("/plan")
    dial = page.get_by_role("slider")
    expect(dial).to_be_visible(timeout=240_000)
    dial.focus()
    page.keyboard.press("Home")
    expect(page.locator("output")).to_have_text("1")
    expect(page.locator("#plan .headline")).to_contain_text("Setting 1 of")
    cheap = page.locator("#plan dd").nth(1).inner_text()
    page.keyboard.press("End")
    expect(page.locator("#plan .headline")).not_to_contain_text("Setting 1 of")
    safe = page.locator("#plan dd").nth(1).inner_text()
    assert float(cheap.split()[0]) < float(safe.split()[0]), "safety costs gas"
    expect(dial).to_be_focused()
    expect(page.locator("#picture circle.chosen-spot").first).to_be_visible()
    page.get_by_label("Miss at most").fill("0.01")
    page.get_by_role("button", name="Find the notch").click()
    expect(page.locator("#plan")).to_contain_text("No setting keeps that")


@pytest.mark.slow
def test_an_alert_is_seen_at_once_and_acknowledged(page: Page, stage: Stage) -> None:
    page.goto("/alerts")
    stage.alerts.raise_alert("disk-full", "host", "no space is left")
    alert = page.locator(".alerts li", has_text="Disk full")
    expect(alert).to_be_visible()
    alert.get_by_role("button", name="Acknowledge").click()
    page.locator("#confirm-yes").click()
    expect(alert).to_contain_text("acknowledged")
    expect(alert.get_by_role("button")).to_have_count(0)


@pytest.mark.slow
def test_what_is_not_there_is_said_in_words(page: Page, troubles: list[str]) -> None:
    page.goto("/holdings/999")
    expect(page.locator("main")).to_contain_text("There is no holding 999")
    assert "404" in troubles.pop()


@pytest.mark.slow
def test_what_was_quarantined_is_released_by_its_button(page: Page, stage: Stage) -> None:
    names = stage.answer()
    assert names
    page.goto("/?health=quarantined")
    expect(page.locator("#holdings tbody .badge")).to_have_text(["quarantined"] * len(names))
    page.goto("/alerts")
    raised = page.locator(".alerts li", has_text=f"Holding quarantined {names[0]}")
    expect(raised).to_contain_text("Raised just now, last seen just now")
    for name in names:
        page.goto("/?health=quarantined")
        page.get_by_role("link", name=name).click()
        expect(page.locator("#cases")).to_contain_text("quarantine")
        reason = page.get_by_label("Reason, for the evidence")
        for _ in range(20):
            # The page may renew itself between a press and a release of the button.
            page.get_by_role("button", name="Release").click()
            page.wait_for_timeout(300)
            if reason.is_visible():
                break
        reason.fill("it was mended")
        page.locator("#confirm-yes").click()
        expect(page.locator("#toast")).to_have_text(f"Done: {name} is on the schedule again.")
        expect(page.get_by_role("button", name="Audit now")).to_be_visible()
    stage.operation.sequencer.sequence()
    assert json.loads(_body(stage))["reason"] == "it was mended"


@pytest.mark.slow
def test_what_may_be_damaged_is_told_with_its_moment(page: Page, stage: Stage) -> None:
    stage.infer()
    page.goto("/?sort=confidence")
    expect(page.locator("th[aria-sort]")).to_have_text("Confidence")
    first = page.locator("#holdings td[data-label=Confidence]").first
    expect(first).to_contain_text("damaged")
    expect(first.locator("time")).to_be_visible()
    page.locator("#holdings tbody a").first.click()
    expect(page.locator("#summary .headline")).to_contain_text("at 95 %, as of")


@pytest.mark.slow
def test_within_a_health_the_largest_bound_on_damage_comes_first(page: Page, stage: Stage) -> None:
    stage.infer()
    page.goto("/")
    rows = page.locator("#holdings tbody tr")
    bounds: dict[str, list[float]] = {}
    for row in rows.all():
        confidence = row.locator("td[data-label=Confidence]").inner_text()
        bound = re.match(r"≤ ([0-9.]+)", confidence)
        health = row.locator(".badge").inner_text()
        bounds.setdefault(health, []).append(float(bound[1]) if bound else -1.0)
    assert max(len(values) for values in bounds.values()) > 1
    assert all(values == sorted(values, reverse=True) for values in bounds.values())


@pytest.mark.slow
def test_a_tiny_probability_is_shown_as_less_than_a_hundredth_of_a_percent(
    page: Page, stage: Stage
) -> None:
    stage.infer()
    with transaction(stage.operation.engine) as connection:
        tiny = update(confidences).where(confidences.c.holding == 2)
        connection.execute(tiny.values(damaged=1e-155, at_most=1e-9))
    page.goto("/holdings/2")
    tile = page.locator("#summary .tiles div", has_text="Any damage at all")
    expect(tile).to_contain_text("< 0.01 %")
    expect(page.locator("#summary .headline")).to_contain_text("At most 0.01 % of its blocks")
    for path in ("/", "/holdings/2"):
        page.goto(path)
        assert not re.search(r"\de-\d", page.locator("main").inner_text())


@pytest.mark.slow
def test_a_holding_shows_the_hours_in_which_its_node_was_reachable(
    page: Page, stage: Stage
) -> None:
    stage.observe_nodes(10)
    page.goto("/holdings/1")
    tile = page.locator("#summary .tiles div", has_text="Node reachable")
    expect(tile).to_contain_text(
        re.compile(r"100\s% 236(\.\d)? of 236(\.\d)? h observed in 30 days")
    )
    page.goto("/holdings/2")
    expect(tile).to_contain_text(re.compile(r"9[0-9.]+\s% 21\d(\.\d)? of 236(\.\d)? h"))
    page.goto(f"/holdings/{SILENT + 1}")
    expect(tile).to_contain_text(re.compile(r"0\s% 0 of 236(\.\d)? h"))


@pytest.mark.slow
def test_hostile_names_are_shown_and_do_nothing(page: Page, stage: Stage) -> None:
    names = (
        "<img src=x onerror=\"document.title='taken'\">",
        "'\"><script>document.title='taken'</script>",
        "a\u202egpj.exe\u0000\u001b[31m",
        "long " * 200_000,
    )
    key = SecretKey.generate(1).public
    engine = stage.operation.engine
    Schedule(engine).add([(name, 10, key) for name in names], stage.operation.clock.now)
    try:
        page.goto("/?sort=name")
        for name in names[:2]:
            page.get_by_role("link", name=name).click()
            expect(page.locator("h1")).to_have_text(name)
            expect(page).not_to_have_title("taken")
            page.goto("/?sort=name")
        assert page.locator("main img, main script").count() == 0
        assert len(page.locator("main").inner_text()) < 20_000
    finally:
        # Other tests of this stage let days pass, and nobody could audit these.
        with transaction(engine) as connection:
            connection.execute(delete(holdings).where(holdings.c.name.in_(names)))


def _body(stage: Stage, place: int | None = None) -> bytes:
    """Return a leaf of the evidence, or the last."""
    query = select(leaves.c.body).order_by(leaves.c.place.desc()).limit(1)
    with transaction(stage.operation.engine) as connection:
        wanted = query if place is None else query.where(leaves.c.place == place)
        return bytes(connection.execute(wanted).scalar_one())
