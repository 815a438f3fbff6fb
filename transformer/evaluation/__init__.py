"""Scoring translations: the metrics, and the evaluation of whole test sets."""
