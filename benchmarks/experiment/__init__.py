"""The experiment engine beside the same protocol written by hand."""
