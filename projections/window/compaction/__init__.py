"""The steps of a compaction: selection, request, summary, judgement, continuation."""
