"""The report: one page that needs nothing else, the paper's words beside what comes out here."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from holdfast.paper import prose, table
from holdfast.paper.published import CLAIMS
from holdfast.paper.result import Result, Row

HEADINGS = {
    "table1-paper": "Main comparison",
    "table1-drift": "The same in a world that drifts",
    "decomposition": "Recurrence and adaptive λ",
    "ablation": "Ablation",
    "sensitivity": "Sensitivity to the malicious prior",
    "shift": "Distribution shift",
    "frontier": "Constraint frontier",
}

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --page: #fdfdfc; --quiet: #5c5c5c;
  --rule: #dcdcdc; --loud: #b00000; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e6; --page: #17181a; --quiet: #a5a5a5; --rule: #3a3b3e; --loud: #ff7b72; } }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: 1.2rem; }
h3 { margin-bottom: 0.2rem; font-size: 1rem; }
.quiet, figcaption, small { color: var(--quiet); font-size: 0.85rem; }
.loud { color: var(--loud); border: 2px solid; padding: 0.5rem 0.8rem; font-weight: bold; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.88rem; }
th, td { padding: 0.3rem 0.6rem; text-align: right; border-bottom: 1px solid var(--rule);
  vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1.2rem 0; }
figure svg { display: block; width: 100%; height: auto; background: white; border-radius: 6px; }
"""


def page(results: Sequence[Result], pictures: Mapping[str, Mapping[str, str]]) -> str:
    """Return the report; `pictures` has SVG texts by experiment and by the figure's name."""
    body = "".join(_section(result, pictures[result.experiment]) for result in results)
    links = " · ".join(
        f'<a href="#{escape(result.experiment)}">{escape(HEADINGS[result.experiment])}</a>'
        for result in results
    )
    loud = _loud(" / ".join(sorted({table.warning(result) for result in results} - {""})))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's results, made anew</title>
<style>{STYLE}</style>
</head>
<body>
<h1>The paper's results, made anew</h1>
{loud}
<p>Lin et al., <cite>Learning-Driven Adaptive Audit Scheduling</cite>: each experiment, what the
paper says beside what comes out here. Every seed counts, none is left out.</p>
<nav>{links}</nav>
{body}
</body>
</html>
"""


def _section(result: Result, pictures: Mapping[str, str]) -> str:
    name = result.experiment
    shown = [row for row in result.rows if not table.is_constant(row)]
    constants = [row for row in result.rows if table.is_constant(row)]
    figures = "".join(
        f'<figure aria-label="{escape(each)}">{embedded(each, text)}</figure>'
        for each, text in pictures.items()
    )
    words = "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in prose.paragraphs(result))
    beside = (
        f"<details><summary>All {len(constants)} constant actions</summary>"
        f"{_table(result, constants)}</details>"
        if constants
        else ""
    )
    return f"""<section id="{escape(name)}">
<h2>{escape(HEADINGS[name])}</h2>
{_loud(table.warning(result))}
<p class="quiet">{escape(table.title(result))}</p>
<h3>What the paper says</h3>
<p>{escape(CLAIMS[name])}</p>
<h3>What comes out here</h3>
{_table(result, shown)}
<p class="quiet">{escape(table.caption(result))}. {escape(table.EXPLAINED)}.</p>
{beside}
{figures}
<h3>Where they differ, and why</h3>
{words}</section>
"""


def _loud(text: str) -> str:
    return f'<p class="loud">{escape(text)}</p>' if text else ""


def _table(result: Result, rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.HEADINGS)
    body = "".join(
        f"<tr>{''.join(_cell(cell) for cell in table.cells(result, row))}</tr>\n" for row in rows
    )
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def _cell(cell: table.Cell) -> str:
    interval = f"<br><small>{escape(cell.interval)}</small>" if cell.interval else ""
    return f"<td>{escape(cell.text)}{interval}</td>"


def embedded(name: str, svg: str) -> str:
    """Return the picture as a part of a page: without its own head, its names its own."""
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
