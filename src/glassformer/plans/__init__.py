"""The built-in plans of `glassformer investigate`, one TOML file each."""
