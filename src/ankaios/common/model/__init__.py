"""The model of the state: which fields exist, what they may hold, and everything that follows from it.

`state` is the declaration, as data. `scalars`, `collections`, `message` and `unions` are the kinds of values it is made
of; each kind derives the plain form, the protobuf conversion, strict reading, schema findings and the JSON schema.
"""
