"""From a corpus to batches: download, clean, tokenise, store, group by length."""
