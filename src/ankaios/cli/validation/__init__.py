"""Manifests judged without a server: texts come in, findings with line numbers go out. Nothing here opens a file.

`locate` knows where things stand in a text, `reading` makes manifests of texts, `checks` asks the server's, the
runtimes' and the devices' own functions what they would say.
"""
