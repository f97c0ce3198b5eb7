"""Bytes of strangers, decoded without trust: JSON, pickle, protobuf, SQLite, archives."""
