"""How many examples the property tests try.

A run of `scripts/test` tries few, because it has 60 s for all unit tests; other runs try other ones. More are tried on
request, and every night: `ANKAIOS_EXAMPLES=10 scripts/test unit` tries ten times as many. The result of a test does not
depend on time.
"""

import os
from typing import Any

from hypothesis import HealthCheck, settings

FACTOR = float(os.environ.get("ANKAIOS_EXAMPLES", "1"))


def examples(number: int, **more: Any) -> settings:
    return settings(max_examples=max(round(number * FACTOR), 1), **more)


settings.register_profile(
    "ankaios", max_examples=max(round(100 * FACTOR), 1), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
