"""Changes of the desired state: manifests are read and sent, and the changed workloads are waited for."""
