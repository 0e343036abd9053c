"""A dashboard process and Debian's chromium, driven by Playwright.

    with Dashboard(cluster) as dashboard, Browser() as browser:
        page = browser.page(dashboard.url)

Needs: chromium.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.support.cluster import WAIT_SECONDS, Cluster

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


class Dashboard:
    """`ank dashboard` of a cluster, on a free port. Owns the process."""

    def __init__(self, cluster: Cluster, *more: str, environ: dict[str, str] | None = None) -> None:
        self._log = cluster.folder / "dashboard.log"
        self.process = subprocess.Popen(
            cluster.ank_command("dashboard", "--listen", "127.0.0.1:0", *more),
            env={**cluster.environ, **(environ or {})},
            stdout=self._log.open("wb"),
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        cluster.wait_until("the dashboard listens", lambda: "Dashboard: " in self.output(), more=self.output)
        self.url = self.output().partition("Dashboard: ")[2].split()[0].rstrip("/")

    def output(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Browser:
    """One chromium; each page has its own profile. Errors of pages are collected in `errors`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ank-chromium-", ignore_cleanup_errors=True)
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=ARGUMENTS,
            env={**os.environ, "HOME": self._folder.name, "TMPDIR": self._folder.name},
        )
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []

    def page(self, url: str, **options: Any) -> Page:
        context = self._browser.new_context(**{"viewport": DESKTOP, **options})
        context.set_default_timeout(WAIT_SECONDS * 1000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self._note(message.text))
        page.goto(url)
        return page

    def _note(self, text: str) -> None:
        if "Content Security" in text:
            self.errors.append(text)

    def close_pages(self) -> None:
        for context in self._contexts:
            context.close()
        self._contexts.clear()

    def close(self) -> None:
        self._browser.close()
        self._playwright.stop()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def wait_until(page: Page, expression: str) -> None:
    """Until the expression is true in the page. The content security policy forbids the functions of Playwright."""
    until = time.monotonic() + WAIT_SECONDS
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < until, f"timeout while waiting for {expression}"
        page.wait_for_timeout(5)
