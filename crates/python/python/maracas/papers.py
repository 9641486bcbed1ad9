"""Experiments of papers, memories alone, and the menu of policies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maracas import _maracas


@dataclass(frozen=True, slots=True)
class Experiment:
    """What came of an experiment that was run again."""

    name: str
    """Its word, such as `"maracas-table2"`."""
    text: str
    """Tables and verdicts, as `maracas reproduce` prints them (Markdown)."""
    findings: dict[str, Any]
    """The same as `maracas reproduce --json` prints it."""
    figures: dict[str, str]
    """Its figures: SVG, by the name of the file."""

    def _repr_markdown_(self) -> str:
        """Show it in a notebook."""
        return self.text

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def reproduce(*names: str, seeds: int | None = None, jobs: int | None = None) -> list[Experiment]:
    """Run papers' experiments again, by their names, those of papers, or `"all"`.

    `seeds` is how many parameter sets are drawn, in place of an experiment's own number; `jobs` how
    many scenarios run at once. Costs of scheduling primitives are those recorded for the documents.
    """
    done = _maracas.reproduce(list(names), seeds, jobs)
    return [
        Experiment(name, text, json.loads(found), dict(figures))
        for name, text, found, figures in done
    ]


def experiments() -> list[dict[str, Any]]:
    """Return what `reproduce` knows, as `maracas reproduce list --json` prints it."""
    known: list[dict[str, Any]] = json.loads(_maracas.experiments())
    return known


def memory(preset: str, requestors: Sequence[Mapping[str, str | float]]) -> dict[str, Any]:
    """Solve a static mix of memory requestors on a platform known by name.

    Each has `pattern`, `W` (requests in flight), `Z_ns` (thinking between them) and `wb`
    (write-backs per read); the answer is that of `maracas memory --json`.
    """
    mix = {"preset": preset, "requestors": [dict(one) for one in requestors]}
    answer: dict[str, Any] = json.loads(_maracas.memory(json.dumps(mix)))
    return answer


def policies() -> list[dict[str, Any]]:
    """Return every policy with its summary, its paper and its parameters."""
    known: list[dict[str, Any]] = json.loads(_maracas.policies())
    return known
