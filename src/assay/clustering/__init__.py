"""Groups and directions without a target: k-means, hierarchical clustering, principal components (rows E1, E2)."""

from assay.clustering.dendrogram import Dendrogram
from assay.clustering.hierarchical import HierarchicalClustering

__all__ = ["Dendrogram", "HierarchicalClustering"]
