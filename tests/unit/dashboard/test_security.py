"""The requests that the dashboard answers."""

import pytest

from ankaios.dashboard.security import (
    CHANGE_HEADER,
    AccessRules,
    access_fault,
    change_fault,
    host_fault,
    is_loopback,
    origin_fault,
)

RULES = AccessRules(port=8080, change_token="secret", allow_changes=True, hosts=("gateway",))


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "192.168.0.7:8080", "Gateway:8080", "localhost"]
)
def test_addresses_and_own_names_are_answered(host: str) -> None:
    assert host_fault(host, RULES) is None


@pytest.mark.parametrize(
    "host", ["evil.example:8080", "127.0.0.1.evil.example", "127.0.0.1:9090", "", "localhost.evil:8080", "[::1"]
)
def test_other_names_are_rejected(host: str) -> None:
    assert host_fault(host, RULES) is not None


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, False),
        ({"host": "localhost:8080", "origin": "http://localhost:8080"}, False),
        ({"host": "localhost:8080", "origin": "http://evil.example"}, True),
        ({"host": "localhost:8080", "origin": "null"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "same-origin"}, False),
    ],
)
def test_requests_of_other_sites_are_rejected(headers: dict[str, str], refused: bool) -> None:
    assert (origin_fault(headers) is not None) is refused


def test_changes_need_permission_origin_and_token() -> None:
    good = {"origin": "http://localhost:8080", CHANGE_HEADER: "secret"}
    assert change_fault(good, RULES) is None
    assert change_fault({**good, CHANGE_HEADER: "Secret"}, RULES) is not None
    assert change_fault({CHANGE_HEADER: "secret"}, RULES) is not None
    assert "--allow-changes" in str(change_fault(good, AccessRules(port=8080, change_token="secret")))


def test_an_access_token_is_compared() -> None:
    rules = AccessRules(port=8080, access_token="token")
    assert access_fault("token", rules) is None
    assert access_fault("", rules) is not None
    assert access_fault("tökén", rules) is not None
    assert access_fault("", RULES) is None


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("gateway", False)],
)
def test_loopback_is_recognised(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
