"""Other methods, to compare with and to choose: each is found by its name in `solvers`."""
