"""Cases of the latent family; every module here exports `CASES`, and the runner finds them."""
