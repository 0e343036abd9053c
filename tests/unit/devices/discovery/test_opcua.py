"""The decisions of the OPC UA handler; the integration tests use real servers."""

import sys
from contextlib import aclosing

import pytest

from ankaios.devices.discovery.base import HandlerLost, InvalidDetails
from ankaios.devices.discovery.details import FilterList
from ankaios.devices.discovery.opcua.applications import Application, fallback_url, wanted_urls
from ankaios.devices.discovery.opcua.handler import OpcuaHandler, read_opcua_details

URL = "opc.tcp://host:4840/path"


def wanted(application: Application, names: FilterList | None = None) -> list[str]:
    return list(wanted_urls((application,), names))


def test_details_name_urls_and_a_filter() -> None:
    details = "opcuaDiscoveryMethod: {standard: {discoveryUrls: ['opc.tcp://a:1/', 'opc.tcp://a:1/']}}\n"
    assert read_opcua_details(details).urls == ("opc.tcp://a:1/", "opc.tcp://a:1/")
    assert read_opcua_details(details + "applicationNames: {items: [x]}").application_names == FilterList(("x",))


def test_without_urls_the_server_of_this_machine_is_used() -> None:
    assert read_opcua_details("opcuaDiscoveryMethod: {standard: {}}").urls == ("opc.tcp://localhost:4840/",)


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ("", "missing required field `opcuaDiscoveryMethod`"),
        ("opcuaDiscoveryMethod: {}", r"missing required field `standard` - at `\$.opcuaDiscoveryMethod`"),
        ("opcuaDiscoveryMethod: {standard: {discoveryUrls: ['opc.tcp://h/']}}", "opc.tcp://<host>:<port>"),
        ("opcuaDiscoveryMethod: {standard: {discoveryUrls: ['http://h:1/']}}", "'http://h:1/'"),
        ("opcuaDiscoveryMethod: {standard: {discoveryUrls: ['opc.tcp://h:x/']}}", "discoveryUrls"),
        ("opcuaDiscoveryMethod: {standard: {discoveryUrls: ['opc.tcp://h:99999/']}}", "discoveryUrls"),
        (f"opcuaDiscoveryMethod: {{standard: {{discoveryUrls: {['opc.tcp://h:1/'] * 257} }}}}", "length <= 256"),
    ],
)
def test_invalid_details_are_rejected(details: str, words: str) -> None:
    with pytest.raises(InvalidDetails, match=words):
        read_opcua_details(details)


@pytest.mark.parametrize(("kind", "kept"), [(0, True), (1, False), (2, False), (3, False)])
def test_only_servers_are_devices(kind: int, kept: bool) -> None:
    assert wanted(Application("x", kind, (URL,))) == ([URL] if kept else [])


@pytest.mark.parametrize(
    ("urls", "chosen"),
    [
        (("http://h/", URL, "opc.tcp://other:1/"), [URL]),
        (("opc.tcp://h/path",), ["opc.tcp://h/path"]),
        (("https://h/",), []),
        ((), []),
        (("opc.tcp://h:port/",), []),
        (("opc.tcp://h:1/\0",), []),
        (("opc.tcp://",), []),
    ],
)
def test_the_first_valid_binary_url_is_used(urls: tuple[str, ...], chosen: list[str]) -> None:
    assert wanted(Application("x", 0, urls)) == chosen


@pytest.mark.parametrize(
    ("name", "names", "kept"),
    [
        ("Server", FilterList(("Server",)), True),
        ("Server", FilterList(("server",)), False),
        ("Server", FilterList(()), False),
        ("Server", FilterList(("Server",), "Exclude"), False),
        ("Server", FilterList(("other",), "Exclude"), True),
        (None, FilterList(("other",), "Exclude"), False),
        (None, None, True),
    ],
)
def test_application_names_are_compared_exactly(name: str | None, names: FilterList | None, kept: bool) -> None:
    assert wanted(Application(name, 0, (URL,)), names) == ([URL] if kept else [])


@pytest.mark.parametrize(
    ("configured", "url"),
    [
        ("opc.tcp://10.0.0.1:4840/", "opc.tcp://10.0.0.1:4840/path"),
        ("opc.tcp://10.0.0.1:4840", "opc.tcp://10.0.0.1:4840/path"),
        ("opc.tcp://10.0.0.1:4840/own", "opc.tcp://10.0.0.1:4840/own"),
    ],
)
def test_an_unknown_host_is_replaced_by_the_configured_one(configured: str, url: str) -> None:
    assert fallback_url(configured, URL) == url


async def test_without_its_package_the_handler_reports_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncua", None)
    monkeypatch.delitem(sys.modules, "ankaios.devices.discovery.opcua.find_servers", raising=False)
    details = "opcuaDiscoveryMethod: {standard: {}}"
    async with aclosing(OpcuaHandler().discover(details, {})) as lists:
        with pytest.raises(HandlerLost, match=r"pip install 'ankaios\[opcua\]'"):
            await anext(lists)
