"""Weights in and out of Hugging Face folders: one file per architecture for names, shapes and settings, both ways; and
runs as ONNX files, one entry per layer.

formats.py lists the architectures, folder.py reads and writes whole folders, run.py makes a run of one. onnx_file.py
writes a model, onnx_layers.py has the entries. Nothing here downloads; transformers is needed by parity.py alone, which
compares with it, onnx by the ONNX files alone.
"""
