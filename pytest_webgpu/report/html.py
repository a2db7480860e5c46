"""The report as one HTML page that needs nothing else."""

from __future__ import annotations

from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import all_tables

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>WebGPU: {{ results.verdict }}</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
  table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
  tr { border-bottom: 1px solid #8884; } .note { color: #666; }
</style>
<h1>WebGPU: {{ results.verdict }}</h1>
<p>{% for what, count in results.outcomes.items() %}{{ count }} {{ what }}{{ ", " if not loop.last }}{% endfor %}</p>
<ul>
{% for nodeid in results.failed %}<li>failed: <code>{{ nodeid }}</code>
<pre>{{ results.messages[nodeid] }}</pre></li>
{% endfor %}{% for reason, count in results.reasons.most_common() %}<li>skipped: {{ count }} because {{ reason }}</li>
{% endfor %}</ul>
{% for table in tables %}
<h2>{{ table.title }}</h2>
<table>
<tr>{% for name in table.columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% if table.note %}<p class="note">{{ table.note }}</p>{% endif %}
{% endfor %}
</html>
"""


def render(results: Results) -> str:
    """Raises ModuleNotFoundError where jinja2, of the extra `report`, is not installed."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return str(environment.from_string(PAGE).render(results=results, tables=list(all_tables(results)))) + "\n"
