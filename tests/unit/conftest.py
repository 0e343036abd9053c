"""Settings of all property tests."""

from hypothesis import settings

from tests.support import examples  # noqa: F401 - registers the profile

settings.load_profile("ankaios")
