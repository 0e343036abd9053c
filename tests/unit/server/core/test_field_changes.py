"""Differences of forms as plans show them."""

from typing import Any

import pytest

from ankaios.server.core.field_changes import field_changes


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": "1"}, {"a": "1"}, []),
        ({"a": "1"}, {"a": "2"}, [("a", "1", "2")]),
        (None, {"a": "1", "b": {"c": 2}}, [("a", None, "1"), ("b.c", None, "2")]),
        ({"a": "1"}, {}, [("a", "1", None)]),
        ("1000", "2000", [("", "1000", "2000")]),
        ({"a": [{"x": "1"}, {"x": "2"}]}, {"a": [{"x": "1"}]}, [("a[1].x", "2", None)]),
        ({"a": ["x"]}, {"a": ["y"]}, [("a[0]", "x", "y")]),
        ({"a": {"b": "1"}}, {"a": "text"}, [("a", '{"b": "1"}', "text")]),
        ({}, {"a": {}}, [("a", None, "{}")]),
        ({"a": True}, {"a": False}, [("a", "true", "false")]),
    ],
)
def test_only_parts_that_differ_are_listed(before: Any, after: Any, expected: list[Any]) -> None:
    changes = field_changes(before, after)
    found = [
        (it.path, it.before if it.HasField("before") else None, it.after if it.HasField("after") else None)
        for it in changes
    ]
    assert found == expected
