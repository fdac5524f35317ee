"""Pictures of clusterings and principal components."""
