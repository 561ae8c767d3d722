"""The report of a study: one page, Markdown, CSV, JSON, a LaTeX table, and a summary for the terminal.

Nothing is computed here that decides anything: the numbers and words are the study's. Every format takes them from
`facts.py` in the same order.
"""

from glassformer.lab.report.terminal import summary as summary
from glassformer.lab.report.write import write_report as write_report
