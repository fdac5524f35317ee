"""Cases of the linear family; every module here exports `CASES`, and the runner finds them."""
