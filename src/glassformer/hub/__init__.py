"""Weights in and out of Hugging Face folders: one file per architecture for names, shapes and settings, both ways.

formats.py lists them, folder.py reads and writes whole folders, run.py makes a run of one. Nothing here downloads;
transformers is needed by parity.py alone, which compares with it.
"""
