"""Multiplies and solves sparse matrices by SciPy."""

import numpy
import scipy.ndimage
import scipy.sparse
import scipy.sparse.linalg

one = scipy.sparse.random(30000, 30000, 0.0004, "csr", random_state=7919)
square = one @ one.T
print(square.nnz)
side = 250
line = scipy.sparse.diags_array([-1, 2.01, -1], offsets=[-1, 0, 1], shape=(side, side))
grid = scipy.sparse.kron(line, scipy.sparse.eye_array(side)) + scipy.sparse.kron(scipy.sparse.eye_array(side), line)
solved = scipy.sparse.linalg.spsolve(grid.tocsc(), numpy.ones(side * side))
print(f"{solved.max():.4f}")
field = numpy.random.default_rng(7919).normal(size=(2000, 2000))
for width in (3, 9, 21):
    field = scipy.ndimage.zoom(scipy.ndimage.gaussian_filter(field, width), 1.01)
print(f"{field.std():.6f}")
