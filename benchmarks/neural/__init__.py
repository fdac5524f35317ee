"""Neural networks beside their peers."""
