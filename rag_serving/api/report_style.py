"""Colours and type that reports and their index have in common.

Belongs here: the shared rules of their style sheets. Does not belong here: what one page alone has (`report_index`,
`rag_assets.reports.html`).
"""

from __future__ import annotations

REPORT_STYLE = """\
:root { color-scheme: light dark; --text: #1c2430; --soft: #5b6675; --line: #d9dee5; --back: #ffffff; --card: #f5f7fa;
  --good: #1a7f4b; --bad: #b3261e; --accent: #2f5d8c; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ee; --soft: #9aa6b5; --line: #333c48; --back: #14181e;
  --card: #1d232b; --good: #5cc98f; --bad: #ff8a80; --accent: #8ab8e6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 2rem 1.25rem 4rem; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
"""
