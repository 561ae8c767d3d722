"""Words for what the lens measures in a trained model; what has none goes by its own name."""

WORDS = {
    "entropy": ("attention entropy", "1: it looks everywhere alike, 0: at one token"),
    "saturation": ("attention saturation", "share of rows that put almost everything on one token"),
    "positions": ("positions to tokens", "how strong positions are beside the tokens they are added to"),
    "dead units": ("dead units", "share of feed-forward units that never fire"),
    "gradient/weight": ("gradient to weight", "norm of the gradient over the norm of the matrix"),
}


def about_inside(name: str) -> tuple[str, str]:
    """What it is called, and what it means.

    >>> about_inside("gradient/weight head.w")
    ('gradient to weight, head.w', 'norm of the gradient over the norm of the matrix')
    >>> about_inside("something else")
    ('something else', '')
    """
    for start in sorted(WORDS, key=len, reverse=True):
        words, meaning = WORDS[start]
        rest = name.removeprefix(start)
        if rest != name and (not rest or not rest[0].isalnum()):
            place = rest.strip(" .:/_-")
            return (f"{words}, {place}" if place else words), meaning
    return name, ""
