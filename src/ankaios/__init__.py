"""Ankaios: a workload orchestrator for vehicles, edge nodes and embedded computers."""

__version__ = "1.1.0"
