"""The model of the state: its fields, their allowed values, and everything that is derived from them.

`state` is the declaration, as data. `scalars`, `containers`, `message` and `unions` are the kinds of values in it. Each
kind derives the plain form, the protobuf conversion, strict reading, schema findings and the JSON schema.
"""
