"""The hosts of the zoo from hosts.csv: what their columns mean, and which of them to doubt."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.zoo_toml import Book, Entry, Row, rows, write

# Physical cores of one socket, where the tables' count disagrees with the processor's own name (the
# MLPerf field is per socket in most files and a total in some).
CORES_BY_NAME = {"7502": 32, "7513": 32, "9754": 128, "9634": 84, "9454": 48, "9534": 64}
HOST_ACCELERATORS = {
    "t4": "t4",
    "l4": "l4",
    "l40s": "l40s",
    "a10": "a10",
    "a10g": "a10g",
    "v100": "v100-sxm2-32",  # AWS p3dn has the 32 GB part
    "v100 16gb": "v100-sxm2-16",
    "v100 32gb": "v100-sxm2-32",
    "a100 40gb": "a100-sxm4-40",
    "a100 80gb": "a100-sxm4-80",
    "a100 80gb pcie": "a100-pcie-80",
    "h100": "h100-sxm5-80",
    "h100 80gb": "h100-sxm5-80",
    "h100 80gb sxm": "h100-sxm5-80",
    "h100 pcie": "h100-pcie-80",
    "h200": "h200-sxm-141",
    "b200": "b200-sxm-180",
    "rtx a6000": "rtxa6000",
    "trainium2": "trn2",
}
HOST_ALIASES = {
    "p3dn.24xlarge": ("p3dn",),
    "p4d.24xlarge": ("p4d",),
    "p4de.24xlarge": ("p4de",),
    "p5.48xlarge": ("p5",),
    "p5e.48xlarge": ("p5e",),
    "p5en.48xlarge": ("p5en",),
    "p6-b200.48xlarge": ("p6-b200",),
    "p6-b300.48xlarge": ("p6-b300",),
    "trn2.48xlarge": ("trn2-host",),
    "dgxa100_n100_ngc21.05_mxnet": ("dgx-a100", "dgxa100"),
    "dgxh100_n3_preview": ("dgx-h100", "dgxh100"),
    "tinybox_green": ("tinybox-green",),
    "tinybox_red": ("tinybox-red",),
}
BYTES = {"": 1e9, "G": 1e9, "GB": 1e9, "T": 1e12, "TB": 1e12, "TIB": 2.0**40, "PB": 1e15}


def sum_of_sizes(field: str) -> float | None:
    """Bytes in texts such as `2x 1TB NVMe + 2x 3.84TB NVMe`; None where it can't be told."""
    if not field or field in ("N/A", "TODO") or "Node" in field:
        return None
    total = 0.0
    pattern = r"(?:(\d+)\s*x\s*)?([\d.]+)\s*(TiB|TB|T|GB|G|PB)?\b"
    for count, size, unit in re.findall(pattern, field):
        if not unit and not re.fullmatch(r"[\d.]+", field):
            continue  # a speed or a rank, not a size
        total += (int(count) if count else 1) * float(size) * BYTES[unit.upper()]
    return total or None


def hosts(folder: Path) -> None:
    """hosts/*.toml, one file a provider; machines in racks share one."""
    books: dict[str, tuple[Book, list[Entry]]] = {}
    taken: set[str] = set()
    for row in rows("hosts"):
        on_premises = row["provider"].startswith("MLPerf on-prem/")
        place = "on-premises" if on_premises else row["provider"].lower()
        book, entries = books.setdefault(place, (Book(), []))
        name = re.sub(r"[^a-z0-9.+-]+", "-", row["name"].lower()).strip("-")
        if name in taken:
            name = f"{name}-{row['row_id']}"
        taken.add(name)
        entries.append(host(row, name, book, first=not name.endswith(f"-{row['row_id']}")))
    for place, (book, entries) in books.items():
        write(folder / f"hosts/{place}.toml", book, entries)


def host_accelerator(row: Row) -> str | None:
    """The zoo's name of a host's accelerator, or None where the zoo has none."""
    if row["name"] == "p4d.24xlarge":
        return "a100-sxm4-40"
    if row["name"] == "p4de.24xlarge":
        return "a100-sxm4-80"
    known = {one["accel_id"].lower() for one in rows("accelerators")}
    given = row["accel"].lower()
    found = HOST_ACCELERATORS.get(given, given)
    return found if found in known else None


def host(row: Row, name: str, book: Book, *, first: bool) -> Entry:
    """One host."""
    guessed = row["source"].startswith("unsourced")
    made = Entry(
        name,
        book,
        source="no source found: from memory of the provider's page" if guessed else row["source"],
        kind="estimate" if guessed else "published",
    )
    made.put("title", row["name"])
    made.put("provider", row["provider"].replace("MLPerf on-prem/", ""))
    accelerator = host_accelerator(row)
    made.put("accelerator", accelerator or row["accel"].lower())
    made.put("accelerators", int(row["n_accel"]))
    if first and row["name"] in HOST_ALIASES:
        made.put("aliases", HOST_ALIASES[row["name"]])
    if row["vcpus"]:
        made.number("vcpus", float(row["vcpus"]))
    put_cores(row, made)
    if row["cpu_model"]:
        made.put("processor", row["cpu_model"])
    memory = sum_of_sizes(row["mem_gb"].split(",")[0])
    if memory and memory > 8e9:  # a server with 1 GB is a slip of the pen
        made.number("memory_bytes", memory)
    disk = sum_of_sizes(row["local_nvme_gb"])
    if disk:
        made.number("disk_bytes", disk)
    if row["net_gbps"]:
        made.number("network_bytes_per_s", float(row["net_gbps"]) * 1e9 / 8)
    if row["ebs_gbps"]:
        made.number("volume_bytes_per_s", float(row["ebs_gbps"]) * 1e9 / 8)
    link = re.search(r"PCIe (?:Gen)?\s?([345])", row["host_link"])
    if link:
        made.put("link", f"pcie{link.group(1)}-x16")
    return made


def put_cores(row: Row, made: Entry) -> None:
    """Physical cores: stated, by the processor's name, or half of the hardware threads."""
    if not row["phys_cores"]:
        made.number(
            "cores",
            float(row["vcpus"]) / 2,
            kind="estimate",
            source="half of the vCPUs: two hardware threads a core, as the provider says nothing",
        )
        return
    cores = float(row["phys_cores"])
    if row["provider"].startswith("MLPerf"):
        sockets = re.match(r"\s*(\d+)x", row["cpu_model"])
        named = next((n for key, n in CORES_BY_NAME.items() if key in row["cpu_model"]), None)
        if named and sockets and named * int(sockets.group(1)) != cores:
            made.number(
                "cores",
                float(named * int(sockets.group(1))),
                kind="estimate",
                source="sockets times the cores of the processor named; the table has "
                f"{row['phys_cores']}",
            )
            return
        if row["cpu_model"] == "2x AMD Rome" or "8481C" in row["cpu_model"]:
            return  # the field counts something else: hardware threads of several sockets
        made.number("cores", cores)
        return
    made.number("cores", cores)
