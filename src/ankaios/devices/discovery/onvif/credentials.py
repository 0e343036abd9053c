"""Which user name and password to present to which camera.

In: the properties of a configuration. Out: credentials by device uuid. Three ways to write them exist; on a conflict
the later one in this file's order wins. A broken entry is refused with its name, never with its content.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ankaios.devices.discovery.base import InvalidDetails, Properties

_USERNAME = "username_"
_PASSWORD = "password_"
_DEFAULT = "default"


class Credential(Struct, frozen=True):
    username: str
    password: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.username!r})"  # a password must not reach a log


class Credentials:
    """Looks credentials up; a camera that is not listed gets the default, if there is one."""

    def __init__(self, by_uuid: dict[str, Credential], default: Credential | None) -> None:
        self._by_uuid = by_uuid
        self._default = default

    def get(self, uuid: str) -> Credential | None:
        return self._by_uuid.get(_key(uuid), self._default)


def _key(uuid: str) -> str:
    """Names of properties cannot hold dashes, so uuids are compared without that difference."""
    return uuid.lower().replace("-", "_")


def read_credentials(properties: Properties) -> Credentials:
    by_uuid = {_key(uuid): credential for uuid, credential in _listed(properties)}
    by_uuid |= {_key(uuid): credential for uuid, credential in _referenced(properties)}
    named = dict(_named(properties))
    default = named.pop(_DEFAULT, None)
    return Credentials(by_uuid | named, default)


def _listed(properties: Properties) -> Iterator[tuple[str, Credential]]:
    for name, uuid, entry in _entries(properties, "device_credential_list"):
        password = _member(name, entry, "password") or ""
        if entry.get("base64encoded") is True:
            password = _decoded(name, password)
        yield uuid, Credential(_required(name, entry, "username"), password)


def _referenced(properties: Properties) -> Iterator[tuple[str, Credential]]:
    for name, uuid, entry in _entries(properties, "device_credential_ref_list"):
        password_ref = _member(name, entry, "password_ref")
        username = _text(properties, _required(name, entry, "username_ref"))
        if username is None:
            raise _refusal(name, "'username_ref' names a property that does not exist")
        yield uuid, Credential(username, (_text(properties, password_ref) or "") if password_ref else "")


def _named(properties: Properties) -> Iterator[tuple[str, Credential]]:
    for name in properties:
        if name.startswith(_USERNAME) and (username := _text(properties, name)) is not None:
            owner = name.removeprefix(_USERNAME)
            yield _key(owner), Credential(username, _text(properties, _PASSWORD + owner) or "")


def _entries(properties: Properties, list_name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The property, the uuid and the object of every entry that a list of property names leads to."""
    if properties.get(list_name) is None:
        return
    names = _json(properties, list_name)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _refusal(list_name, "it must be a JSON array of property names")
    for name in names:
        if properties.get(name) is None:
            continue  # an optional secret that does not exist
        entries = _json(properties, name)
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise _refusal(name, "it must be a JSON object of objects, one for each device uuid")
        for uuid, entry in entries.items():
            yield name, uuid, entry


def _member(name: str, entry: dict[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise _refusal(name, f"'{key}' must be a text")
    return value


def _required(name: str, entry: dict[str, Any], key: str) -> str:
    value = _member(name, entry, key)
    if value is None:
        raise _refusal(name, f"'{key}' is missing")
    return value


def _decoded(name: str, password: str) -> str:
    try:
        return base64.b64decode(password, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _refusal(name, "'password' is not Base64 of a UTF-8 text") from error


def _json(properties: Properties, name: str) -> Any:
    try:
        return json.loads(_text(properties, name) or "")
    except (ValueError, RecursionError) as error:
        raise _refusal(name, "it is not JSON") from error


def _text(properties: Properties, name: str) -> str | None:
    value = properties.get(name)
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError as error:
        raise _refusal(name, "it is not UTF-8 text") from error


def _refusal(name: str, why: str) -> InvalidDetails:
    return InvalidDetails(f"cannot use the discovery property '{name}': {why}")
