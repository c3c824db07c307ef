"""The report as a page, in a real browser where there is one."""
