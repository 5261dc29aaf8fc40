"""The version of this package, for all of its modules."""

__version__ = "0.2.0"
