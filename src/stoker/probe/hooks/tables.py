"""pandas and pyarrow: files of tables, and rows taken out of them one by one."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.counts import ARROW_ROWS, PANDAS_ROWS

_READERS = ("read_csv", "read_parquet", "read_feather", "read_pickle", "read_hdf", "read_json")

CALLS: Calls = {
    "pandas": {name: Call("read (pandas)", path=0, decodes=PANDAS_ROWS) for name in _READERS},
    "pandas.core.indexing": {
        "_LocationIndexer.__getitem__": Call("row (pandas)"),
        "_ScalarAccessIndexer.__getitem__": Call("row (pandas)"),
    },
    # Scripts take the function from where it is handed on; the class is the same in both places.
    "pyarrow.parquet": {"read_table": Call("read (pyarrow)", path=0, decodes=ARROW_ROWS)},
    "pyarrow.parquet.core": {
        "ParquetFile.__init__": Call("open (pyarrow)", path=1),
        "ParquetFile.read": Call("read (pyarrow)", decodes=ARROW_ROWS),
        "ParquetFile.read_row_group": Call("read (pyarrow)", decodes=ARROW_ROWS),
        "ParquetFile.read_row_groups": Call("read (pyarrow)", decodes=ARROW_ROWS),
    },
    "pyarrow.feather": {"read_table": Call("read (pyarrow)", path=0, decodes=ARROW_ROWS)},
}
