"""The test set: its seal, the vault that holds its rows, the looks at them, and what the Ladder lets out."""
