"""Plotly's script, packed to travel inside the page: deflated and in base64, unpacked by the browser."""

import base64
import zlib
from functools import cache

BEST_COMPRESSION = 9


@cache
def packed_plotly() -> str:
    """The same text for the same version of Plotly. The browser's DecompressionStream("deflate") reads it."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(zlib.compress(get_plotlyjs().encode(), BEST_COMPRESSION)).decode("ascii")
