"""Fits trees and components by scikit-learn on numbers by chance with a fixed seed."""

import numpy
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

chance = numpy.random.default_rng(7919)
rows = chance.normal(size=(40000, 30))
kinds = (rows[:, 0] * rows[:, 1] + rows[:, 2] > 0.3).astype(int)
reduced = PCA(10, svd_solver="full").fit_transform(rows)
forest = RandomForestClassifier(12, random_state=7919).fit(reduced, kinds)
boosted = HistGradientBoostingClassifier(max_iter=40, random_state=7919).fit(rows, kinds)
print(forest.score(reduced, kinds) > 0.9, boosted.score(rows, kinds) > 0.8)
