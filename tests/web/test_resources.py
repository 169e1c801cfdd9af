"""What the API tells is what the operation did."""

from tests.web.conftest import Served


def test_the_fleet_is_told_at_a_glance(served: Served) -> None:
    fleet = served.client.get("/fleet").json()
    assert fleet["holdings"] == 6
    assert sum(fleet["health"].values()) == 6


def test_lists_go_on_where_a_page_ended(served: Served) -> None:
    found, after = [], None
    while True:
        query = {"limit": 4} | ({"after": after} if after else {})
        page = served.client.get("/audits", params=query).json()
        found += page["audits"]
        after = page["next"]
        if after is None:
            break
    ends = [(each["ended"], each["id"]) for each in found]
    assert ends == sorted(ends, reverse=True)
    assert len(set(ends)) == len(ends)
    assert len(found) == sum(day["audits"] for day in served.client.get("/rails").json())
