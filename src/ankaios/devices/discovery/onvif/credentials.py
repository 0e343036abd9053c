"""Which user name and password to present to which camera.

Input: the properties of a configuration. Output: credentials by device UUID. There are three ways to write them; if
they conflict, the later one in the order of this file is used. An invalid entry is rejected with its name, never with
its content.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from ankaios.devices.discovery.base import Properties
from ankaios.devices.discovery.details import invalid_property, text_property

_USERNAME = "username_"
_PASSWORD = "password_"
_DEFAULT = "default"

T = TypeVar("T")


class Credential(Struct, frozen=True):
    username: str
    password: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.username!r})"  # a password must not be logged


class _Listed(Struct):
    username: str
    password: str | None = None
    base64encoded: bool | None = None


class _Referenced(Struct):
    username_ref: str
    password_ref: str | None = None


class Credentials:
    """A camera that is not listed gets the default, if there is one."""

    def __init__(self, by_uuid: dict[str, Credential], default: Credential | None) -> None:
        self._by_uuid = by_uuid
        self._default = default

    def get(self, uuid: str) -> Credential | None:
        return self._by_uuid.get(_key(uuid), self._default)


def _key(uuid: str) -> str:
    """Names of properties cannot contain dashes, so UUIDs are compared with underscores."""
    return uuid.lower().replace("-", "_")


def read_credentials(properties: Properties) -> Credentials:
    by_uuid = {_key(uuid): credential for uuid, credential in _listed(properties)}
    by_uuid |= {_key(uuid): credential for uuid, credential in _referenced(properties)}
    named = dict(_named(properties))
    default = named.pop(_DEFAULT, None)
    return Credentials(by_uuid | named, default)


def _listed(properties: Properties) -> Iterator[tuple[str, Credential]]:
    for name, uuid, entry in _entries(properties, "device_credential_list", _Listed):
        password = entry.password or ""
        yield uuid, Credential(entry.username, _decoded(name, password) if entry.base64encoded else password)


def _referenced(properties: Properties) -> Iterator[tuple[str, Credential]]:
    for name, uuid, entry in _entries(properties, "device_credential_ref_list", _Referenced):
        username = text_property(properties, entry.username_ref)
        if username is None:
            raise invalid_property(name, "'username_ref' names a property that does not exist")
        yield uuid, Credential(username, text_property(properties, entry.password_ref or "") or "")


def _named(properties: Properties) -> Iterator[tuple[str, Credential]]:
    for name in properties:
        if name.startswith(_USERNAME) and (username := text_property(properties, name)) is not None:
            owner = name.removeprefix(_USERNAME)
            yield _key(owner), Credential(username, text_property(properties, _PASSWORD + owner) or "")


def _entries(properties: Properties, list_name: str, entry: type[T]) -> Iterator[tuple[str, str, T]]:
    """The property, the UUID and the content of every entry in the properties that a list names."""
    for name in _json(properties, list_name, list[str]) or ():
        for uuid, content in (_json(properties, name, dict[str, entry]) or {}).items():  # type: ignore[valid-type]
            yield name, uuid, content


def _json(properties: Properties, name: str, content: type[T]) -> T | None:
    """None if the property does not exist: an optional secret."""
    if (text := text_property(properties, name)) is None:
        return None
    try:
        return msgspec.json.decode(text, type=content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise invalid_property(name, str(error)) from error


def _decoded(name: str, password: str) -> str:
    try:
        return base64.b64decode(password, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise invalid_property(name, "'password' is not Base64 of a UTF-8 text") from error
