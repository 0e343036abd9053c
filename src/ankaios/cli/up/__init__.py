"""The cluster of `ank up` and its view."""
