"""Groups and directions without a target: k-means, hierarchical clustering, principal components (rows E1, E2)."""

from assay.clustering._results import ClusterVariation, Starts
from assay.clustering.choose_k import KChoice, choose_k
from assay.clustering.kmeans import KMeans

__all__ = ["ClusterVariation", "KChoice", "KMeans", "Starts", "choose_k"]
