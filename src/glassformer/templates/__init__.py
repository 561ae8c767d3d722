"""Files to begin from: `glassformer template` copies them. They are whole: a model trains as it is.

Nothing here is imported by the package.
"""
