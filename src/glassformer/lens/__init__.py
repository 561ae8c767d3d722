"""Look inside a model: the first pieces. Its own forward is run with a visitor that sees every tagged value.

Nothing here changes a model or trains one.
"""
