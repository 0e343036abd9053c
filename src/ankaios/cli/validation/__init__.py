"""Checks manifests without a server. Input: texts. Output: findings with file and line. Nothing here opens a file.

The checks call the functions of the server, the runtimes and the discovery handlers, so the results are the same.
"""
