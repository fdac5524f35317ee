"""Neural networks and convolution on BLAS and our kernels (rows D1 to D4)."""

__all__: list[str] = []
