"""Credentials for cameras: three notations, of which the later ones take precedence."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.onvif.credentials import Credential, read_credentials

UUID = "5f5a69c2-e0ae-504f-829b-00fcda65b0c1"


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def listed(entry: Any) -> dict[str, bytes | None]:
    return {"device_credential_list": b'["group1"]', "group1": as_json({UUID: entry})}


def referenced(entry: Any) -> dict[str, bytes | None]:
    return {"device_credential_ref_list": b'["refs"]', "refs": as_json({UUID: entry}), "u": b"user", "p": b"pass"}


def test_a_list_holds_user_names_and_passwords() -> None:
    assert read_credentials(listed({"username": "u", "password": "p"})).get(UUID) == Credential("u", "p")
    assert read_credentials(listed({"username": "u"})).get(UUID.upper()) == Credential("u", "")


def test_a_listed_password_may_be_base64() -> None:
    entry = {"username": "u", "password": "c2VjcmV0", "base64encoded": True}
    assert read_credentials(listed(entry)).get(UUID) == Credential("u", "secret")


def test_a_reference_list_names_other_properties() -> None:
    assert read_credentials(referenced({"username_ref": "u", "password_ref": "p"})).get(UUID) == Credential(
        "user", "pass"
    )
    assert read_credentials(referenced({"username_ref": "u"})).get(UUID) == Credential("user", "")
    assert read_credentials(referenced({"username_ref": "u", "password_ref": "none"})).get(UUID) == Credential("user")


def test_single_properties_name_a_device_with_underscores() -> None:
    name = UUID.replace("-", "_")
    properties = {f"username_{name}": b"u", f"password_{name}": b"p"}
    assert read_credentials(properties).get(UUID) == Credential("u", "p")


def test_a_camera_that_is_not_listed_gets_the_default_if_there_is_one() -> None:
    with_default = read_credentials({"username_default": b"d", "password_default": b"p"} | listed({"username": "u"}))
    assert with_default.get("other") == Credential("d", "p")
    assert with_default.get(UUID) == Credential("u")
    assert read_credentials({}).get(UUID) is None


def test_single_properties_override_lists() -> None:
    properties = listed({"username": "first"}) | referenced({"username_ref": "u"})
    assert read_credentials(properties).get(UUID) == Credential("user")
    properties[f"username_{UUID.replace('-', '_')}"] = b"last"
    assert read_credentials(properties).get(UUID) == Credential("last")


def test_a_listed_property_that_does_not_exist_is_an_optional_one() -> None:
    assert read_credentials({"device_credential_list": b'["nothing"]'}).get(UUID) is None
    assert read_credentials({"device_credential_list": None, "username_x": None}).get("x") is None


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"device_credential_list": b"["}, "'device_credential_list': Input data was truncated"),
        ({"device_credential_list": b'{"a": 1}'}, "'device_credential_list': Expected `array`"),
        ({"device_credential_list": b"[1]"}, "'device_credential_list': Expected `str`"),
        ({"device_credential_list": b'["x"]', "x": b"[]"}, "'x': Expected `object`"),
        ({"device_credential_list": b'["x"]', "x": b'{"u": 1}'}, "'x': Expected `object`"),
        ({"device_credential_list": b'["x"]', "x": b"\xff"}, "'x'.*UTF-8"),
        ({"device_credential_list": b"[" * 100_000}, "'device_credential_list'"),
        (listed({}), "'group1'.*missing required field `username`"),
        (listed({"username": 5}), "'group1'.*Expected `str`.*username"),
        (listed({"username": "u", "password": "%%", "base64encoded": True}), "Base64"),
        (referenced({}), "'refs'.*missing required field `username_ref`"),
        (referenced({"username_ref": "none"}), "does not exist"),
    ],
)
def test_an_invalid_entry_is_rejected_with_its_name(properties: dict[str, bytes | None], words: str) -> None:
    with pytest.raises(InvalidDetails, match=words):
        read_credentials(properties)


def test_neither_errors_nor_logs_contain_the_password() -> None:
    with pytest.raises(InvalidDetails) as caught:
        read_credentials(listed({"username": 1, "password": "hidden"}))
    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(Credential("u", "hidden"))


names = st.sampled_from(["device_credential_list", "device_credential_ref_list", "x", "username_x", "username_default"])
values = (
    st.none()
    | st.binary(max_size=20)
    | st.recursive(st.text(max_size=3), lambda v: st.lists(v) | st.dictionaries(st.just("x"), v)).map(as_json)
)


@given(st.dictionaries(names, values))
def test_any_properties_are_read_or_rejected(properties: dict[str, bytes | None]) -> None:
    with suppress(InvalidDetails):
        read_credentials(properties).get("x")
