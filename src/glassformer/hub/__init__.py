"""Weights and settings as the Hugging Face libraries name and shape them, to ours and back: one file per architecture.

Plain functions over dictionaries. Nothing here downloads, and nothing needs `transformers`.
"""
