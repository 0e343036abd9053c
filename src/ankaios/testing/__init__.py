"""A test kit for users: whole clusters in a test, in milliseconds and without containers.

    def test_web_survives_the_loss_of_its_agent(cluster):
        cluster.apply("manifest.yaml")
        cluster.advance(5)
        cluster.kill("zone1")
        cluster.advance(60)
        cluster.workload("web").should_be_running()

The fixture `cluster` comes with the package. The real server and agents run on virtual time; see `ankaios.simulation`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ankaios.testing.cluster import TestCluster
    from ankaios.testing.workload_under_test import WorkloadUnderTest

__all__ = ["TestCluster", "WorkloadUnderTest"]


def __getattr__(name: str) -> Any:
    """pytest always loads this package if it is installed, so server and agents are loaded only when they are used."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from ankaios.testing import cluster

    return getattr(cluster, name)
