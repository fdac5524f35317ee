"""Groups and directions without a target: k-means, hierarchical clustering, principal components (rows E1, E2)."""

from assay.clustering._explained import Biplot, ExplainedVariance, Loadings
from assay.clustering._results import ClusterVariation, Starts
from assay.clustering.choose_k import KChoice, choose_k
from assay.clustering.components import PrincipalComponents
from assay.clustering.dendrogram import Dendrogram
from assay.clustering.describe import (
    ClusterPlane,
    ClusterProfile,
    Silhouettes,
    cluster_plane,
    describe_clusters,
    silhouettes,
)
from assay.clustering.hierarchical import HierarchicalClustering
from assay.clustering.kmeans import KMeans

__all__ = [
    "Biplot",
    "ClusterPlane",
    "ClusterProfile",
    "ClusterVariation",
    "Dendrogram",
    "ExplainedVariance",
    "HierarchicalClustering",
    "KChoice",
    "KMeans",
    "Loadings",
    "PrincipalComponents",
    "Silhouettes",
    "Starts",
    "choose_k",
    "cluster_plane",
    "describe_clusters",
    "silhouettes",
]
