"""Filters the frames of a picture that moves by OpenCV."""

import sys

import cv2
import numpy

frame = cv2.imread(sys.argv[1])
total = 0
for step in range(55):
    moved = numpy.roll(frame, step * 20, axis=1)
    smooth = cv2.bilateralFilter(cv2.resize(moved, None, fx=0.5, fy=0.5), 5, 40, 40)
    gray = cv2.cvtColor(smooth, cv2.COLOR_BGR2GRAY)
    edges = cv2.Canny(cv2.GaussianBlur(gray, (9, 9), 2), 20, 60)
    blurred = cv2.medianBlur(moved, 5)
    total += int(edges.sum() // 255) + int(blurred[::97].sum())
print(total)
