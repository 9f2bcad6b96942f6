"""The paper's tables, figures and statistics, made again from stored records of runs."""
