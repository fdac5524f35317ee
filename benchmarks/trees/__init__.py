"""Trees, forests and boosting beside their peers."""
