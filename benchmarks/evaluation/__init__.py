"""Cases of evaluation; every module here exports `CASES`, and the runner finds them."""
