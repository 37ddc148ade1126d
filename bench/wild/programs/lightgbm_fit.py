"""Fits LightGBM on numbers by chance with a fixed seed."""

import lightgbm
import numpy

chance = numpy.random.default_rng(7919)
rows = chance.normal(size=(120000, 40))
values = rows[:, 0] * rows[:, 1] + numpy.sin(rows[:, 2]) + chance.normal(size=len(rows)) * 0.1
settings = {"objective": "regression", "num_leaves": 63, "num_threads": 2, "verbose": -1, "deterministic": True, "seed": 7919}
model = lightgbm.train(settings, lightgbm.Dataset(rows, values), 60)
print(model.num_trees())
