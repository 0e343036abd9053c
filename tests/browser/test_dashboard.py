"""The dashboard in a real browser, on a real cluster. With ANKAIOS_PICTURES=1 the pictures of the docs are taken.

Needs: chromium.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import CHROMIUM, PHONE, Browser, Dashboard, wait_until
from tests.support.cluster import WAIT_SECONDS, Cluster
from tests.support.device_manifests import a_cluster, apply, availability, cameras

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

AXE = (Path(__file__).parent / "vendor/axe.min.js").read_text(encoding="utf-8")
PICTURES = Path(__file__).resolve().parents[2] / "docs/pictures"
PAGES = (
    "",
    "workloads",
    "workloads/camera-app",
    "nodes",
    "nodes/edge-1",
    "devices",
    "graph",
    "events",
    "history",
    "apply",
)
VIOLATIONS = "async () => (await axe.run()).violations.map((one) => [one.id, one.nodes.map((node) => node.html)])"
HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
expect.set_options(timeout=WAIT_SECONDS * 1000)


def a_process(script: str, agent: str = "edge-1", **more: Any) -> dict[str, Any]:
    config = json.dumps({"command": ["/bin/busybox", "sh", "-c", script]})
    return {"agent": agent, "runtime": "native", "runtimeConfig": config, **more}


def sleeps(agent: str = "edge-1", **more: Any) -> dict[str, Any]:
    return a_process("sleep 1000", agent, **more)


WORKLOADS = {
    "database": sleeps("edge-2"),
    "api": sleeps(dependencies={"database": "ADD_COND_RUNNING"}),
    "camera-app": sleeps(dependencies={"api": "ADD_COND_RUNNING"}, resources=[{"name": "cameras", "quantity": 1}]),
    "ticker": a_process(
        "n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.2; done", "edge-2", tags={"kind": HOSTILE}
    ),
    "hostile": a_process(f"echo '{HOSTILE}'; printf 'red \\033[31mtext\\n'; sleep 1000"),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with a_cluster(shared=False) as made:
        made.start_server()
        for name in ("edge-1", "edge-2"):
            made.start_agent(name, runtimes=["native"])
        apply(made, cameras("front", "rear", name="cameras", capacity=1, placement={"agents": ["edge-1"]}))
        apply(made, {"workloads": WORKLOADS})
        for name in WORKLOADS:
            made.wait_for(name, "Running(Ok)")
        yield made


@pytest.fixture(scope="module")
def dashboard(cluster: Cluster) -> Iterator[Dashboard]:
    with Dashboard(cluster, "--allow-changes") as made:
        yield made


@pytest.fixture(scope="module")
def one_browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    one_browser.errors.clear()
    yield one_browser
    one_browser.close_pages()
    assert one_browser.errors == []


def picture(page: Page, name: str) -> None:
    if os.environ.get("ANKAIOS_PICTURES"):
        page.wait_for_timeout(2500)  # charts have some values
        page.screenshot(path=PICTURES / f"dashboard-{name}.png")


def open_page(page: Page, path: str) -> None:
    page.evaluate("path => { location.hash = `#/${path}`; }", path)
    expect(page.locator("h1")).to_be_visible()


def test_everything_runs(browser: Browser, dashboard: Dashboard) -> None:
    page = browser.page(dashboard.url)
    expect(page.locator("h1")).to_have_text("All 5 workloads run as desired")
    expect(page.get_by_role("heading", name="Problems")).to_be_hidden()
    expect(page.locator(".cards.nodes .card")).to_have_count(2)
    expect(page.get_by_role("status").first).to_contain_text("Connected to http://127.0.0.1")
    picture(page, "running")
    open_page(page, "graph")
    expect(page.locator(".graph .edge")).to_have_count(2)
    picture(page, "graph")
    open_page(page, "devices")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator(".slot.used")).to_have_count(1)
    expect(page.get_by_role("link", name="camera-app")).to_be_visible()
    open_page(page, "workloads")
    expect(page.locator("tbody tr", has_text="ticker").locator(".number").nth(1)).to_contain_text(re.compile("[KM]iB"))
    picture(page, "workloads")


def test_a_workload_and_a_node_have_their_pages(browser: Browser, dashboard: Dashboard, cluster: Cluster) -> None:
    page = browser.page(f"{dashboard.url}/#/workloads/api")
    needs = page.locator("section", has_text="It needs")
    expect(needs.get_by_role("link", name="database")).to_be_visible()
    expect(needs.get_by_role("link", name="camera-app")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text(re.compile("native.*Restarts.*CPU.*Memory.*Uptime"))
    expect(page.locator(".timeline rect.good").first).to_be_attached()
    expect(page.locator("pre").first).to_contain_text("database: ADD_COND_RUNNING")
    page.get_by_text("As rendered for the agent").click()
    expect(page.locator("pre").last).to_be_visible()
    expect(page.locator("pre").last).to_contain_text("agent: edge-1")
    open_page(page, "nodes/edge-1")
    expect(page.locator(".card", has_text="Free memory")).to_contain_text(re.compile("[KMG]iB"))
    expect(page.locator("tbody tr", has_text="akri.sh/cameras").first).to_be_visible()
    expect(page.locator("table.workloads tbody tr")).to_have_count(3)
    open_page(page, "graph")
    expect(page.locator(".graph .edge")).to_have_count(2)
    apply(cluster, {"workloads": {"more": sleeps(dependencies={"api": "ADD_COND_RUNNING"})}})
    expect(page.locator(".graph .edge")).to_have_count(3)
    expect(page.locator(".graph .node.good", has_text="more")).to_be_visible()
    cluster.ank("delete", "workload", "more")
    expect(page.locator(".graph .edge")).to_have_count(2)


def test_a_failure_is_visible_with_its_reason(browser: Browser, dashboard: Dashboard, cluster: Cluster) -> None:
    page = browser.page(dashboard.url)
    apply(cluster, {"workloads": {"failing": a_process("echo cannot open the port >&2; exit 3")}})
    expect(page.locator("h1")).to_have_text("1 of 6 workloads has a problem")
    card = page.locator(".problems .card")
    expect(card).to_contain_text("failing")
    expect(card).to_contain_text("Exit code: '3'")
    expect(card).to_contain_text("cannot open the port")
    picture(page, "problem")
    card.get_by_role("link", name="failing").click()
    expect(page.locator("h1")).to_have_text("failing")
    expect(page.locator(".states")).to_contain_text("Failed(ExecFailed)")
    expect(page.locator(".log")).to_contain_text("cannot open the port")
    expect(page.locator(".timeline")).to_be_visible()
    picture(page, "workload")
    cluster.ank("delete", "workload", "failing")
    expect(page.locator(".states")).to_contain_text("There is no such workload")
    open_page(page, "")
    expect(page.locator("h1")).to_have_text("All 5 workloads run as desired")


def test_a_change_is_drawn_soon_after_its_event(browser: Browser, dashboard: Dashboard, cluster: Cluster) -> None:
    """The page itself notes when it draws a change, and the dashboard when it received the event."""
    page = browser.page(dashboard.url)
    expect(page.locator("h1")).to_have_text("All 5 workloads run as desired")
    page.evaluate(
        """() => { window.drawn = []; new MutationObserver(() => { const first = document.querySelector(".changes li");
        if (first?.textContent.includes("quick")) window.drawn.push(Date.now()); })
        .observe(document.querySelector(".changes"), { childList: true }); }"""
    )
    apply(cluster, {"workloads": {"quick": sleeps()}})
    wait_until(page, "window.drawn.length > 0")
    event = page.locator(".changes li", has_text="quick").last.locator("time").get_attribute("datetime")
    delay = page.evaluate("event => window.drawn[0] - new Date(event).getTime()", event)
    assert delay < 2000, "typically below 100 ms; the limit is for a busy machine"
    cluster.ank("delete", "workload", "quick")
    expect(page.locator("h1")).to_have_text("All 5 workloads run as desired")


def test_output_is_streamed_paused_and_searched(browser: Browser, dashboard: Dashboard) -> None:
    page = browser.page(f"{dashboard.url}/#/workloads/ticker")
    lines = page.locator(".log div")
    expect(lines.nth(5)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    count = lines.count()
    expect(page.locator(".tools [role=status]")).to_contain_text(re.compile("paused, [1-9]"))
    assert lines.count() == count
    page.get_by_role("button", name="Continue").click()
    expect(lines.nth(count)).to_be_visible()
    page.get_by_label("Search the output").fill("tick 3")
    expect(page.locator(".log div:visible").first).to_have_text("tick 3")
    expect(page.locator(".log")).not_to_contain_text("tock")


def test_hostile_texts_stay_texts(browser: Browser, dashboard: Dashboard) -> None:
    page = browser.page(f"{dashboard.url}/#/workloads/hostile")
    expect(page.locator(".log")).to_contain_text(HOSTILE)
    open_page(page, "workloads/ticker")
    expect(page.locator(".facts")).to_contain_text(HOSTILE)
    open_page(page, f"workloads/{HOSTILE}")
    expect(page.locator(".states")).to_contain_text("There is no such workload")
    open_page(page, "nodes/%3Cb%3E")
    expect(page.locator("h1")).to_have_text("<b>")
    assert page.evaluate("window.hacked") is None


def test_a_removed_device_is_shown(browser: Browser, dashboard: Dashboard, cluster: Cluster) -> None:
    page = browser.page(f"{dashboard.url}/#/devices")
    expect(page.locator("tbody tr")).to_have_count(2)
    availability(cluster).write_text("OFFLINE")
    try:
        expect(page.locator("tbody .chip.bad", has_text="offline").first).to_be_visible()
        picture(page, "devices")
    finally:
        availability(cluster).unlink()
    expect(page.locator("tbody .chip.bad", has_text="offline")).to_have_count(0)


def test_a_manifest_is_planned_and_applied(browser: Browser, dashboard: Dashboard, cluster: Cluster) -> None:
    page = browser.page(f"{dashboard.url}/#/apply")
    page.get_by_label("Manifest").fill("apiVersion: v1\nworkloads:\n  a b: {}\n")
    page.get_by_role("button", name="Show plan").click()
    expect(page.locator(".plan .fault")).to_contain_text("Manifest schema validation failed")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    page.get_by_label("Manifest").fill(json.dumps({"apiVersion": "v1", "workloads": {"added": sleeps()}}))
    page.get_by_role("button", name="Show plan").click()
    expect(page.get_by_role("button", name="Apply")).to_be_enabled()
    picture(page, "apply")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".plan .success")).to_be_visible()
    expect(page.locator(".plan")).to_contain_text("added")
    cluster.wait_for("added", "Running(Ok)")
    cluster.ank("delete", "workload", "added")


def test_the_plan_shows_the_differences_before_anything_changes(
    browser: Browser, dashboard: Dashboard, cluster: Cluster
) -> None:
    page = browser.page(f"{dashboard.url}/#/apply")
    changed = {"apiVersion": "v1", "workloads": {"hostile": WORKLOADS["hostile"] | {"tags": {"version": "2"}}}}
    page.get_by_label("Manifest").fill(json.dumps(changed))
    page.get_by_role("button", name="Show plan").click()
    card = page.locator(".plan .card")
    expect(card).to_contain_text("workload hostile")
    expect(card.locator(".chip")).to_have_text("restart")
    expect(card.locator(".added")).to_have_text(re.compile("tags"))
    assert "tags" not in cluster.state("desiredState.workloads.hostile")["desiredState"]["workloads"]["hostile"]


def test_the_history_shows_differences_and_restores_a_revision(
    browser: Browser, dashboard: Dashboard, cluster: Cluster
) -> None:
    page = browser.page(f"{dashboard.url}/#/history")
    expect(page.locator(".revisions > li").first).to_contain_text("current")
    apply(cluster, {"workloads": {"versioned": sleeps(tags={"version": "1"})}})
    apply(cluster, {"workloads": {"versioned": sleeps(tags={"version": "2"})}})
    newest, older = page.locator(".revisions > li").nth(0), page.locator(".revisions > li").nth(1)
    newest.get_by_text("workload versioned changed").click()
    expect(newest.locator(".diff .removed")).to_have_text(re.compile(r"- +version: '1'"))
    expect(newest.locator(".diff .added")).to_have_text(re.compile(r"\+ +version: '2'"))
    picture(page, "history")
    number = older.locator("h2").inner_text()
    page.once("dialog", lambda dialog: dialog.accept())
    older.get_by_role("button", name="Restore").click()
    expect(page.get_by_text(f"{number} is restored.")).to_be_visible()
    expect(page.locator(".revisions > li").first.locator(".diff")).to_contain_text("version: '1'")
    expect(page.locator(".revisions > li").first).to_contain_text("(dashboard)")
    desired = cluster.state("desiredState.workloads.versioned")["desiredState"]["workloads"]["versioned"]
    assert desired["tags"] == {"version": "1"}
    cluster.ank("delete", "workload", "versioned")


def test_causes_and_health_of_the_server_are_shown(browser: Browser, dashboard: Dashboard, cluster: Cluster) -> None:
    answer = cluster.folder / "answer"
    check = {"exec": {"command": ["/bin/busybox", "test", "-e", str(answer)], "interval": "200ms", "failures": 1}}
    user = sleeps("edge-2", dependencies={"broken": "ADD_COND_SUCCEEDED"})
    broken = a_process("echo no license >&2; exit 4")
    answer.touch()
    checked = sleeps(health={**check, "onUnhealthy": "none"})
    apply(cluster, {"workloads": {"broken": broken, "user": user, "checked": checked}})
    page = browser.page(f"{dashboard.url}/#/workloads/user")
    causes = page.locator(".causes")
    expect(causes).to_contain_text(re.compile("broken.*Exit code: '4'", re.DOTALL))
    expect(causes).to_contain_text("no license")
    expect(causes.get_by_role("link", name="broken")).to_be_visible()
    open_page(page, "workloads/checked")
    expect(page.locator(".states .chip.good", has_text=re.compile("^healthy"))).to_be_visible()
    answer.unlink()
    expect(page.locator(".states .chip.bad", has_text="unhealthy")).to_be_visible()
    expect(page.locator(".causes")).to_contain_text("runs but is unhealthy")
    expect(
        page.locator("section", has_text="States").locator(".changes .chip.bad", has_text="unhealthy").first
    ).to_be_visible()
    picture(page, "health")
    open_page(page, "events")
    expect(page.locator(".changes li.bad", has_text="healthy → unhealthy")).to_be_visible()
    for name in ("user", "broken", "checked"):
        cluster.ank("delete", "workload", name)
    open_page(page, "")
    expect(page.locator("h1")).to_have_text("All 5 workloads run as desired")


def test_phone_width_keyboard_and_accessibility(browser: Browser, dashboard: Dashboard) -> None:
    for options in ({"color_scheme": "light"}, {"color_scheme": "dark", "viewport": PHONE}):
        page = browser.page(dashboard.url, **options)
        page.evaluate(f"{{ {AXE} }}")
        for path in PAGES:
            open_page(page, path)
            page.wait_for_timeout(150)
            found = page.evaluate(VIOLATIONS)
            assert found == [], f"on page '{path}' with {options}"
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"page '{path}' is too wide"
        open_page(page, "")
        picture(page, "phone")
    page = browser.page(dashboard.url)
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Workloads", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Workloads")
    expect(page.locator("main")).to_be_focused()


def test_a_lost_server_is_shown_and_found_again_without_reload(
    browser: Browser, dashboard: Dashboard, cluster: Cluster
) -> None:
    page = browser.page(dashboard.url)
    expect(page.locator("h1")).to_have_text("All 5 workloads run as desired")
    page.evaluate("window.same = true")
    cluster.kill_server(signal.SIGKILL)
    expect(page.get_by_role("alert")).to_contain_text("Could not connect to Ankaios server")
    expect(page.locator("#connection")).to_have_text("Not connected")
    expect(page.locator("h1")).to_have_text("All 5 workloads run as desired")
    cluster.start_server(json.dumps({"apiVersion": "v1", "workloads": {"again": sleeps("edge-2")}}))
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("h1")).to_have_text("The workload runs as desired")
    assert page.evaluate("window.same")
