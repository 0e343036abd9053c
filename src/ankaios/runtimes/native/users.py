"""Looks up the users of native workloads.

Input: names or numbers of a user and a group. Output: the user with its groups, or `RuntimeFailed`.
"""

import asyncio
import grp
import os
import pwd
from contextlib import suppress

from ankaios.runtimes.native.order import User, is_id
from ankaios.runtimes.runtime_connector import RuntimeFailed


async def look_up_user(text: str, limit: float) -> User:
    """Look up the user in a thread, because a directory service can be slow."""
    try:
        async with asyncio.timeout(limit):
            return await asyncio.to_thread(find_user, text)
    except TimeoutError as fault:
        raise RuntimeFailed(f"cannot run as '{text}': No response within {limit:g} s") from fault


def find_user(text: str) -> User:
    """Look up `<user>[:<group>]`, each given by name or number."""
    user, _, group = text.partition(":")
    try:
        uid = int(user) if is_id(user) else pwd.getpwnam(user).pw_uid
        entry = None
        with suppress(KeyError):
            entry = pwd.getpwuid(uid)
        gid = _group(group) if group else entry.pw_gid if entry else uid
    except KeyError as fault:
        raise RuntimeFailed(f"cannot run as '{text}': {fault.args[0]}") from fault
    groups = tuple(os.getgrouplist(entry.pw_name, gid)) if entry and not group else (gid,)
    return User(uid, gid, groups, entry.pw_dir if entry else "/", entry.pw_name if entry else user)


def _group(text: str) -> int:
    return int(text) if is_id(text) else grp.getgrnam(text).gr_gid
