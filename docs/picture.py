"""Draw the picture of the README, docs/images/demo.png: the study of `pied demo`.

    python docs/picture.py

The file is stored with few colours, which makes it a quarter as large.
"""

import tempfile
from pathlib import Path

from PIL import Image

from pied.shell import demo

PICTURE = Path(__file__).parent / "images" / "demo.png"
WIDTH, COLOURS = 1100, 48
"""Pixels, and colours of the palette: the drawing has few."""

if __name__ == "__main__":
    study, _ = demo.run()
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "demo.png"
        demo.draw(study, drawn)
        with Image.open(drawn) as image:
            small = image.convert("RGB").resize((WIDTH, round(image.height * WIDTH / image.width)), Image.LANCZOS)
            small.quantize(COLOURS).save(PICTURE, optimize=True)
    print(f"{PICTURE} is written, {PICTURE.stat().st_size // 1000} kB.")
