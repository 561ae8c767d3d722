"""The studio's page: one document with its style and script inside; a content policy allows these two and no other."""

import re

from glassformer.lens.page import bundle, hashed, web

DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>glassformer studio</title>
<link rel="icon" href="data:,">
<style>{{style}}</style>
</head>
<body>
<noscript>This page draws with JavaScript, which is switched off here.</noscript>
<div id="studio"></div>
<script type="module">{{script}}</script>
</body>
</html>
"""


def document() -> tuple[str, str]:
    """The page, and the policy it is sent with."""
    style, script = web("style.css") + web("what_if.css") + web("studio.css"), bundle("studio")
    policy = (
        f"default-src 'none'; script-src '{hashed(script)}'; style-src '{hashed(style)}'; img-src data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    filled = {"style": style, "script": script}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], DOCUMENT), policy
