"""The vocabulary every other part speaks. It imports nothing of them.

[impl->swdd~common-library-dependencies~1]
[impl->swdd~common-interface-definitions~1]
[impl->swdd~common-helper-methods~1]
"""
