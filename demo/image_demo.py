"""A photo is made lighter and smoother with scikit-image, as its users do: to another colour space and back, then denoised.

The photo comes with scikit-image and is laid side by side several times, so that nothing is read from a network and every run
does the same work. Each step makes arrays as large as the whole photo and throws them away. The last line is the result's mean
and the seconds that the steps took.
"""

import sys
import time

import numpy as np
import skimage
from skimage import color, data, exposure, restoration

TILES = int(sys.argv[1]) if len(sys.argv) > 1 else 4


def lighter(photo: np.ndarray) -> np.ndarray:
    """The photo with its lightness stretched over the whole range."""
    lab = color.rgb2lab(photo)
    lab[..., 0] = exposure.rescale_intensity(lab[..., 0], out_range=(0, 100))
    return color.lab2rgb(lab)


def main() -> None:
    photo = np.tile(data.astronaut(), (TILES, TILES, 1))
    start = time.perf_counter()
    smooth = restoration.denoise_tv_chambolle(lighter(photo), max_num_iter=10, channel_axis=-1)
    seconds = time.perf_counter() - start
    height, width, _ = photo.shape
    print(f"scikit-image {skimage.__version__}: {width} x {height} pixels, mean {smooth.mean():.6f}, {seconds:.2f} s")


if __name__ == "__main__":
    main()
