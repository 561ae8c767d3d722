"""glassformer trains, explains and ships small attention models, and hides nothing."""

__version__ = "0.1.0"
