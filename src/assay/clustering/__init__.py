"""Groups and directions without a target: k-means, hierarchical clustering, principal components (rows E1, E2)."""

from assay.clustering._explained import Biplot, ExplainedVariance, Loadings
from assay.clustering._results import ClusterVariation, Starts
from assay.clustering.components import PrincipalComponents
from assay.clustering.dendrogram import Dendrogram
from assay.clustering.hierarchical import HierarchicalClustering
from assay.clustering.kmeans import KMeans

__all__ = [
    "Biplot",
    "ClusterVariation",
    "Dendrogram",
    "ExplainedVariance",
    "HierarchicalClustering",
    "KMeans",
    "Loadings",
    "PrincipalComponents",
    "Starts",
]
