"""Cases of the generative family; every module here exports `CASES`, and the runner finds them."""
