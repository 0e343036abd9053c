"""What server, agent and command line share: names, workloads, states, paths, templates, conversion, configuration.

Nothing here imports the other packages.

[impl->swdd~common-library-dependencies~1]
[impl->swdd~common-interface-definitions~1]
[impl->swdd~common-helper-methods~1]
"""
