"""Registrations of handlers: accepted once, rejected with a reason, removed with their handler."""

import stat
from pathlib import Path

import pytest

from ankaios.common.errors import Unavailable
from ankaios.devices.discovery.base import HandlerLost
from ankaios.devices.discovery.registration_server import MAX_ENDPOINTS, RegistrationServer, handlers_directory
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery.remote import RemoteHandler
from ankaios.devices.pb import discovery_pb2 as pb
from tests.support.short_paths import short_path  # noqa: F401


def request(
    name: str = "mine", endpoint: str = "/run/x.sock", network: bool = False, shared: bool = False
) -> pb.RegisterDiscoveryHandlerRequest:
    kind = pb.RegisterDiscoveryHandlerRequest
    return kind(name=name, endpoint=endpoint, endpoint_type=kind.NETWORK if network else kind.UDS, shared=shared)


@pytest.fixture
def registry() -> HandlerRegistry:
    return HandlerRegistry({})


@pytest.fixture
def server(registry: HandlerRegistry, tmp_path: Path) -> RegistrationServer:
    return RegistrationServer(registry, tmp_path)


def test_several_endpoints_may_share_a_name(server: RegistrationServer, registry: HandlerRegistry) -> None:
    server.register(request())
    server.register(request(endpoint="http://10.0.0.7:10000", network=True, shared=True))
    assert [handler.shared for handler in registry.get("mine")] == [False, True]


def test_registering_again_wakes_waiters_but_keeps_the_handler(
    server: RegistrationServer, registry: HandlerRegistry
) -> None:
    server.register(request())
    (handler,) = registry.get("mine")
    before = registry.version
    server.register(request())
    assert registry.get("mine") == [handler]
    assert registry.version == before + 1


def test_registering_with_another_kind_of_sharing_replaces_the_handler(
    server: RegistrationServer, registry: HandlerRegistry
) -> None:
    server.register(request())
    server.register(request(shared=True))
    assert [handler.shared for handler in registry.get("mine")] == [True]


@pytest.mark.parametrize(
    "bad",
    [request(name=""), request(name="a\n"), request(name="x" * 254), request(endpoint="x"), request(network=True)],
)
def test_an_invalid_registration_changes_nothing(
    bad: pb.RegisterDiscoveryHandlerRequest, server: RegistrationServer, registry: HandlerRegistry
) -> None:
    with pytest.raises(ValueError):
        server.register(bad)
    assert (registry._registered, registry.version) == ([], 0)


def test_the_number_of_endpoints_is_bounded(server: RegistrationServer, registry: HandlerRegistry) -> None:
    for number in range(MAX_ENDPOINTS):
        server.register(request(endpoint=f"http://10.0.0.7:{1 + number}", network=True))
    with pytest.raises(ValueError, match="256"):
        server.register(request(endpoint="/run/more.sock"))
    server.register(request(endpoint="http://10.0.0.7:1", network=True))
    assert len(registry.get("mine")) == MAX_ENDPOINTS


def test_handlers_without_a_socket_are_replaced_by_new_ones(
    server: RegistrationServer, registry: HandlerRegistry, tmp_path: Path
) -> None:
    (tmp_path / "0.sock").touch()
    for number in range(MAX_ENDPOINTS):
        server.register(request(endpoint=str(tmp_path / f"{number}.sock")))
    server.register(request(endpoint="/run/more.sock"))
    endpoints = [str(handler.endpoint) for handler in registry.get("mine") if isinstance(handler, RemoteHandler)]
    assert endpoints == [str(tmp_path / "0.sock"), "/run/more.sock"]


async def test_a_handler_that_does_not_return_is_removed(registry: HandlerRegistry, tmp_path: Path) -> None:
    gone: list[RemoteHandler] = []
    server = RegistrationServer(registry, tmp_path)
    server.register(request(endpoint=str(tmp_path / "missing.sock")))
    (registered,) = registry.get("mine")
    assert isinstance(registered, RemoteHandler)
    handler = RemoteHandler("mine", registered.endpoint, False, on_gone=gone.append, forget_seconds=0)
    for expected in ([], [handler]):
        with pytest.raises(HandlerLost):
            await anext(handler.discover("", {}))
        assert gone == expected
    handler.registered_again()
    with pytest.raises(HandlerLost):
        await anext(handler.discover("", {}))
    assert gone == [handler]


def test_the_directory_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCOVERY_HANDLERS_DIRECTORY", raising=False)
    assert handlers_directory() == Path("/var/lib/akri")
    monkeypatch.setenv("DISCOVERY_HANDLERS_DIRECTORY", "/run/handlers")
    assert RegistrationServer(HandlerRegistry({})).path == Path("/run/handlers/agent-registration.sock")


async def test_only_the_owner_may_register_and_the_umask_is_not_changed(
    registry: HandlerRegistry,
    short_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The umask belongs to all threads: files that other threads write meanwhile would get wrong modes."""
    monkeypatch.setattr("os.umask", lambda mask: pytest.fail("the umask was changed"))
    server = RegistrationServer(registry, short_path)
    await server.start()
    mode = server.path.stat().st_mode
    await server.close()
    assert stat.S_IMODE(mode) == 0o600


async def test_folders_made_for_the_socket_are_removed_again(
    registry: HandlerRegistry,
    short_path: Path,  # noqa: F811
) -> None:
    server = RegistrationServer(registry, short_path / "lib" / "akri")
    await server.start()
    await server.close()
    assert list(short_path.iterdir()) == []


async def test_a_folder_that_existed_or_is_used_by_others_is_kept(
    registry: HandlerRegistry,
    short_path: Path,  # noqa: F811
) -> None:
    for directory in (short_path, short_path / "lib" / "akri"):
        server = RegistrationServer(registry, directory)
        await server.start()
        (directory / "camera.sock").touch()
        await server.close()
        assert [path.name for path in directory.iterdir()] == ["camera.sock"]
        (directory / "camera.sock").unlink()


async def test_a_folder_without_a_listening_socket_is_removed(registry: HandlerRegistry, tmp_path: Path) -> None:
    server = RegistrationServer(registry, tmp_path / "lib" / ("x" * 100))
    with pytest.raises(Unavailable, match="longer than 107 bytes"):
        await server.start()
    assert list(tmp_path.iterdir()) == []
