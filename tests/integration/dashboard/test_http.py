"""A real dashboard process and raw HTTP: rejected requests, and messages about missing settings."""

import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Dashboard
from tests.support.cluster import Cluster, free_port


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        made.start_server("apiVersion: v1\nworkloads: {}")
        yield made


class Client:
    def __init__(self, dashboard: Dashboard, tls: ssl.SSLContext | None = None) -> None:
        self._port = int(dashboard.url.partition("?")[0].rstrip("/").rpartition(":")[2])
        self._tls = tls

    def request(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str, dict[str, str]]:
        if self._tls is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=20, context=self._tls)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body or None, named)
            response = connection.getresponse()
            return response.status, response.read().decode(), dict(response.getheaders())
        finally:
            connection.close()


def test_pages_have_a_strict_policy_and_other_hosts_are_refused(cluster: Cluster) -> None:
    with Dashboard(cluster) as dashboard:
        client = Client(dashboard)
        status, text, headers = client.request("GET", "/")
        assert status == 200
        assert '<script type="module"' in text
        assert "script-src 'self'" in headers["content-security-policy"]
        assert client.request("GET", "/", Host="evil.example")[0] == 421
        assert client.request("GET", "/api/session", Sec_Fetch_Site="cross-site")[0] == 403
        assert client.request("GET", "/static/../web.py")[0] == 404
        assert client.request("GET", "/nothing")[0] == 404
        assert client.request("DELETE", "/")[0] == 403
        session = json.loads(client.request("GET", "/api/session")[1])
        assert session["allowChanges"] is False
        assert session["changeToken"] == ""
        status, text, _ = client.request("POST", "/api/apply", "x", Origin=dashboard.url)
        assert (status, "--allow-changes" in text) == (403, True)
        missing = json.loads(client.request("GET", "/api/workloads/nothing")[1])
        assert missing == {"written": "", "rendered": "", "timeline": []}


def test_open_opens_the_address_in_the_browser_of_the_machine(cluster: Cluster) -> None:
    opened = cluster.folder / "opened"
    browser = cluster.write("browser", f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    with Dashboard(cluster, "--open", environ={"BROWSER": f"{browser} %s"}) as dashboard:
        cluster.wait_until("the browser is started", lambda: opened.exists() and opened.read_text())
        assert opened.read_text().strip().rstrip("/") == dashboard.url


def test_changes_need_the_token_of_the_page(cluster: Cluster) -> None:
    with Dashboard(cluster, "--allow-changes") as dashboard:
        client = Client(dashboard)
        token = json.loads(client.request("GET", "/api/session")[1])["changeToken"]
        manifest = "apiVersion: v1\nconfigs: {a: b}\n"
        good = {"Origin": dashboard.url, "X_Ankaios_Change_Token": token}
        assert client.request("POST", "/api/apply", manifest, Origin=dashboard.url)[0] == 403
        assert client.request("POST", "/api/apply", manifest, **{**good, "Origin": "http://evil.example"})[0] == 403
        status, text, _ = client.request("POST", "/api/apply", manifest, **good)
        assert status == 200
        assert set(json.loads(text)) == {"data"}
        assert cluster.state("desiredState.configs")["desiredState"]["configs"] == {"a": "b"}
        status, text, _ = client.request("POST", "/api/apply", "a: [", **good)
        assert json.loads(text)["invalid"]
        status, text, _ = client.request("POST", "/api/apply", "apiVersion: v1", **good)
        assert "nothing to apply" in json.loads(text)["fault"]


def test_a_token_opens_the_pages_once_and_stays_in_a_cookie(cluster: Cluster) -> None:
    token = "0123456789abcdef0123"
    with Dashboard(cluster, environ={"ANK_DASHBOARD_TOKEN": token}) as dashboard:
        client = Client(dashboard)
        assert dashboard.url.endswith(f"?token={token}")
        assert client.request("GET", "/")[0] == 401
        assert client.request("GET", "/?token=wrong")[0] == 401
        status, _, headers = client.request("GET", f"/?token={token}")
        assert status == 303
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.request("GET", "/api/session", Cookie=cookie.partition(";")[0])[0] == 200


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--listen", "0.0.0.0:0"), "can be reached by others"),
        (("--listen", "nonsense"), "expected HOST:PORT"),
        (("--tls-crt", "/etc/passwd"), "https needs all of"),
    ],
)
def test_an_unsafe_start_is_refused(cluster: Cluster, arguments: tuple[str, ...], reason: str) -> None:
    done = cluster.ank("dashboard", *arguments, check=False)
    assert done.returncode == 1
    assert reason in done.stderr


def test_short_tokens_and_readable_token_files_are_refused(cluster: Cluster) -> None:
    file = cluster.write("token", "short")
    file.chmod(0o600)
    assert "shorter than 16" in cluster.ank("dashboard", "--token-file", str(file), check=False).stderr
    file.chmod(0o644)
    assert "mode must be 0600" in cluster.ank("dashboard", "--token-file", str(file), check=False).stderr


def test_with_mutual_tls_only_browsers_with_a_certificate_are_answered(tmp_path: Path) -> None:
    with Cluster() as secure:
        certificates = tmp_path / "certs"
        secure.ank("certs", "create", str(certificates))
        names = (("--ca_pem", "ca.pem"), ("--crt_pem", "cli.pem"), ("--key_pem", "cli-key.pem"))
        pem = [f"{flag}={certificates / name}" for flag, name in names]
        served = [f"--tls-crt={certificates / 'server.pem'}", f"--tls-key={certificates / 'server-key.pem'}"]
        port = free_port()
        command = [*secure.ank_command(), *pem, "dashboard", *served, "--listen", f"127.0.0.1:{port}"]
        command.remove("--insecure")
        output = tmp_path / "log"
        with output.open("wb") as log:
            process = subprocess.Popen(command, env=secure.environ, stdout=log, stderr=log)
        try:
            secure.wait_until("it listens", lambda: "https://" in output.read_text(), more=output.read_text)
            context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
            context.check_hostname = False
            without = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                without.request("GET", "/")
                without.getresponse()
            without.close()
            context.load_cert_chain(certificates / "cli.pem", certificates / "cli-key.pem")
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            connection.close()
        finally:
            process.terminate()
            process.wait(10)
