"""Pages get a snapshot, then changes; a page that does not read gets a snapshot instead of missed changes."""

import asyncio

import pytest

from ankaios.dashboard.browser_hub import MAX_PAGES, MAX_QUEUED, BrowserHub, TooManyPages, encode_event


def a_hub() -> BrowserHub:
    return BrowserHub(lambda: b"snapshot")


async def test_changes_of_one_interval_are_sent_together() -> None:
    hub = a_hub()
    events = hub.events()
    assert await anext(events) == b"snapshot"
    hub.patch({"workloads": {"web": 1}}, [{"number": 1}])
    hub.patch({"workloads": {"web": 2, "db": None}}, [{"number": 2}])
    async with asyncio.timeout(10):
        event = await anext(events)
    assert event == encode_event(
        "patch", {"workloads": {"web": 2, "db": None}, "changes": [{"number": 1}, {"number": 2}]}
    )
    await events.aclose()  # type: ignore[attr-defined]
    assert not hub.has_pages


async def test_without_pages_no_changes_are_stored() -> None:
    hub = a_hub()
    hub.patch({"workloads": {"web": 1}}, [])
    hub.send("usage", {})
    hub.resync()
    assert hub._pending == {}


async def test_a_page_that_does_not_read_gets_a_snapshot() -> None:
    hub = a_hub()
    events = hub.events()
    await anext(events)
    for number in range(MAX_QUEUED * 2):
        hub.send("usage", number)
    async with asyncio.timeout(10):
        assert await anext(events) == b"snapshot"
    await events.aclose()  # type: ignore[attr-defined]


async def test_a_resync_is_sent_as_a_snapshot() -> None:
    hub = a_hub()
    events = hub.events()
    await anext(events)
    hub.resync()
    async with asyncio.timeout(10):
        assert await anext(events) == b"snapshot"
    await events.aclose()  # type: ignore[attr-defined]


async def test_the_number_of_pages_is_limited() -> None:
    hub = a_hub()
    open_pages = [hub.events() for _ in range(MAX_PAGES)]
    for events in open_pages:
        await anext(events)
    with pytest.raises(TooManyPages):
        await anext(hub.events())
    for events in open_pages:
        await events.aclose()  # type: ignore[attr-defined]


def test_events_have_one_data_line() -> None:
    assert encode_event("lines", ["a\nb"]) == b'event: lines\ndata: ["a\\nb"]\n\n'
