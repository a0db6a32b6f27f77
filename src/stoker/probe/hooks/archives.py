"""Archives and compression of the standard library: zip, tar, gzip, zlib, bz2, lzma."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "zipfile": {
        "ZipFile.__init__": Call("open (zip)", path=1),
        "ZipFile.open": Call("look-up (zip)"),
        "ZipFile.read": Call("read (zip)"),
        "ZipExtFile.read": Call("read (zip)"),
        "ZipExtFile.read1": Call("read (zip)"),
    },
    "tarfile": {
        "TarFile.next": Call("look-up (tar)"),
        "TarFile.extractfile": Call("look-up (tar)"),
        "_FileInFile.read": Call("read (tar)"),
    },
    "gzip": {"GzipFile.read": Call("decompress (gzip)"), "decompress": Call("decompress (gzip)")},
    "zlib": {"decompress": Call("decompress (zlib)")},
    "bz2": {"decompress": Call("decompress (bz2)"), "BZ2File.read": Call("decompress (bz2)")},
    "lzma": {"decompress": Call("decompress (lzma)"), "LZMAFile.read": Call("decompress (lzma)")},
}
