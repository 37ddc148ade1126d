"""A wave on a plane by NumPy, as its users write it: every step makes arrays anew."""

import numpy

SIDE, STEPS = 1400, 140
chance = numpy.random.default_rng(7919)
now = chance.normal(size=(SIDE, SIDE))
before = now.copy()
for _ in range(STEPS):
    around = numpy.roll(now, 1, 0) + numpy.roll(now, -1, 0) + numpy.roll(now, 1, 1) + numpy.roll(now, -1, 1)
    after = 2 * now - before + 0.1 * (around - 4 * now)
    before, now = now, numpy.clip(after * 0.999, -9, 9)
print(f"{numpy.abs(now).mean():.6f}")
