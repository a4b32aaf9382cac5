"""Makes HTML live without a server: adds the data, the style and the script to it, and fetches nothing.

A script can be run late, twice, or for a copy of the element, depending on who shows the output; it therefore finds its
elements by a name that is made from their content. Where no script is run, the HTML stays what it is.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

# Text from the data can neither end the script nor begin a comment in it.
_HARMLESS = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def live(body: str, data: dict[str, Any], kind: str = "") -> str:
    """An element with this body, its style, and the script that makes it live."""
    known = json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_HARMLESS)
    name = sha256((body + known).encode()).hexdigest()[:16]
    style = f"<style>{_asset('live.css')}</style>"
    script = f'<script>({_asset("live.js")})("{name}",{known});</script>'
    return f'<div class="ceql-live {kind}" data-ceql="{name}">{style}{body}</div>{script}'


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8").strip()
