"""Makes small and turned pictures of a large one by Pillow, as a gallery does."""

import io
import sys

from PIL import Image, ImageFilter, ImageOps

total = 0
for angle in (0, 7, 90, 181):
    picture = Image.open(sys.argv[1]).convert("RGB")
    picture = ImageOps.autocontrast(picture.rotate(angle, Image.Resampling.BICUBIC))
    for width in (1600, 800, 200):
        small = picture.resize((width, width * 2 // 3), Image.Resampling.LANCZOS).filter(ImageFilter.UnsharpMask(2))
        out = io.BytesIO()
        small.save(out, "JPEG", quality=85)
        total += out.tell()
print(total)
