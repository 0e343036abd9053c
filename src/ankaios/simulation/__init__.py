"""Whole clusters on virtual time, in one process, with faults that are drawn from a seed.

The real server, agents, stores, gRPC layer and client run on a simulated clock, network, etcd and runtime. What is
replaced is listed, with the reason, in `replacements.py`.
"""
