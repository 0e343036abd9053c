"""Flag over environment over file over default; PEM files and their permissions."""

from pathlib import Path

import pytest

from ankaios.common.config import (
    BadEnvironment,
    BadPemFile,
    GivenPem,
    Pem,
    choose,
    load_config_file,
    load_pem_material,
    pem_mode_fault,
    require_security,
)
from ankaios.common.errors import StartupFailed


def a_file(folder: Path, text: str, name: str = "ank.conf") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def a_pem(folder: Path, name: str, mode: int = 0o600) -> Path:
    path = folder / name
    path.write_text(f"-----BEGIN {name}-----")
    path.chmod(mode)
    return path


def test_no_file_means_no_values(tmp_path: Path) -> None:
    """[utest->swdd~server-loads-config-file~1]"""
    assert load_config_file(None, [tmp_path / "missing.conf"]) == {}


def test_the_first_existing_default_file_is_read(tmp_path: Path) -> None:
    """[utest->swdd~server-loads-config-file~1]"""
    second = a_file(tmp_path, "version = 'v1'\naddress = '0.0.0.0:1'\n")
    assert load_config_file(None, [tmp_path / "missing", second])["address"] == "0.0.0.0:1"


def test_a_given_file_is_preferred_to_default_files(tmp_path: Path) -> None:
    given = a_file(tmp_path, "version = 'v1'\nname = 'given'", "given.conf")
    default = a_file(tmp_path, "version = 'v1'\nname = 'default'", "default.conf")
    assert load_config_file(given, [default])["name"] == "given"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("address = 'x'", "'version' must be 'v1', it is missing"),
        ("version = 'v2'", "'version' must be 'v1', found 'v2'"),
        ("version = 1", "'version' must be 'v1', found '1'"),
        ("version = 'v1", "at end of document"),
        ("version = 'v1'\na = " + "[" * 5000, ""),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_start(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(StartupFailed) as failure:
        load_config_file(a_file(tmp_path, text), [])
    assert failure.value.context == "Config file could not be parsed"
    assert reason in failure.value.reason
    assert "ank.conf" in failure.value.reason


def test_a_given_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(StartupFailed, match=r"cannot read .*missing\.conf: No such file"):
        load_config_file(tmp_path / "missing.conf", [])


def test_a_file_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    path.write_bytes(b"version = 'v1'\n\xff")
    with pytest.raises(StartupFailed, match="not UTF-8 text at byte 15"):
        load_config_file(path, [])


def test_the_default_table_is_merged_for_the_cli(tmp_path: Path) -> None:
    path = a_file(tmp_path, "version = 'v1'\nquiet = true\n[default]\nserver_url = 'http://x'\n[other]\nquiet = false")
    table = load_config_file(path, [], default_table=True)
    assert table["server_url"] == "http://x"
    assert table["quiet"] is True


def test_of_duplicate_keys_certificates_are_read_from_the_table_and_others_from_the_top(tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        "version = 'v1'\nca_pem = 'top'\ncrt_pem_content = 'top'\nkey_pem = 'top'\nserver_url = 'top'\n"
        "[default]\nca_pem = 'table'\ncrt_pem_content = 'table'\nkey_pem = 'table'\nserver_url = 'table'\n",
    )
    table = load_config_file(path, [], default_table=True)
    assert [table[key] for key in ("ca_pem", "crt_pem_content", "key_pem", "server_url")] == [
        "table",
        "table",
        "top",
        "top",
    ]


def test_the_version_may_be_in_the_default_table(tmp_path: Path) -> None:
    path = a_file(tmp_path, "[default]\nversion = 'v1'\nno_wait = true")
    assert load_config_file(path, [], default_table=True)["no_wait"] is True


def test_default_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(StartupFailed, match="'default' must be a table"):
        load_config_file(a_file(tmp_path, "version = 'v1'\ndefault = 3"), [], default_table=True)


def test_flags_override_the_environment_then_the_file_then_defaults() -> None:
    """[utest->swdd~server-loads-config-file~1]"""
    file, environ = {"url": "file"}, {"URL": "env"}
    assert choose("flag", "URL", file, "url", "default", environ=environ) == "flag"
    assert choose(None, "URL", file, "url", "default", environ=environ) == "env"
    assert choose(None, "URL", file, "url", "default", environ={}) == "file"
    assert choose(None, "URL", {}, "url", "default", environ={"URL": ""}) == "default"
    assert choose(None, None, {}, "url", None) is None


def test_a_switch_that_is_not_given_does_not_hide_the_file() -> None:
    assert choose(False, "K", {"insecure": True}, "insecure", False, environ={}) is True
    assert choose(False, "K", {"insecure": True}, "insecure", False, environ={"K": "false"}) is False


def test_numbers_are_read_from_the_environment() -> None:
    assert choose(None, "N", {}, "n", 3, environ={"N": "7"}) == 7
    with pytest.raises(BadEnvironment, match="'x' for N"):
        choose(None, "N", {}, "n", 3, environ={"N": "x"})


@pytest.mark.parametrize("text", ["1", "yes", "TRUE", "on", " true"])
def test_only_true_and_false_are_switch_values(text: str) -> None:
    with pytest.raises(BadEnvironment, match="expected 'true' or 'false'"):
        choose(None, "K", {}, "insecure", False, environ={"K": text})


@pytest.mark.parametrize(("value", "default"), [("yes", False), (1, "text"), (True, 3000), ("3", 3000), ([], "x")])
def test_values_of_the_wrong_kind_in_the_file_are_rejected(value: object, default: object) -> None:
    with pytest.raises(StartupFailed, match="'key' must be "):
        choose(None, None, {"key": value}, "key", default)


@pytest.mark.parametrize(
    ("name", "mode", "good"),
    [
        ("key_pem", 0o600, True),
        ("key_pem", 0o400, True),
        ("key_pem", 0o640, False),
        ("key_pem", 0o644, False),
        ("key_pem", 0o700, False),
        ("crt_pem", 0o644, True),
        ("ca_pem", 0o600, True),
        ("ca_pem", 0o444, True),
        ("crt_pem", 0o400, True),
        ("crt_pem", 0o664, False),
        ("crt_pem", 0o646, False),
        ("crt_pem", 0o755, False),
        ("ca_pem", 0o645, False),
        ("ca_pem", 0o244, False),
    ],
)
def test_permissions_of_pem_files(name: str, mode: int, good: bool) -> None:
    assert (pem_mode_fault(name, 0o100000 | mode) is None) == good


def test_pem_files_come_from_flag_environment_and_file(tmp_path: Path) -> None:
    ca, crt, key, other = (a_pem(tmp_path, name) for name in ("ca", "crt", "key", "other"))
    given = load_pem_material(
        {"ca_pem": str(ca)},
        "ANKSERVER",
        {"version": "v1", "key_pem": str(key), "crt_pem": str(other)},
        environ={"ANKSERVER_CA_PEM": str(other), "ANKSERVER_CRT_PEM": str(crt)},
    )
    assert [pem and pem.origin for pem in (given.ca, given.crt, given.key)] == [str(ca), str(crt), str(key)]
    assert given.ca is not None
    assert given.ca.text == "-----BEGIN ca-----"


def test_pem_content_in_the_file_needs_no_permissions() -> None:
    given = load_pem_material({}, "ANK", {"key_pem_content": "text"}, environ={})
    assert given == GivenPem(key=Pem("text", "key_pem_content"))


def test_path_and_content_of_one_item_conflict(tmp_path: Path) -> None:
    file = {"ca_pem": str(a_pem(tmp_path, "ca")), "ca_pem_content": "text"}
    with pytest.raises(StartupFailed, match="Conflicting certificates") as failure:
        load_pem_material({}, "ANK", file, environ={})
    assert failure.value.context == "Config file could not be parsed"


def test_an_invalid_pem_file_of_the_config_file_is_reported_even_if_a_flag_replaces_it(tmp_path: Path) -> None:
    good = a_pem(tmp_path, "good")
    with pytest.raises(StartupFailed, match="cannot read ca_pem '/missing'") as failure:
        load_pem_material({"ca_pem": str(good)}, "ANK", {"ca_pem": "/missing"}, environ={})
    assert not isinstance(failure.value, BadPemFile)


def test_a_key_that_others_may_read_is_rejected(tmp_path: Path) -> None:
    key = a_pem(tmp_path, "key", 0o644)
    with pytest.raises(BadPemFile, match="its mode is 0644, a private key needs 0600 or 0400") as failure:
        load_pem_material({"key_pem": str(key)}, "ANK", {}, environ={})
    assert failure.value.context == "Failed to load certificate files!"
    assert str(key) in failure.value.reason


def test_pem_files_that_cannot_be_pem_are_rejected(tmp_path: Path) -> None:
    binary, huge = a_pem(tmp_path, "binary"), a_pem(tmp_path, "huge")
    binary.write_bytes(b"\xff\x00")
    huge.write_bytes(b"x" * 1_048_577)
    for path, reason in ((binary, "not a PEM text"), (huge, "larger than"), (tmp_path, "Is a directory")):
        with pytest.raises(BadPemFile, match=reason):
            load_pem_material({"crt_pem": str(path)}, "ANK", {}, environ={})


def test_three_pem_items_mean_tls_with_and_without_insecure() -> None:
    pem = Pem("x", "x.pem")
    for insecure in (False, True):
        material = require_security(GivenPem(pem, pem, pem), insecure)
        assert material is not None
        assert material.ca is pem


def test_insecure_without_any_pem_means_plain_text() -> None:
    assert require_security(GivenPem(), True) is None


@pytest.mark.parametrize("insecure", [False, True])
def test_some_pem_items_are_never_enough(insecure: bool) -> None:
    with pytest.raises(StartupFailed) as failure:
        require_security(GivenPem(crt=Pem("secret text", "/etc/agent.pem")), insecure)
    assert str(failure.value) == (
        "Missing certificate files: 'Either provide mTLS config via the '--ca_pem \"\"', "
        "'--crt_pem \"/etc/agent.pem\"' and '--key_pem \"\"' options or deactivate mTLS with the '--insecure' option!'"
    )


def test_neither_pem_nor_insecure_names_the_options() -> None:
    with pytest.raises(StartupFailed) as failure:
        require_security(GivenPem(), False)
    assert failure.value.reason == (
        "Either provide mTLS config via the '--ca_pem \"\"', '--crt_pem \"\"' and '--key_pem \"\"' options "
        "or deactivate mTLS with the '--insecure' option!"
    )


def test_printing_a_pem_does_not_print_its_text() -> None:
    assert "secret" not in repr(GivenPem(key=Pem("secret", "key.pem")))
