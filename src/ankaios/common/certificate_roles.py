"""The role of a client certificate, which is an organisational unit of its subject.

A certificate with a role can be used for this role only. A certificate without one, for example one that was made for
Eclipse Ankaios, can be used for both unless the server requires roles.
"""

AGENT_ROLE = "ankaios-agent"
COMMANDER_ROLE = "ankaios-commander"
ROLES = (AGENT_ROLE, COMMANDER_ROLE)
