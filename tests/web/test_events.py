"""Events come as things happen, and go on where a listener was cut off."""

from itertools import islice

from tests.web.conftest import Served
from tests.web.listening import Heard, events

from holdfast.control.alerts import Alerts
from holdfast.control.rails import DAY


def leaves(told: list[Heard]) -> list[int | None]:
    return [each.id for each in told if each.name == "leaf"]


def test_a_listener_hears_of_what_happens_after_it_came(changing: Served) -> None:
    stream = events(changing.client, "/events")
    assert {each.name for each in islice(stream, 2)} == {"head", "alerts"}
    size = changing.client.get("/evidence").json()["size"]
    changing.client.post("/holdings/1/audit-now", json={})
    Alerts(changing.engine, changing.clock).begin("node-offline", "attic", "no answer")
    changing.operation.sequencer.sequence()
    told = {each.name: each for each in islice(stream, 3)}
    assert told["leaf"].id == size
    assert told["leaf"].data["kind"] == "instruction"
    assert told["head"].data["size"] == size + 1
    assert [each["subject"] for each in told["alerts"].data["open"]] == ["attic"]


def test_a_stream_goes_on_after_the_last_event_that_was_heard(changing: Served) -> None:
    size = changing.client.get("/evidence").json()["size"]
    first = list(islice(events(changing.client, "/events", last=0), size - 1))
    assert leaves(first) == list(range(1, size))
    changing.operation.until(changing.clock.now + 15 * DAY)
    grown = changing.client.get("/evidence").json()["size"]
    assert grown > size
    rest = list(islice(events(changing.client, "/events", last=size - 1), grown - size))
    assert leaves(rest) == list(range(size, grown))


def test_an_alert_that_is_acknowledged_is_told_again(changing: Served) -> None:
    Alerts(changing.engine, changing.clock).begin("node-offline", "attic", "no answer")
    stream = events(changing.client, "/events")
    before = next(each for each in stream if each.name == "alerts")
    changing.client.post(f"/alerts/{before.data['open'][0]['id']}/acknowledge", json={})
    after = next(each for each in stream if each.name == "alerts")
    assert after.data["open"][0]["acknowledged_by"] == "this machine"


def test_no_more_may_listen_than_there_are_places(changing: Served) -> None:
    streams = [events(changing.client, "/events") for _ in range(32)]
    for stream in streams:
        next(stream)
    answer = changing.client.get("/events")
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "busy"
    streams.pop().close()
    for _ in range(50):
        with changing.client.stream("GET", "/events") as again:
            if again.status_code == 200:
                break
    else:
        raise AssertionError("a place that was left stays taken")
    for stream in streams:
        stream.close()
