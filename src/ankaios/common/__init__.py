"""Code that server, agent and command line share: names, workloads, states, paths, templates, configuration.

It does not import the other packages.

[impl->swdd~common-library-dependencies~1]
[impl->swdd~common-interface-definitions~1]
[impl->swdd~common-helper-methods~1]
"""
