"""Durable state of the server: one protocol, three stores (memory, SQLite, etcd), and the election of a leader."""
