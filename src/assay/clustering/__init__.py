"""Groups and directions without a target: k-means, hierarchical clustering, principal components (rows E1, E2)."""

from assay.clustering._results import ClusterVariation, Starts
from assay.clustering.choose_k import KChoice, choose_k
from assay.clustering.describe import (
    ClusterPlane,
    ClusterProfile,
    Silhouettes,
    cluster_plane,
    describe_clusters,
    silhouettes,
)
from assay.clustering.kmeans import KMeans

__all__ = [
    "ClusterPlane",
    "ClusterProfile",
    "ClusterVariation",
    "KChoice",
    "KMeans",
    "Silhouettes",
    "Starts",
    "choose_k",
    "cluster_plane",
    "describe_clusters",
    "silhouettes",
]
