"""An isolated podman for tests: see `tests/support/isolated_podman.py`.

from tests.support.podman_env import needs_podman, podman_env  # fixture, one environment per module
"""

from collections.abc import Iterator

import pytest

from tests.support.isolated_podman import CALL_LIMIT, IMAGE, IsolatedPodman, why_no_podman

__all__ = ["CALL_LIMIT", "IMAGE", "PodmanEnv", "needs_podman", "podman_env", "why_no_podman"]

needs_podman = pytest.mark.skipif(why_no_podman() is not None, reason=str(why_no_podman()))


class PodmanEnv(IsolatedPodman):
    """For child processes `environ`, for code in the same process `activate`."""

    def activate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for key, value in self.variables.items():
            monkeypatch.setenv(key, value)


@pytest.fixture(scope="module")
def podman_env() -> Iterator[PodmanEnv]:
    """One environment for all tests of a module; skips where podman cannot run."""
    if reason := why_no_podman():
        pytest.skip(reason)
    with PodmanEnv() as env:
        yield env
