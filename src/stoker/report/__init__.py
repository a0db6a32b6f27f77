"""How a diagnosis is shown. Computes nothing: two reports cannot disagree."""
