"""What `rankscope gc` removes of runs, and what it keeps."""
