"""Prints the rows of Parquet files as JSON, one a line, as pyarrow sees them."""

import json
import sys

import pyarrow.parquet

for path in sys.argv[1:]:
    for row in pyarrow.parquet.ParquetFile(path).read().to_pylist():
        print(json.dumps(row, default=lambda value: value.hex() if isinstance(value, bytes) else str(value)))
