"""Texts that would break a page that does not take them for texts, and results made of them."""

from __future__ import annotations

from pathlib import Path

import isinglass as ig
from isinglass.diagnosis import Trace

HOSTILE = {
    "script": "</script><script>window.broken = 1</script> the Amber Gate",
    "image": "<img src=x onerror='window.broken = 2'> <!-- ]]> {{ 7 * 7 }} {% raw %} &amp; &lt;",
    "direction": "left \u202e the Amber Gate \u202d \u2066 right \u200f end",
    "nothing": "a null \x00 a bell \x07 an escape \x1b[31m red",
    "lines": "one\u2028two\u2029three\u0085four",
    "emoji": "👩‍👩‍👧‍👦 at the Amber Gate 🌊🏳️‍🌈 and 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 e\u0301" + "\u0335" * 60,
    "long": "x" * 1_000 + " the Amber Gate",
    "arabic": "هذا نص عربي طويل عن بوابة",
    "style": "</style><style>body { display: none }</style>",
}
LINE = "x" * 1_000_000
"""What stands for the thousand in the trace: counting the words of a megabyte a hundred times is no test of a page."""

PASSAGES = [{"title": f"{name} <b>", "text": text, "id": f"{name}\"'><i>"} for name, text in HOSTILE.items()]
QUESTION = "Where is </script><b>the\u202e Amber Gate</b>?"


def write_trace(path: Path) -> Path:
    """Two policies at two budgets on two questions made of these texts."""
    for name, question in (("first", QUESTION), ("second", "What is red?")):
        for policy in ("bridge", "naive"):
            for budget in (20, 60):
                trace = Trace(
                    path, text=True, query_id=f"{name}<u>", bucket=f"<s>{name}", answers=["the Amber Gate"],
                    gold=[PASSAGES[0]["id"], "never <em>retrieved"], dataset="</title>",
                )  # fmt: skip
                ig.select(question, PASSAGES, budget, policy=policy, trace=trace)
    path.write_text(path.read_text().replace("x" * 1_000, LINE))
    return path
