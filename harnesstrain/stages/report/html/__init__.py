"""A report as one page of HTML that opens anywhere: no server, no network, no script needed to read it.

Read this to learn how a report is laid out.  Needs the extra `report`.  May import: the report's records, jinja2,
altair, vl_convert.

page.py         to_html: records into the template
figures.py      charts as SVG that follow the page's colours
glossary.py     what the words mean
cells.py        numbers, changes and states as the template shows them
report.html.j2  the page; macros.html.j2: what it repeats
style.css       its looks, light and dark, wide and narrow
traces.py       trace_files: each rollout as a page of its own
trace.html.j2   such a page; trace.css: its looks
script.js       sorting, filtering, opening: the page is complete without
"""

from harnesstrain.stages.report.html.page import to_html
from harnesstrain.stages.report.html.traces import HtmlFile, trace_files

__all__ = ["HtmlFile", "to_html", "trace_files"]
