"""Operations against what devices could do at most, and kernels slower than on other ranks."""
