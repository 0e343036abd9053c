"""udev rules: the accepted grammar, and the matching devices."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.udev.rules import UdevDevice, matches_any, parse_rules, wanted_attributes
from tests.support.examples import examples

BUS = UdevDevice(
    devpath="/devices/pci0000:00/0000:00:14.0/usb1/1-4",
    kernel="1-4",
    subsystem="usb",
    driver="usb",
    devnode="/dev/bus/usb/001/010",
    properties={"DEVTYPE": "usb_device", "TAGS": ":seat:power:"},
    attributes={"idVendor": "046d", "product": "HD Webcam"},
)
CAMERA = UdevDevice(
    devpath=BUS.devpath + "/1-4:1.0/video4linux/video0",
    kernel="video0",
    subsystem="video4linux",
    devnode="/dev/video0",
    properties={"MAJOR": "81", "ID_V4L_CAPABILITIES": ":capture:", "TAGS": ":uaccess:"},
    attributes={"name": "HD Webcam: HD Webcam"},
    parent=BUS,
)


def matches(rule: str, device: UdevDevice = CAMERA) -> bool:
    return matches_any(parse_rules([rule]), device)


def refusal(rule: str) -> str:
    with pytest.raises(InvalidDetails) as caught:
        parse_rules(["", rule])
    return str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        'KERNEL=="video[0-9]*", ENV{ID_V4L_CAPABILITIES}==":capture:"',
        'TAG=="uaccess",ENV{MAJOR}!=""',
        'KERNEL=="video0"',
        'KERNEL!="video[1-9]"',
        'KERNEL!="vid"',
        'KERNELS=="1-4"',
        'KERNELS!="1-5"',
        'SUBSYSTEM=="video*"',
        'SUBSYSTEM!="usb"',
        'SUBSYSTEMS=="usb|pci"',
        'SUBSYSTEMS!="pci"',
        'DRIVER!="usb"',
        'DRIVERS=="usb"',
        'DRIVERS!="uvcvideo"',
        'TAG=="u*"',
        'TAG!="seat"',
        'TAGS=="seat"',
        'TAGS=="power|never"',
        'TAGS!="never"',
        f'DEVPATH=="{CAMERA.devpath}"',
        'DEVPATH=="*/video4linux/video?"',
        'DEVPATH!="/devices"',
        'ATTR{name}=="HD Webcam*"',
        'ATTR{name}!="*Logitech*"',
        'ATTR{missing}!="x"',
        'ATTRS{idVendor}=="046d"',
        'ATTRS{idVendor}=="045e|046[a-d]"',
        'ATTRS{idVendor}!="045e"',
        'ENV{MAJOR}=="8?"',
        'ENV{ID_*}==":capture:"',
        'ENV{MINOR}!="0"',
        'ENV{MAJOR}!="8"',
        "",
        "   ",
        '  KERNEL=="video0"  ,  SUBSYSTEM=="video4linux" ',
    ],
)
def test_the_camera_matches(rule: str) -> None:
    assert matches(rule)


@pytest.mark.parametrize(
    "rule",
    [
        'KERNEL=="video"',
        'KERNEL=="video0|video1"',
        'KERNEL!="video.*"',
        'KERNELS!="1-4"',
        'KERNELS=="1-.*x"',
        'SUBSYSTEM=="usb"',
        'SUBSYSTEM!="video*"',
        'SUBSYSTEMS!="usb"',
        'DRIVER=="usb"',
        'DRIVERS!="usb"',
        'DRIVERS=="us"',
        'TAG=="seat"',
        'TAG!="uacc.*"',
        'TAGS!="seat"',
        'DEVPATH=="/devices"',
        'DEVPATH!="/devices/.*"',
        'ATTR{idVendor}=="046d"',
        'ATTR{missing}=="*"',
        'ATTR{name}!="HD*"',
        'ATTRS{idVendor}=="046"',
        'ATTRS{idVendor}!="046d"',
        'ENV{MAJOR}==""',
        'ENV{MAJOR}!="8."',
        'ENV{MINOR}=="*"',
        'KERNEL=="video0", SUBSYSTEM=="usb"',
    ],
)
def test_the_camera_does_not_match(rule: str) -> None:
    assert not matches(rule)


def test_a_missing_value_makes_unequal_true_and_equal_false() -> None:
    bare = UdevDevice("/devices/x", "x")
    for name in ("SUBSYSTEM", "DRIVER", "TAG", "ATTR{a}", "ENV{a}", "SUBSYSTEMS", "DRIVERS", "TAGS", "ATTRS{a}"):
        assert matches(f'{name}!="a"', bare), name
        assert not matches(f'{name}=="a"', bare), name


def test_one_matching_rule_is_enough() -> None:
    rules = parse_rules(['KERNEL=="nothing"', 'KERNEL=="video0"'])
    assert matches_any(rules, CAMERA)
    assert not matches_any(rules, BUS)


def test_only_the_attributes_that_rules_name_are_read() -> None:
    rules = parse_rules(['ATTR{a}=="x", ENV{c}=="x"', 'ATTRS{b/d}!="x"', 'KERNEL=="x"'])
    assert wanted_attributes(rules) == {"a", "b/d"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('TAG+="uaccess"', ("'+='", "column 4", "'=='")),
        ('TAG-="uaccess"', ("'-='",)),
        ('TAG:="uaccess"', ("':='",)),
        ('TAG="uaccess"', ("'='",)),
        ('GOTO="end"', ("'GOTO'",)),
        ('ACTION=="add"', ("'ACTION'",)),
        ('RUN{program}=="x"', ("'RUN'",)),
        ('WAIT_FOR=="x"', ("'WAIT_FOR'",)),
        ('NOTHING=="x"', ("'NOTHING' is not a field", "KERNEL")),
        ('KERNEL{a}=="x"', ("takes no key",)),
        ('ATTR=="x"', ("needs a key", "ATTR{name}")),
        ('ATTR{}=="x"', ("the key",)),
        ('ATTR{a:b}=="x"', ("the key", "column 6")),
        ('ATTR{a/../../b}=="x"', ("'..'",)),
        ('ATTR{/etc/passwd}=="x"', ("leading '/'",)),
        ('KERNEL=="x",', ("comma at the end",)),
        ('KERNEL=="x" SUBSYSTEM=="y"', ("comma between", "column 13")),
        ('KERNEL == "x"', ("without blanks", "column 1")),
        ('KERNEL=="x",\tTAG=="y"', ("column 13",)),
        ('KERNEL=="x', ("column 1",)),
        (',KERNEL=="x"', ("column 1",)),
        ('KERNEL=="a,b"', ("the value", "column 10")),
        ('KERNEL=="ü"', ("the value",)),
        ('DRIVERS=="*"', ("'.*'", "column 11")),
        ('KERNEL=="' + "a" * 5000 + '"', ("4096",)),
        ("kernel", ("rule 2", "column 1")),
    ],
)
def test_a_rejected_rule_is_reported_with_its_position_and_a_hint(rule: str, words: tuple[str, ...]) -> None:
    message = refusal(rule)
    assert all(word in message for word in ("udev rule 2", *words)), message


filters = st.builds(
    '{}{}"{}"'.format,
    st.sampled_from(["KERNEL", "KERNELS", "ATTR{a}", "ATTRS{b}", "ENV{c}", "TAG", "DEVPATH", "DRIVER", "GOTO", "X"]),
    st.sampled_from(["==", "!=", "=", "+="]),
    st.text("ab0 $._*:?[]-|\\/%{}", max_size=12),
)


@given(st.lists(filters, max_size=4).map(", ".join) | st.text(max_size=60))
@example('KERNEL=="' + "[" * 50 + '"')
@examples(150)
def test_any_text_is_a_rule_or_rejected(rule: str) -> None:
    try:
        rules = parse_rules([rule])
    except InvalidDetails:
        return
    assert matches_any(rules, CAMERA) in (True, False)


@given(
    st.lists(st.sampled_from(['KERNEL=="video0"', 'TAG=="uaccess"', 'SUBSYSTEM=="usb"', 'ATTR{name}!=""']), max_size=4)
)
def test_a_rule_matches_exactly_if_each_of_its_filters_does(parts: list[str]) -> None:
    assert matches(",".join(parts)) == all(matches(part) for part in parts)
