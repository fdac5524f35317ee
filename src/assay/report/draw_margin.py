"""Pictures of kernels, units and support vector machines."""
