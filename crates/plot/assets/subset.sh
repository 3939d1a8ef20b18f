#!/bin/sh
# Makes the two fonts of this folder from Debian's package fonts-dejavu-core 2.37, with fonttools 4.68.0 (pyftsubset).
# The plots' text: Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic and Georgian letters, punctuation, arrows,
# mathematics, boxes and symbols; in bold only the first three alphabets. Hinting is of no use to the rasteriser.
set -eu
cd "$(dirname "$0")"
from=${1:-/usr/share/fonts/truetype/dejavu}
pyftsubset "$from/DejaVuSans.ttf" --no-hinting --notdef-outline --output-file=DejaVuSans.ttf \
    --unicodes='U+0020-052F,U+0530-06FF,U+0750-077F,U+10A0-10FF,U+1D00-1FFF,U+2000-23FF,U+2500-27BF,U+2C60-2C7F,U+2DE0-2E7F,U+A640-A69F,U+A720-A7FF,U+FB00-FB4F,U+FB50-FDFF,U+FE70-FEFF,U+FFFD'
pyftsubset "$from/DejaVuSans-Bold.ttf" --no-hinting --notdef-outline --output-file=DejaVuSans-Bold.ttf \
    --layout-features=kern,mark,mkmk,ccmp,locl \
    --unicodes='U+0020-036F,U+0370-052F,U+1E00-1FFF,U+2000-206F,U+20A0-20CF,U+2190-2193,U+2200-2265,U+FFFD'
