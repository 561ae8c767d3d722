"""The presets of `glassformer train`, one TOML file each. `[many-images]`: what differs on 20,000 images or more."""
