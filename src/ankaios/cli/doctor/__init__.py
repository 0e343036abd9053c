"""The checks of `ank doctor`."""
