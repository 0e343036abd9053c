import pytest

from ankaios.common.errors import StartupFailed
from ankaios.common.observation_settings import log_format_setting, metrics_setting, parse_metrics_address


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9100", ("127.0.0.1", 9100)), ("[::1]:0", ("::1", 0)), ("localhost:65535", ("localhost", 65535))],
)
def test_addresses_have_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_metrics_address(text) == address
    assert metrics_setting(text) == text


@pytest.mark.parametrize(
    "text", ["9100", ":9100", "::1:9100", "[1.2.3.4]:9", "host:", "host:65536", "host:٣", "a b:1", "http://h:1", "h:-1"]
)
def test_other_texts_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9100"):
        parse_metrics_address(text)
    with pytest.raises(StartupFailed, match="'metrics' is"):
        metrics_setting(text)


def test_metrics_are_off_by_default() -> None:
    assert metrics_setting("") is None


def test_an_unknown_log_format_is_rejected() -> None:
    assert log_format_setting("json") == "json"
    with pytest.raises(StartupFailed, match="expected text or json"):
        log_format_setting("xml")
