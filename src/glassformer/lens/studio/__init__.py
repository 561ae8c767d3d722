"""The studio: the lens as a page that is served live, on this machine, to whoever has its address.

What comes in is checked first (guard, requests); heavy work waits in one queue (work_queue); nothing here trains or
writes.
"""
