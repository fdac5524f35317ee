"""Groups and directions without a target: k-means, hierarchical clustering, principal components (rows E1, E2)."""

from assay.clustering._explained import Biplot, ExplainedVariance, Loadings
from assay.clustering.components import PrincipalComponents
from assay.clustering.dendrogram import Dendrogram
from assay.clustering.hierarchical import HierarchicalClustering

__all__ = ["Biplot", "Dendrogram", "ExplainedVariance", "HierarchicalClustering", "Loadings", "PrincipalComponents"]
