"""Groups and directions without a target: k-means, hierarchical clustering, principal components (rows E1, E2)."""

__all__: list[str] = []
