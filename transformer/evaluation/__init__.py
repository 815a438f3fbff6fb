"""Evaluation: metrics of translation quality, and the evaluation of trained models on test sets."""
