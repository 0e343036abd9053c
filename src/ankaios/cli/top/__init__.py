"""The rows and the screen of `ank top`."""
