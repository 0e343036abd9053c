"""The pytest plugin: the fixture `cluster`. Loaded by pytest for every user of the package, so it imports late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ankaios.testing.cluster import TestCluster


@pytest.fixture
def cluster() -> Iterator[TestCluster]:
    """A cluster on virtual time, with one server. Nodes are added by `apply`, or by `add_node`."""
    from ankaios.testing.cluster import TestCluster

    with TestCluster() as made:
        yield made
