"""Clusters, trees and directions beside their peers."""
