"""How good the diagnosis is: labelled jobs in, precision, recall and places out."""
