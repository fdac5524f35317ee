"""Long simulations that check statistical promises: `python -m simulations` writes docs/simulations.md."""
