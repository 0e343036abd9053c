"""Checks the access rules of a workload. Input: its plain form. Output: problems.

A rule may be correct here and allow much more with Eclipse Ankaios; the same manifest is used with both.
"""

from collections.abc import Iterator

from ankaios.cli.validation.findings import WARNING, Form, Problem


def check_access_rules(form: Form) -> Iterator[Problem]:
    for number, rule in enumerate(form.get("controlInterfaceAccess", {}).get("allowRules", [])):
        for mask in rule.get("filterMasks", []):
            if mask.startswith("*."):
                yield Problem(
                    ("controlInterfaceAccess", "allowRules", number),
                    f"'{mask}' begins with a wildcard: here it allows what it names and what is below, with Eclipse "
                    "Ankaios also every path above, even the whole state; begin it with 'desiredState'",
                    WARNING,
                )
